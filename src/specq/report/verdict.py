"""Verdicts: what an arm's numbers allow to be said, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from specq.core.nouns import counted
from specq.report import floors
from specq.report.case import PROCESSES_FOR_A_VERDICT as PROCESSES_FOR_A_VERDICT
from specq.report.case import Case as Case
from specq.report.case import Ground as Ground
from specq.report.measures import Measure
from specq.report.tags import by_tag
from specq.report.words import interval, ratio
from specq.stats.counts import holm
from specq.stats.intervals import Interval, SpeedUp, more_prompts

PROMPTS_FOR_A_FORECAST = 6
_SLOWER = ("slower: ", "not clearly faster or slower: ")
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


def decide(cases: Sequence[Case], ground: Ground) -> dict[str, Verdict]:
    """The verdict of each arm by its id.

    keep: the whole interval lies above 1, no process on the other side, and every sample of the arm
    and of the baseline is there; reject: it lies below 1, or a ceiling of the floor is breached;
    else undecided. For an arm in other blocks than the baseline the interval must lie beyond what
    the same arm moved between its blocks, not beyond 1 alone. A failed audit or another failed
    guard makes the arm invalid, whatever its speed, and so does having no data. Where the run
    audits its outputs, an arm whose audit is missing is undecided, since its speed may be another
    text's. An arm that changes the outputs is kept only where its quality is within the floor, for a speed
    says nothing of what the change costs. A smoke run decides nothing but what is invalid.
    """
    speeds = {case.arm: ground.speed(case) for case in cases}
    p_values = {
        case.arm: found.p_not_faster
        for case in cases
        if (found := speeds[case.arm]) is not None and not _faults(case) and found.p_not_faster is not None
    }
    adjusted = dict(zip(p_values, holm([p for p in p_values.values() if p is not None]), strict=True))
    return {case.arm: _decide(case, speeds[case.arm], ground, adjusted.get(case.arm)) for case in cases}


def _faults(case: Case) -> tuple[str, ...]:
    wrong = case.quality.sentences if case.quality is not None and case.quality.kind == "invalid" else ()
    return (*case.faults, *wrong, *((case.audit.sentence(),) if case.audit.status == "failed" else ()))


def _decide(case: Case, speed: SpeedUp | None, ground: Ground, p: float | None) -> Verdict:
    if faults := _faults(case):
        return Verdict(kind="invalid", sentence=f"{case.label} is invalid: {'; '.join(faults)}.", reasons=faults)
    short = [*([case.shortfall] if case.shortfall else []), *ground.shortfalls]
    if speed is None and ground.by_price and case.compared.e2e is not None:
        return _priceless(case)
    if speed is None:
        reason = "; ".join(short) or "no prompt was decoded by both it and the baseline"
        if case.compared.other_tokens and case.compared.e2e is not None:
            reason = "its tokens are not the baseline's, so seconds a token do not compare"
        said = f"{case.label} has no data: {reason}."
        return Verdict(kind="invalid", sentence=said, reasons=(f"no data: {reason}",), has_data=False)
    broken, unknown = floors.ceilings(case, ground.floor)
    least, untold = floors.least(speed, ground)
    broken, unknown = [*broken, *least], [*unknown, *untold]
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
    judged, held = _quality(case)
    reasons += judged
    broken += judged if held == "reject" else []
    if kind == "keep" and held in ("undecided", "unjudged"):
        kind = "undecided"
    if broken:
        kind = "reject"
    elif (unknown or short) and kind == "keep":
        kind = "undecided"
    why = [reason for reason in reasons[:1] if kind == "undecided" and reason not in judged]
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
        # A margin that cannot be told is a floor that cannot be told.
        floor=(*broken, *unknown, *(judged if held == "undecided" else ())),
        faster_but_changed=ahead and kind == "undecided" and not (broken or unknown or short),
    )


def _priceless(case: Case) -> Verdict:
    """Of an arm whose correct answers cannot be held against the baseline's by their price."""
    right = next((m.value for name, m in case.measures.items() if name.startswith("quality.")), None)
    if right == 0:
        reason = "no answer of it is right, so a correct answer of it has no price"
        said = f"{case.label} is rejected: {reason}."
        return Verdict(kind="reject", sentence=said, reasons=(reason,), floor=(reason,))
    why = "it has no scores" if right is None else "no answer of the baseline is right"
    reason = f"{why}, so prices of correct answers cannot be told"
    return Verdict(
        kind="undecided", sentence=f"{case.label} is undecided: {reason}.", reasons=(reason,), floor=(reason,)
    )


def _by_interval(case: Case, found: Interval, ground: Ground) -> tuple[Kind, list[str], int | None]:
    """What the interval alone says, why it does not say more, and how many prompts it lacks."""
    by_process = ground.by_process(case)
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
        else f"{counted(found.n, 'prompt is', 'prompts are')} too few to say how many would settle it"
        if found.n < PROMPTS_FOR_A_FORECAST
        else f"about {counted(needed, 'more prompt')} at this spread would settle it"
    )
    return "undecided", [reason], needed


def _sentence(case: Case, found: Interval, ground: Ground, because: Sequence[str]) -> str:
    times = f"{ratio(found.value)} times as fast as plain decoding"
    if ground.by_price:
        times = f"{ratio(found.value)} times as many correct answers for the money"
    elif ground.by_device:
        times = f"{ratio(found.value)} times as many answers in the same time"
    elif ground.end_to_end:
        times += " end to end"
    ends = "" if found.low is None or found.high is None else f" ({found.low:.2f} to {found.high:.2f})"
    clearly = ""
    if found.low is not None and found.high is not None and found.low <= 1:
        words = ("fewer: ", "not clearly more or fewer: ") if ground.by_price or ground.by_device else _SLOWER
        clearly = words[0] if found.high < 1 else words[1]
    tags = "" if ground.end_to_end else by_tag(case.strata)
    verb = "gives" if ground.by_price or ground.by_device else "is"
    parts = [f"{case.label} {verb} {clearly}{times}{ends}"]
    judged, _ = _quality(case)
    if case.changes and judged == [QUALITY]:
        faster = found.low is not None and found.low > 1
        parts = [f"{parts[0]}, but it {case.changes} and {QUALITY}"] if faster else [*parts, f"it {case.changes}"]
    elif case.changes:
        parts += [f"it {case.changes}", *judged]
    else:
        parts += judged
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


def _quality(case: Case) -> tuple[list[str], str]:
    """What is said of an arm's quality, and how it stands: as Judged.kind; "keep" where nothing is to be asked."""
    if case.quality is None:
        return ([QUALITY], "unjudged") if case.changes else ([], "keep")
    if not case.changes and case.quality.kind == "unjudged":
        return [], "keep"
    return list(case.quality.sentences), case.quality.kind
