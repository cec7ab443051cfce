"""Verdicts: what an arm's numbers allow to be said, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from specq.report.audit import Audit
from specq.report.blocks import Apart
from specq.report.measures import Measure
from specq.report.speed import Compared, Stratum
from specq.report.tags import by_tag
from specq.report.words import interval, milliseconds, ratio, size
from specq.stats.counts import holm
from specq.stats.intervals import Interval, SpeedUp, more_prompts

PROCESSES_FOR_A_VERDICT = 3
PROMPTS_FOR_A_FORECAST = 6
QUALITY = "its quality on your task is not measured"
Kind = Literal["keep", "reject", "undecided", "invalid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """keep, reject, undecided or invalid on the run's objective, with the reasons.

    `more_prompts` estimates how many prompts beyond these would settle an undecided arm, None
    where nothing can be said. `p_not_faster` is Holm-adjusted over the arms that are valid.
    `floor` says which of the floor's ceilings are breached or cannot be told. `has_data` is
    False where no prompt was decoded by both the arm and the baseline. `faster_but_changed` is True
    where an arm would be kept, did it not change the outputs.
    """

    kind: Kind
    sentence: str
    reasons: tuple[str, ...] = ()
    more_prompts: int | None = None
    p_not_faster: float | None = None
    floor: tuple[str, ...] = ()
    has_data: bool = True
    faster_but_changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a verdict on one arm rests on.

    `faults` are the guards that failed, `shortfall` says how many of its samples failed or are
    not recorded, None when all are there. `changes` says in words how a changed target moves the
    outputs, "" for an arm that must leave them alone. `caveats` go with its speed. `apart` is there
    where it ran in other blocks than the baseline.
    """

    arm: str
    label: str
    measures: Mapping[str, Measure]
    compared: Compared
    strata: tuple[Stratum, ...]
    audit: Audit
    faults: tuple[str, ...]
    shortfall: str | None = None
    changes: str = ""
    caveats: tuple[str, ...] = ()
    apart: Apart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all verdicts of a run share.

    `objective` is tpot_s or e2e_s. `audited` says that the run audits its outputs. `shortfalls`
    are those of the baselines, named. `null` is the A/A speed-up on the objective, `drift` the
    canary's where it is beyond its limit.
    """

    objective: str = "tpot_s"
    floor: Mapping[str, Any]
    processes: int
    audited: bool
    smoke: bool = False
    complete: bool = True
    shortfalls: tuple[str, ...] = ()
    null: Measure | None = None
    drift: float | None = None

    @property
    def end_to_end(self) -> bool:
        """Whether whole requests are judged, and not decoding alone."""
        return self.objective == "e2e_s"

    @property
    def one_of_few(self) -> str:
        """What is to be said where there are too few processes for a firm verdict; else ""."""
        if self.processes >= PROCESSES_FOR_A_VERDICT:
            return ""
        count = f"{self.processes} process{'' if self.processes == 1 else 'es'}"
        return f"measured in {count}, a firm verdict takes {PROCESSES_FOR_A_VERDICT}"


def decide(cases: Sequence[Case], ground: Ground) -> dict[str, Verdict]:
    """The verdict of each arm by its id.

    keep: the whole interval lies above 1, no process on the other side, and every sample of the arm
    and of the baseline is there; reject: it lies below 1, or a ceiling of the floor is breached;
    else undecided. For an arm in other blocks than the baseline the interval must lie beyond what
    the same arm moved between its blocks, not beyond 1 alone. A failed audit or another failed
    guard makes the arm invalid, whatever its speed, and so does having no data. Where the run
    audits its outputs, an arm whose audit is missing is undecided, since its speed may be another
    text's. An arm that changes the outputs is at most undecided, for a speed says nothing of what
    the change costs. A smoke run decides nothing but what is invalid.
    """
    speeds = {case.arm: case.compared.e2e if ground.end_to_end else case.compared.decode for case in cases}
    p_values = {
        case.arm: found.p_not_faster
        for case in cases
        if (found := speeds[case.arm]) is not None and not _faults(case) and found.p_not_faster is not None
    }
    adjusted = dict(zip(p_values, holm([p for p in p_values.values() if p is not None]), strict=True))
    return {case.arm: _decide(case, speeds[case.arm], ground, adjusted.get(case.arm)) for case in cases}


def _faults(case: Case) -> tuple[str, ...]:
    return (*case.faults, *((case.audit.sentence(),) if case.audit.status == "failed" else ()))


def _decide(case: Case, speed: SpeedUp | None, ground: Ground, p: float | None) -> Verdict:
    if faults := _faults(case):
        return Verdict(kind="invalid", sentence=f"{case.label} is invalid: {'; '.join(faults)}.", reasons=faults)
    short = [*([case.shortfall] if case.shortfall else []), *ground.shortfalls]
    if speed is None:
        reason = "; ".join(short) or "no prompt was decoded by both it and the baseline"
        said = f"{case.label} has no data: {reason}."
        return Verdict(kind="invalid", sentence=said, reasons=(f"no data: {reason}",), has_data=False)
    broken, unknown = _floor(case, ground.floor)
    if ground.smoke:
        reason = "a smoke run is too short for a verdict"
        said = "; ".join([f"{case.label} is not judged: {reason}", *short, case.audit.sentence()])
        return Verdict(kind="undecided", sentence=f"{said}.", reasons=(reason, *short), floor=(*broken, *unknown))
    found = speed.pooled
    kind, reasons, needed = _by_interval(case, found, ground)
    if ground.audited and case.audit.status == "missing":
        kind = "undecided"
        reasons.append(case.audit.sentence())
    ahead = kind == "keep" and bool(case.changes)
    if case.changes and kind != "reject":
        kind = "undecided"
        reasons.append(QUALITY)
    if broken:
        kind = "reject"
    elif (unknown or short) and kind == "keep":
        kind = "undecided"
    why = [reason for reason in reasons[:1] if kind == "undecided" and reason != QUALITY]
    apart = [case.apart.caveat] if case.apart is not None else []
    because = [*case.caveats, *apart, *short, *broken, *unknown, *why]
    reasons = [*short, *reasons, *broken, *unknown]
    if ground.one_of_few:
        reasons.append(ground.one_of_few)
        because += [ground.one_of_few] if kind != "undecided" or ahead else []
    return Verdict(
        kind=kind,
        sentence=_sentence(case, found, ground, because),
        reasons=tuple(reasons),
        more_prompts=needed,
        p_not_faster=p,
        floor=(*broken, *unknown),
        faster_but_changed=ahead and not (broken or unknown or short),
    )


def _by_interval(case: Case, found: Interval, ground: Ground) -> tuple[Kind, list[str], int | None]:
    """What the interval alone says, why it does not say more, and how many prompts it lacks."""
    by_process = case.compared.e2e_by_process if ground.end_to_end else case.compared.by_process
    if found.low is None or found.high is None:
        return "undecided", ["one prompt has no spread: give at least two"], None
    if found.low > 1 or found.high < 1:
        if len({value > 1 for _, value in by_process}) > 1:
            return "undecided", ["the processes disagree on which is faster: run more of them"], None
        if case.apart is not None and (hidden := case.apart.hides(found.low, found.high)):
            return "undecided", [hidden], None
        return "keep" if found.low > 1 else "reject", [], None
    needed = more_prompts(found)
    reason = (
        "no number of prompts in reach would settle it at this spread"
        if needed is None
        else f"{found.n} prompts are too few to say how many would settle it"
        if found.n < PROMPTS_FOR_A_FORECAST
        else f"about {needed} more prompt{'s' if needed != 1 else ''} at this spread would settle it"
    )
    return "undecided", [reason], needed


def _sentence(case: Case, found: Interval, ground: Ground, because: Sequence[str]) -> str:
    times = f"{ratio(found.value)} times as fast as plain decoding"
    if ground.end_to_end:
        times += " end to end"
    ends = "" if found.low is None or found.high is None else f" ({found.low:.2f} to {found.high:.2f})"
    clearly = ""
    if found.low is not None and found.high is not None and found.low <= 1:
        clearly = "slower: " if found.high < 1 else "not clearly faster or slower: "
    tags = "" if ground.end_to_end else by_tag(case.strata)
    parts = [f"{case.label} is {clearly}{times}{ends}"]
    if case.changes:
        faster = found.low is not None and found.low > 1
        parts = [f"{parts[0]}, but it {case.changes} and {QUALITY}"] if faster else [*parts, f"it {case.changes}"]
    said = [*([tags] if tags else []), *_prefill(case.measures), *_audit(case)]
    return "; ".join(dict.fromkeys([*parts, *said, *because])) + "."


def _prefill(measures: Mapping[str, Measure]) -> list[str]:
    prefill = measures.get("prefill_speedup")
    if prefill is None or prefill.value is None:
        return []
    return [f"prefill {prefill.value:.1f}x" + (f" ({interval(prefill)})" if prefill.low is not None else "")]


def _audit(case: Case) -> list[str]:
    """What the audit found; of an arm that is held to nobody's outputs only what went wrong."""
    held = case.audit.status != "changed" or case.audit.against or case.audit.reasons
    return [case.audit.sentence()] if held else []


def _floor(case: Case, floor: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Ceilings of the floor that are breached, and those that cannot be told."""
    broken, unknown = [], []
    for key, name, show in (
        ("ttft_s_p95", "ttft_s.p95", lambda value: f"{milliseconds(value)} ms"),
        ("peak_bytes", "peak_bytes", size),
    ):
        ceiling = floor.get(key)
        if ceiling is None:
            continue
        measure = case.measures.get(name)
        if measure is None or measure.value is None:
            why = f": {measure.note} (n = {measure.n})" if measure is not None else ""
            unknown.append(f"the floor's {key} cannot be told{why}")
        elif measure.value > float(ceiling):
            broken.append(f"the floor's {key} is breached: {show(measure.value)}, allowed is {show(float(ceiling))}")
    return broken, unknown
