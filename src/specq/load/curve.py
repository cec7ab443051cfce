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

from specq.load.measures import Latency


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

    At an end the curve's own knee may lie beyond it.
    """

    level: float
    power: float
    where: Literal["inside", "lowest", "highest"]

    def words(self, unit: str) -> str:
        """A sentence."""
        found = f"knee at {unit} {self.level:g}, where throughput over median latency is highest"
        ends = {
            "inside": "",
            "lowest": ", the lowest level measured: the knee may lie below it",
            "highest": ", the highest level measured: the knee may lie above it",
        }
        return found + ends[self.where]


def knee(spots: Sequence[Spot]) -> Knee | None:
    """The knee of a curve; None below three levels that have one."""
    known = sorted((spot for spot in spots if spot.latency_s > 0 and spot.throughput > 0), key=lambda one: one.level)
    if len(known) < 3:
        return None
    best = max(known, key=lambda one: one.power)
    where: Literal["inside", "lowest", "highest"] = "inside"
    if best is known[0]:
        where = "lowest"
    elif best is known[-1]:
        where = "highest"
    return Knee(level=best.level, power=best.power, where=where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """How a level stands to the floors: by floor, the value found (None: too few requests to tell) and the limit."""

    values: Mapping[str, float | None]
    limits: Mapping[str, float]

    @property
    def holds(self) -> bool | None:
        """Whether all floors are held; None where none is broken and one cannot be told."""
        known = [value for value in self.values.values() if value is not None]
        if any(value > self.limits[name] for name, value in self.values.items() if value is not None):
            return False
        return True if len(known) == len(self.limits) else None


def held(latency: Latency, floors: Mapping[str, float]) -> Held | None:
    """How a level stands to the floors; None without any."""
    if not floors:
        return None

    def of(floor: str) -> float | None:
        measure, _, which = floor.rpartition("_")
        found: float | None = getattr(getattr(latency, measure), which)
        return found

    return Held(values={name: of(name) for name in floors}, limits=dict(floors))


def highest_held(levels: Sequence[tuple[float, Held | None]]) -> float | None:
    """The highest level up to which, and at which, every level holds the floors; None where the lowest does not."""
    best = None
    for level, one in sorted(levels, key=lambda pair: pair[0]):
        if one is None or one.holds is not True:
            break
        best = level
    return best
