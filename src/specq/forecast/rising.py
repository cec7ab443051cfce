"""Passes over more tokens take no less than passes over fewer: the one rule for seconds, given or measured here.

Beyond noise, seconds that were given are refused (`files_check`). What specq measured itself is measured for longer;
where it still falls this is said, and the steps concerned count as uncertain enough to be either.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from specq.core.nouns import counted
from specq.forecast.cost import MEDIAN_ERROR, Curve, Point, named

NOISE = 0.05
"""How far below a pass over fewer tokens a pass may be measured: beyond it something else was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """A pass over `more` tokens that takes less than one over `fewer`; both with their seconds."""

    fewer: int
    fewer_s: float
    more: int
    more_s: float


def falls(passes: Iterable[tuple[int, float]]) -> list[Fall]:
    """Of passes, tokens and seconds each, those that take less than a pass over fewer tokens, beyond noise."""
    found: list[Fall] = []
    slowest: tuple[int, float] | None = None
    for tokens, seconds in sorted(passes):
        if slowest is not None and seconds < slowest[1] * (1 - NOISE):
            found.append(Fall(fewer=slowest[0], fewer_s=slowest[1], more=tokens, more_s=seconds))
        if slowest is None or seconds >= slowest[1]:
            slowest = tokens, seconds
    return found


def of_points(plain: Point, points: Iterable[Point]) -> list[Fall]:
    """The falls of what was measured, a plain step's pass among them."""
    return falls([(1, plain.verify_s), *((one.proposed + 1, one.verify_s) for one in points if one.proposed)])


def widened(curve: Curve) -> Curve:
    """A curve at one depth, whose points that fall, and those that they fall below, are off by half of the fall."""
    points = {one.proposed: one for one in curve.points}
    for fall in of_points(curve.plain, curve.points):
        for proposed in (fall.fewer - 1, fall.more - 1):
            if (one := points.get(proposed)) is not None and proposed:
                error = (fall.fewer_s - fall.more_s) / one.step_s / 2
                points[proposed] = replace(one, spread=max(one.spread, error * math.sqrt(one.n) / MEDIAN_ERROR))
    return replace(curve, points=tuple(points.values()))


def told(curves: Mapping[str, Curve]) -> list[str]:
    """What is said of curves that fall, a sentence each; none where none does."""
    found = []
    for name, curve in named(curves):
        for depth in curve.depths or (curve,):
            for fall in of_points(depth.plain, depth.points):
                fewer = "a plain step's" if fall.fewer == 1 else f"one over {counted(fall.fewer, 'token')}"
                found.append(
                    f"{name}: after {counted(depth.context, 'token')} a pass over {fall.more} took "
                    f"{1000 * fall.more_s:.2f} ms, and {fewer} {1000 * fall.fewer_s:.2f} ms, though more tokens never "
                    f"take less, beyond noise of {100 * NOISE:.0f} %; it was measured again, and its forecasts are as "
                    "much less certain: see that nothing else runs here, and type the same again."
                )
    return found
