"""What every tool hands back after it wrote a quantized folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

OnProgress = Callable[[int, int, float | None], None]
"""Told (layers done, of how many, seconds left); seconds are None until one layer is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A folder that was written: layers that a calibrated method rounded to nearest after all, and what to know.

    `fallen_back` holds (layer, reason) in the order of the model.
    """

    fallen_back: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
