"""Least squares of times on lengths, and how far each coefficient may lie from nothing by the scatter of the points.

Lengths scatter for reasons of their own (blocks, kernels that change with the shape), which repeats of one length do
not show. So a coefficient is held against the residuals of the fit: Student's t of n - k degrees of freedom, which for
the last one is the F test of nested models (Draper and Smith, Applied Regression Analysis, 3rd ed., 1998, 1.4 and 6.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Coefficients, and the half width of each one's interval.

    `within` is None where there are no more points than coefficients, or the points do not tell these apart.
    """

    coefficients: tuple[float, ...]
    within: tuple[float, ...] | None


def least(design: np.ndarray, values: np.ndarray, scale: np.ndarray) -> Fit:
    """Least squares of values [n] on design [n, k], each error in units of its scale [n]."""
    scaled, told = design / scale[:, None], values / scale
    found, _, rank, _ = np.linalg.lstsq(scaled, told, rcond=None)
    points, columns = design.shape
    coefficients = tuple(float(one) for one in found)
    if rank < columns or points == columns:
        return Fit(coefficients=coefficients, within=None)
    from scipy.special import stdtrit

    residual = told - scaled @ found
    variance = float(residual @ residual) / (points - columns)
    t = float(stdtrit(points - columns, 0.5 + LEVEL / 2))
    own = np.diag(np.linalg.inv(scaled.T @ scaled))
    return Fit(coefficients=coefficients, within=tuple(t * math.sqrt(variance * float(one)) for one in own))
