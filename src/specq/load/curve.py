"""The throughput-latency curve: where its knee is, and up to which level the floors hold.

The knee is the level of the highest power, throughput over latency (Kleinrock, Power and Deterministic Rules of Thumb
for Probabilistic Problems in Computer Communications, ICC 1979): on the curve of latency over throughput, the point
where a line from the origin touches it. Below it the server has room, beyond it a gain in throughput costs a larger
one in latency. An M/M/1 queue has it at half of its capacity; a closed loop without variance where the number of
requests is just enough to keep the server busy. Throughput is in tokens a second, latency the median end to end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specq.load.measures import Latency
from specq.stats.crossed import Estimate

SURE = 0.95
"""The share of resamples whose knees are among the levels that the knee could be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A level on the curve; `latency_s` is the median end to end."""

    level: float
    throughput: float
    latency_s: float

    @property
    def power(self) -> float:
        """Throughput over latency."""
        return self.throughput / self.latency_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """The level of the highest power. `where` says whether it lies between measured levels or at an end of them.

    At an end the curve's own knee may lie beyond it. `could_be` are the levels where it is in 95 % of resamples, in
    rising order, itself among them; empty where a level has too few requests to tell.
    """

    level: float
    power: float
    where: Literal["inside", "lowest", "highest"]
    could_be: tuple[float, ...] = ()

    def words(self, unit: str) -> str:
        """A sentence."""
        found = f"knee at {unit} {self.level:g}, where throughput over median latency is highest"
        ends = {
            "inside": "",
            "lowest": ", the lowest level measured: the knee may lie below it",
            "highest": ", the highest level measured: the knee may lie above it",
        }
        return found + self._sure() + ends[self.where]

    def _sure(self) -> str:
        if not self.could_be:
            return " (too few requests to say how sure that is)"
        others = [f"{level:g}" for level in self.could_be if level != self.level]
        if not others:
            return " (in 95 % of resamples)"
        return f" (it could as well be at {' or '.join(others)}: 95 % of resamples have it at one of these)"


def knee(spots: Sequence[Spot], draws: Mapping[float, np.ndarray | None] | None = None) -> Knee | None:
    """The knee of a curve; None below three levels that have one. `draws` are resamples of the power by level."""
    known = sorted((spot for spot in spots if spot.latency_s > 0 and spot.throughput > 0), key=lambda one: one.level)
    if len(known) < 3:
        return None
    best = max(known, key=lambda one: one.power)
    where: Literal["inside", "lowest", "highest"] = "inside"
    if best is known[0]:
        where = "lowest"
    elif best is known[-1]:
        where = "highest"
    return Knee(level=best.level, power=best.power, where=where, could_be=_could_be(known, best, draws or {}))


def _could_be(spots: Sequence[Spot], best: Spot, draws: Mapping[float, np.ndarray | None]) -> tuple[float, ...]:
    """The fewest levels that hold the knee in SURE of all resamples, and the knee."""
    told = [draws.get(spot.level) for spot in spots]
    rows = [row for row in told if row is not None]
    if len(rows) < len(told):
        return ()
    powers = np.asarray(rows)
    powers = powers[:, np.isfinite(powers).all(axis=0)]
    if not powers.size:
        return ()
    shares = np.bincount(powers.argmax(axis=0), minlength=len(spots)) / powers.shape[1]
    found, total = {best.level}, 0.0
    for place in np.argsort(-shares, kind="stable"):
        if total >= SURE:
            break
        total += shares[place]
        found.add(spots[place].level)
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """How a level stands to the floors: by floor, the value found (None: too few requests to tell) and the limit.

    `ends` are the one-sided bounds at 95 % of each value, None where there is none.
    """

    values: Mapping[str, float | None]
    limits: Mapping[str, float]
    ends: Mapping[str, tuple[float | None, float | None]]

    @property
    def holds(self) -> bool | None:
        """Whether all floors are held: every upper bound is within its limit, or a lower one beyond it; else None."""
        if any(low is not None and low > self.limits[name] for name, (low, _) in self.ends.items()):
            return False
        held = all(high is not None and high <= self.limits[name] for name, (_, high) in self.ends.items())
        return True if held and None not in self.values.values() else None

    @property
    def word(self) -> str:
        """That in words."""
        return {True: "held", False: "broken", None: "not settled"}[self.holds]


def held(latency: Latency, floors: Mapping[str, float], bounds: Mapping[str, Estimate | None]) -> Held | None:
    """How a level stands to the floors; None without any. `bounds` have ends that hold at 95 % each."""
    if not floors:
        return None

    def of(floor: str) -> float | None:
        measure, _, which = floor.rpartition("_")
        found: float | None = getattr(getattr(latency, measure), which)
        return found

    ends = {name: (None, None) if one is None else (one.low, one.high) for name, one in bounds.items()}
    return Held(values={name: of(name) for name in floors}, limits=dict(floors), ends=ends)


def highest_held(levels: Sequence[tuple[float, Held | None]]) -> float | None:
    """The highest level up to which, and at which, every level holds the floors; None where the lowest does not."""
    best = None
    for level, one in sorted(levels, key=lambda pair: pair[0]):
        if one is None or one.holds is not True:
            break
        best = level
    return best
