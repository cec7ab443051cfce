"""The front: arms that no other arm beats in speed, memory and quality together, and what it could not weigh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from specq.report.assemble import ArmReport, Report
from specq.report.evals import EvalReport
from specq.report.measures import Measure
from specq.report.page_text import label
from specq.report.words import points, ratio, size

SPEEDUPS = ("speedup", "e2e_speedup")
_OF_OBJECTIVE = {"tpot_s": "speedup", "e2e_s": "e2e_speedup"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One thing that arms are held against each other in. `sign` is 1 where more is better, else -1.

    `scale` turns a measure into `unit`, and `show` into words. `lacking` says why no arm has a value, should none have.
    """

    name: str
    title: str
    unit: str
    sign: int
    scale: float
    show: Callable[[float | None], str]
    of: Callable[[ArmReport], Measure | None]
    lacking: str


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
    """The arms that can be placed, speed first among the axes, and in words the axes and the arms that cannot."""

    axes: tuple[Axis, ...]
    placed: tuple[Placed, ...]
    left_out: tuple[str, ...]
    dropped: tuple[str, ...] = ()

    @property
    def drawn(self) -> bool:
        """Whether there is something to weigh against speed, and two arms to weigh."""
        return len(self.axes) > 1 and self.axes[0].name in (*SPEEDUPS, "throughput_speedup") and len(self.placed) > 1


def front(report: Report) -> Front | None:
    """As `weighed`, None where nothing can be drawn."""
    found = weighed(report)
    return found if found is not None and found.drawn else None


def weighed(report: Report) -> Front | None:
    """Every arm on all axes that the run measured; None where no arm stands beside the baseline.

    The baseline stands at speed-up 1; its twin is left out, for it is the same arm. An arm whose numbers are void, or
    that lacks a value that others have, is not placed. An axis on which all arms are equal, or that nobody measured,
    is none, and is named in `dropped` with why.
    """
    first = next((arm for arm in report.arms if arm.verdict is None), None)
    arms = [] if first is None else [first, *(arm for arm in report.arms if arm.verdict is not None)]
    if first is None or len(arms) < 2:
        return None
    every = _axes(report, first)
    why = {axis.name: _no_axis(axis, arms) for axis in every}
    axes = [axis for axis in every if not why[axis.name]]
    dropped = [f"{axis.title} is left out of the front: {why[axis.name]}." for axis in every if why[axis.name]]
    if not report.evals:
        dropped.append("Quality is left out of the front: it was not measured, for the experiment has no [[evals]].")
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
    found = (replace(one, beaten_by=tuple(o.arm.label for o in placed if _beats(o, one, axes))) for one in placed)
    return Front(axes=tuple(axes), placed=tuple(found), left_out=tuple(left_out), dropped=tuple(dropped))


def _no_axis(axis: Axis, arms: Sequence[ArmReport]) -> str:
    """Why arms, the baseline first, cannot be held against each other on an axis; "" where they can."""
    spots = [spot for arm in arms if (spot := _spot(axis, arm)) is not None]
    if not any(_spot(axis, arm) is not None for arm in arms[1:]):
        return f"it was not measured, for {axis.lacking}"
    if len({spot.value for spot in spots}) == 1:
        without = [arm.label for arm in arms if _spot(axis, arm) is None]
        if without:
            return f"{', '.join(without)} {'has' if len(without) == 1 else 'have'} none, and the others are equal in it"
        return f"all arms are equal in it ({shown(axis, spots[0])})"
    return ""


def objective_speedup(report: Report) -> str:
    """The speed-up that the run's objective rests on: a price is that of the device's time for whole answers."""
    minimised = (report.config.get("objective") or {}).get("minimise") or "tpot_s"
    return _OF_OBJECTIVE.get(minimised, "throughput_speedup")


def _axes(report: Report, first: ArmReport) -> list[Axis]:
    def speed(arm: ArmReport) -> Measure | None:
        return Measure(name=name, unit="ratio", value=1.0) if arm is first else arm.measures.get(name)

    name = objective_speedup(report)
    found = [
        Axis(
            name=name, title=name, unit="times", sign=1, scale=1, show=ratio, of=speed, lacking="no arm has a speed-up"
        ),
        _memory("peak_bytes", "peak memory", "no arm has one on record (workload.memory = true measures it)"),
    ]
    if not any("peak_bytes" in arm.measures for arm in report.arms):
        # What stands in for it.
        found.append(_memory("weight_bytes", "weights held", "no model says how many bytes it holds"))
    return found + [_quality(one, first) for one in report.evals]


def _memory(name: str, title: str, lacking: str) -> Axis:
    return Axis(
        name=name,
        title=title,
        unit="MiB",
        sign=-1,
        scale=2**-20,
        show=size,
        of=lambda arm: arm.measures.get(name),
        lacking=lacking,
    )


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
        lacking=f"no arm has a score on {label(report.name)}",
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
