"""The front: arms that no other arm beats in speed, memory and quality together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from specq.report.assemble import ArmReport, Report
from specq.report.evals import EvalReport
from specq.report.measures import Measure
from specq.report.page_text import label
from specq.report.words import points, ratio, size

SPEEDUPS = ("speedup", "e2e_speedup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One thing that arms are held against each other in. `sign` is 1 where more is better, else -1.

    `scale` turns a measure into `unit`, and `show` into words.
    """

    name: str
    title: str
    unit: str
    sign: int
    scale: float
    show: Callable[[float | None], str]
    of: Callable[[ArmReport], Measure | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A value on an axis with the ends of its interval, None where it has none."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An arm with its spot on every axis; `beaten_by` names the arms that are nowhere worse and somewhere better."""

    arm: ArmReport
    baseline: bool
    spots: tuple[Spot, ...]
    beaten_by: tuple[str, ...] = ()

    @property
    def rejected(self) -> bool:
        """Whether the verdict rejects it, whatever it is ahead in."""
        return self.arm.verdict is not None and self.arm.verdict.kind == "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The arms that can be placed, speed first among the axes, and in words the arms that cannot."""

    axes: tuple[Axis, ...]
    placed: tuple[Placed, ...]
    left_out: tuple[str, ...]


def front(report: Report) -> Front | None:
    """Every arm on all axes that the run measured; None where there is nothing to weigh against speed.

    The baseline stands at speed-up 1; its twin is left out, for it is the same arm. An arm whose numbers are void, or
    that lacks a value that others have, is not placed. An axis on which all arms are equal is none.
    """
    first = next((arm for arm in report.arms if arm.verdict is None), None)
    if first is None:
        return None
    arms = [first, *(arm for arm in report.arms if arm.verdict is not None)]
    axes = [
        axis for axis in _axes(report, first) if len({spot.value for arm in arms if (spot := _spot(axis, arm))}) > 1
    ]
    if len(axes) < 2 or axes[0].name not in SPEEDUPS:
        return None
    placed, left_out = [], []
    for arm in arms:
        spots = [_spot(axis, arm) for axis in axes]
        there = tuple(spot for spot in spots if spot is not None)
        if arm.verdict is not None and arm.verdict.kind == "invalid":
            left_out.append(f"{arm.label} is not placed: it is invalid.")
        elif len(there) < len(axes):
            lacks = [axis.title for axis, spot in zip(axes, spots, strict=True) if spot is None]
            left_out.append(f"{arm.label} is not placed: it has no {', '.join(lacks)}.")
        else:
            placed.append(Placed(arm=arm, baseline=arm is first, spots=there))
    if len(placed) < 2:
        return None
    found = (replace(one, beaten_by=tuple(o.arm.label for o in placed if _beats(o, one, axes))) for one in placed)
    return Front(axes=tuple(axes), placed=tuple(found), left_out=tuple(left_out))


def objective_speedup(report: Report) -> str:
    """The speed-up that the run's objective rests on: a price is that of whole answers."""
    minimised = (report.config.get("objective") or {}).get("minimise") or "tpot_s"
    return "speedup" if minimised == "tpot_s" else "e2e_speedup"


def _axes(report: Report, first: ArmReport) -> list[Axis]:
    def speed(arm: ArmReport) -> Measure | None:
        return Measure(name=name, unit="ratio", value=1.0) if arm is first else arm.measures.get(name)

    name = objective_speedup(report)
    memory = "peak_bytes" if any("peak_bytes" in arm.measures for arm in report.arms) else "weight_bytes"
    found = [
        Axis(name=name, title=name, unit="times", sign=1, scale=1, show=ratio, of=speed),
        Axis(
            name=memory,
            title="peak memory" if memory == "peak_bytes" else "weights held",
            unit="MiB",
            sign=-1,
            scale=2**-20,
            show=size,
            of=lambda arm: arm.measures.get(memory),
        ),
    ]
    return found + [_quality(one, first) for one in report.evals]


def _quality(report: EvalReport, first: ArmReport) -> Axis:
    key = f"quality_change.{report.name}"

    def change(arm: ArmReport) -> Measure | None:
        found = report.arm(arm.id)
        # The baseline's own answers have moved by nothing, and that is no estimate.
        same = arm is first or (found is not None and found.proved)
        return Measure(name=key, unit="", value=0.0) if same else arm.measures.get(key)

    return Axis(
        name=key,
        title=f"change on {label(report.name)}",
        unit="points" if report.binary else label(report.metric),
        sign=1,
        scale=100 if report.binary else 1,
        show=lambda value: points(value, report.binary),
        of=change,
    )


def _spot(axis: Axis, arm: ArmReport) -> Spot | None:
    found = axis.of(arm)
    if found is None or found.value is None:
        return None
    low, high = (None if end is None else axis.scale * end for end in (found.low, found.high))
    return Spot(value=axis.scale * found.value, low=low, high=high)


def shown(axis: Axis, spot: Spot) -> str:
    """A spot's value in words."""
    return axis.show(spot.value / axis.scale)


def _beats(other: Placed, one: Placed, axes: Sequence[Axis]) -> bool:
    pairs = [
        (axis.sign * mine.value, axis.sign * its.value)
        for axis, mine, its in zip(axes, one.spots, other.spots, strict=True)
    ]
    return all(its >= mine for mine, its in pairs) and any(its > mine for mine, its in pairs)
