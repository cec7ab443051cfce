"""Where along the levels the speed-up of one server over another ends, with an interval over prompts.

Each resample draws prompts with their requests at all levels and asks where the pooled ratio falls through 1. The
interval is the percentile one at the level that Student's t has with so few prompts (Hesterberg, What Teachers Should
Know about the Bootstrap, 2015, 5.3): the place is no smooth function of the data, and often lies beyond what was
measured, where nothing but the order is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specq.load.measures import Attempt
from specq.load.versus import answers, decode_cost
from specq.stats.bootstrap import expanded

RESAMPLES = 2000
FEWEST = 5
"""From so many prompts on there is an interval."""
Place = float | Literal["below", "above"]
"""A level, or that it lies below the lowest or above the highest one measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Where the ratio of time a token falls through 1, on a straight line over the logarithm of the level.

    `low` and `high` are None below FEWEST prompts. "below": it is 1 or less at the lowest level; "above": it does not
    fall within the levels.
    """

    at: Place
    low: Place | None
    high: Place | None
    prompts: int


def end(base: Mapping[float, Sequence[Attempt]], other: Mapping[float, Sequence[Attempt]], seed: int = 0) -> End | None:
    """Where the other server's win over the first ends; None where no prompt was answered by both at some level."""
    levels = sorted(level for level in base if level in other)
    both = [(answers(base[level]), answers(other[level])) for level in levels]
    prompts = sorted({prompt for mine, theirs in both for prompt in mine if prompt in theirs})
    # Seconds and tokens of each server [4, levels, prompts], 0 where a prompt has none at a level.
    sums = np.zeros((4, len(levels), len(prompts)))
    for place, (mine, theirs) in enumerate(both):
        for number, prompt in enumerate(prompts):
            if prompt in mine and prompt in theirs:
                for row, of in ((0, mine), (2, theirs)):
                    costs = [decode_cost(one) for one in of[prompt]]
                    sums[row, place, number] = sum(took for took, _ in costs)
                    sums[row + 1, place, number] = sum(units for _, units in costs)
    told = np.all(sums.sum(axis=2) > 0, axis=0)
    levels = [level for level, known in zip(levels, told, strict=True) if known]
    sums = sums[:, told]
    if not levels:
        return None
    at = _falls(levels, _ratios(sums, np.ones((1, len(prompts)))))[0]
    low: Place | None = None
    high: Place | None = None
    if len(prompts) >= FEWEST:
        rng = np.random.default_rng(seed)
        weights = rng.multinomial(len(prompts), np.full(len(prompts), 1 / len(prompts)), size=RESAMPLES)
        found = np.sort(_falls(levels, _ratios(sums, weights)))
        tail = (1 - expanded(0.95, len(prompts))) / 2
        # Order statistics as they are: between a level and beyond there is nothing.
        low = _place(min(float(found[math.floor(tail * (RESAMPLES - 1))]), at))
        high = _place(max(float(found[math.ceil((1 - tail) * (RESAMPLES - 1))]), at))
    return End(at=_place(float(at)), low=low, high=high, prompts=len(prompts))


def _ratios(sums: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Time a token of the first over the other's [resamples, levels]; not a number where a resample has none."""
    mine, units, theirs, theirs_units = (weights @ rows.T for rows in sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: np.ndarray = (mine / units) / (theirs / theirs_units)
    return found


def _falls(levels: Sequence[float], ratios: np.ndarray) -> np.ndarray:
    """Where each row first falls to 1 or below: a level, -inf below the lowest, inf where it does not."""
    logs = np.log(levels)
    found = np.full(len(ratios), np.inf)
    for number, row in enumerate(ratios):
        known = np.isfinite(row)
        at, values = logs[known], row[known]
        under = np.flatnonzero(values <= 1)
        if not under.size:
            continue
        first = int(under[0])
        if first == 0:
            found[number] = -np.inf
            continue
        share = (values[first - 1] - 1) / (values[first - 1] - values[first])
        found[number] = math.exp(at[first - 1] + share * (at[first] - at[first - 1]))
    return found


def _place(value: float) -> Place:
    if math.isinf(value):
        return "above" if value > 0 else "below"
    return float(value)
