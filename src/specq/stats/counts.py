"""Tests on counts: are there more of these than of those, and do draws follow a known law?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

SMALLEST_EXPECTED = 5.0


def fisher_more(a: int, n: int, b: int, m: int) -> float:
    """One-sided Fisher exact p-value of "a of n is no larger a share than b of m".

    Raises:
        ValueError: a count is negative or above its total.
    """
    if not (0 <= a <= n and 0 <= b <= m):
        raise ValueError(f"counts {a} of {n} and {b} of {m}: allowed is 0 up to the total")
    from scipy.stats import hypergeom

    return float(hypergeom.sf(a - 1, n + m, a + b, n))


def g_test(counts: Sequence[int], expected: Sequence[float]) -> float:
    """p-value of the likelihood-ratio (G) test that counts were drawn from the law `expected`.

    All cells that expect fewer than 5 draws are pooled, with more until they expect 5 together. A draw from a cell of
    probability 0 gives 0; one cell alone gives 1.

    Raises:
        ValueError: the lengths differ or nothing was drawn.
    """
    observed, law = _pair(counts, expected)
    if np.any((law == 0) & (observed > 0)):
        return 0.0
    wanted = law * observed.sum()
    order = np.argsort(wanted)
    # The chi-square law needs enough in every cell: pool all small ones, and more if they are too little.
    small = int((wanted < SMALLEST_EXPECTED).sum())
    pooled = max(small, 1 + int(np.searchsorted(np.cumsum(wanted[order]), SMALLEST_EXPECTED)))
    if wanted[order[0]] < SMALLEST_EXPECTED:
        first, rest = order[:pooled], order[pooled:]
        observed = np.append(observed[rest], observed[first].sum())
        wanted = np.append(wanted[rest], wanted[first].sum())
    if observed.size < 2:
        return 1.0
    from scipy.special import chdtrc, xlogy

    g = 2.0 * float(xlogy(observed, observed / wanted).sum())
    return float(chdtrc(observed.size - 1, max(g, 0.0)))


def tv_upper(counts: Sequence[int], expected: Sequence[float], level: float = 0.95) -> float:
    """One-sided upper bound of the total variation distance between the drawn law and `expected`.

    The empirical distance plus sqrt(ln(1 / (1 - level)) / (2 draws)), at most 1. It holds for
    the cells as given: one draw moves the empirical distance by at most 1 / draws (McDiarmid's
    inequality), and its mean is at least the true distance (the distance is convex).

    Raises:
        ValueError: the lengths differ or nothing was drawn.
    """
    observed, law = _pair(counts, expected)
    draws = observed.sum()
    empirical = 0.5 * float(np.abs(observed / draws - law).sum())
    return min(1.0, empirical + math.sqrt(-math.log(1 - level) / (2 * float(draws))))


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSamples:
    """Two samples of outcomes: the p-value of one law behind both, and how far apart they are.

    `tv` is the empirical total variation distance over `cells` cells, `tv_upper` its one-sided upper 95 % bound.
    """

    p: float
    tv: float
    tv_upper: float
    cells: int


def two_samples(one: Mapping[str, int], other: Mapping[str, int], level: float = 0.95) -> TwoSamples:
    """Were counts of outcomes drawn from one law? The likelihood-ratio (G) test of homogeneity, and the distance.

    Outcomes that expect fewer than 5 draws in either sample are pooled. The bound is for the cells as they are pooled:
    sqrt(ln(1 / (1 - level)) (1/n + 1/m) / 2) above the empirical distance, by McDiarmid's inequality, for a draw moves
    it by at most 1/n or 1/m, and its mean is at least the true distance.

    Raises:
        ValueError: nothing was drawn in one of them.
    """
    n, m = sum(one.values()), sum(other.values())
    if n <= 0 or m <= 0:
        raise ValueError(f"{n} and {m} draws: allowed is a draw in each")
    cells: list[tuple[int, int]] = []
    rest = [0, 0]
    for outcome in sorted({*one, *other}):
        pair = one.get(outcome, 0), other.get(outcome, 0)
        if sum(pair) * min(n, m) / (n + m) < SMALLEST_EXPECTED:
            rest = [rest[0] + pair[0], rest[1] + pair[1]]
        else:
            cells.append(pair)
    cells += [(rest[0], rest[1])] if sum(rest) else []
    table = np.asarray(cells, dtype=float)
    tv = 0.5 * float(np.abs(table[:, 0] / n - table[:, 1] / m).sum())
    upper = min(1.0, tv + math.sqrt(-math.log(1 - level) * (1 / n + 1 / m) / 2))
    if len(cells) < 2:
        return TwoSamples(p=1.0, tv=tv, tv_upper=upper, cells=len(cells))
    from scipy.special import chdtrc, xlogy

    wanted = table.sum(axis=1, keepdims=True) * np.asarray([[n, m]]) / (n + m)
    g = 2.0 * float(xlogy(table, table / wanted).sum())
    return TwoSamples(p=float(chdtrc(len(cells) - 1, max(g, 0.0))), tv=tv, tv_upper=upper, cells=len(cells))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given; each at most 1."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    so_far = 0.0
    for rank, i in enumerate(order):
        so_far = max(so_far, min(1.0, (len(order) - rank) * p_values[i]))
        adjusted[i] = so_far
    return adjusted


def _pair(counts: Sequence[int], expected: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    observed, law = np.asarray(counts, dtype=float), np.asarray(expected, dtype=float)
    if observed.shape != law.shape or observed.sum() <= 0:
        raise ValueError(f"{observed.size} counts and {law.size} probabilities: allowed is as many, with a draw")
    return observed, law / law.sum()
