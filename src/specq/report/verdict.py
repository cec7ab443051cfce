"""Verdicts: what an arm's numbers allow to be said, in one sentence, and what would change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from specq.report.audit import Audit
from specq.report.measures import Measure
from specq.report.speed import Compared, Stratum
from specq.report.words import interval, milliseconds, ratio, size
from specq.stats.counts import holm
from specq.stats.intervals import Interval, SpeedUp, more_prompts

PROCESSES_FOR_A_VERDICT = 3
EVEN = 0.1
PROMPTS_FOR_A_FORECAST = 6
HOLM_P = 0.05
Kind = Literal["keep", "reject", "undecided", "invalid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """keep, reject, undecided or invalid on the run's objective, with the reasons.

    `more_prompts` estimates how many prompts beyond these would settle an undecided arm, None
    where nothing can be said. `p_not_faster` is Holm-adjusted over the arms that are valid.
    `floor` says which of the floor's ceilings are breached or cannot be told.
    """

    kind: Kind
    sentence: str
    reasons: tuple[str, ...] = ()
    more_prompts: int | None = None
    p_not_faster: float | None = None
    floor: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a verdict on one arm rests on. `faults` are the guards that failed."""

    arm: str
    label: str
    measures: Mapping[str, Measure]
    compared: Compared
    strata: tuple[Stratum, ...]
    audit: Audit
    faults: tuple[str, ...]


def decide(
    cases: Sequence[Case], objective: str, floor: Mapping[str, Any], processes: int, *, audited: bool
) -> dict[str, Verdict]:
    """The verdict of each arm by its id; `objective` is tpot_s or e2e_s.

    keep: the whole interval lies above 1, and no process on the other side; reject: it lies
    below 1, or a ceiling of the floor is breached; else undecided. A failed audit or another
    failed guard makes the arm invalid, whatever its speed. `audited` says that the run audits its
    outputs: an arm whose audit is missing is then undecided, since its speed may be another text's.
    """
    speeds = {case.arm: case.compared.e2e if objective == "e2e_s" else case.compared.decode for case in cases}
    p_values = {
        case.arm: found.p_not_faster
        for case in cases
        if (found := speeds[case.arm]) is not None and not _faults(case) and found.p_not_faster is not None
    }
    adjusted = dict(zip(p_values, holm([p for p in p_values.values() if p is not None]), strict=True))
    return {
        case.arm: _decide(case, speeds[case.arm], objective, floor, processes, adjusted.get(case.arm), audited=audited)
        for case in cases
    }


def recommend(cases: Sequence[Case], verdicts: Mapping[str, Verdict], objective: str, processes: int) -> str:
    """Which arm to serve, the numbers that rests on and what would change it."""
    name = "e2e_speedup" if objective == "e2e_s" else "speedup"
    ahead = [case for case in cases if verdicts[case.arm].kind == "keep"]
    kept = [case for case in ahead if (verdicts[case.arm].p_not_faster or 0.0) < HOLM_P]
    if not kept:
        undecided = [case.label for case in cases if verdicts[case.arm].kind == "undecided"]
        undecided += [f"{case.label}, which is ahead alone but not after Holm over the arms asked" for case in ahead]
        why = f"undecided: {', '.join(undecided)}" if undecided else "no valid arm is faster here"
        change = "more prompts" if undecided else "another draft, another k, or prompts of another kind"
        return f"Stay with plain decoding ({why}). What would change this: {change}."
    best = max(kept, key=lambda case: case.measures[name].value or 0.0)
    measure, p = best.measures[name], verdicts[best.arm].p_not_faster
    among = f", p = {p:.2g} after Holm over the arms asked" if p is not None and len(cases) > 1 else ""
    text = (
        f"Serve with {best.label}: {name} {ratio(measure.value)} ({interval(measure)}, "
        f"n = {measure.n} prompts{among}); {best.audit.sentence()}."
    )
    close = [
        case.label for case in kept if case is not best and (case.measures[name].high or 0.0) >= (measure.low or 0.0)
    ]
    if close:
        text += f" {', '.join(close)} cannot be told from it: the intervals overlap."
    changes = ["prompts of another kind (see the strata)", "another batch size, engine or machine"]
    if processes < PROCESSES_FOR_A_VERDICT:
        changes.insert(0, f"{PROCESSES_FOR_A_VERDICT} fresh processes that disagree (this run had {processes})")
    return f"{text} What would change this: {'; '.join(changes)}."


def _faults(case: Case) -> tuple[str, ...]:
    return (*case.faults, *((case.audit.sentence(),) if case.audit.status == "failed" else ()))


def _decide(
    case: Case,
    speed: SpeedUp | None,
    objective: str,
    floor: Mapping[str, Any],
    processes: int,
    p: float | None,
    *,
    audited: bool,
) -> Verdict:
    if faults := _faults(case):
        return Verdict(kind="invalid", sentence=f"{case.label} is invalid: {'; '.join(faults)}.", reasons=faults)
    if speed is None:
        reason = "no prompt was decoded by both it and the baseline"
        return Verdict(kind="invalid", sentence=f"{case.label} is invalid: {reason}.", reasons=(reason,))
    found = speed.pooled
    by_process = case.compared.e2e_by_process if objective == "e2e_s" else case.compared.by_process
    sides = {value > 1 for _, value in by_process}
    kind: Kind = "undecided"
    reasons: list[str] = []
    needed = None
    if found.low is None or found.high is None:
        reasons.append("one prompt has no spread: give at least two")
    elif found.low > 1 or found.high < 1:
        kind = "keep" if found.low > 1 else "reject"
        if len(sides) > 1:
            kind = "undecided"
            reasons.append("the processes disagree on which is faster: run more of them")
    else:
        needed = more_prompts(found)
        reasons.append(
            "no number of prompts in reach would settle it at this spread"
            if needed is None
            else f"{found.n} prompts are too few to say how many would settle it"
            if found.n < PROMPTS_FOR_A_FORECAST
            else f"about {needed} more prompt{'s' if needed != 1 else ''} at this spread would settle it"
        )
    if audited and case.audit.status == "missing":
        kind = "undecided"
        reasons.append(case.audit.sentence())
    broken, unknown = _floor(case, floor)
    if broken:
        kind = "reject"
    elif unknown and kind == "keep":
        kind = "undecided"
    reasons += broken + unknown
    if processes < PROCESSES_FOR_A_VERDICT:
        reasons.append(
            f"an interval speaks for this run; a verdict on speed wants {PROCESSES_FOR_A_VERDICT} fresh processes, "
            f"this run had {processes}"
        )
    because = [*broken, *unknown, *(reasons[:1] if kind == "undecided" else [])]
    if kind != "undecided" and processes < PROCESSES_FOR_A_VERDICT:
        because.append(f"measured in this one run; a verdict wants {PROCESSES_FOR_A_VERDICT} fresh processes")
    return Verdict(
        kind=kind,
        sentence=_sentence(case, found, objective, because),
        reasons=tuple(reasons),
        more_prompts=needed,
        p_not_faster=p,
        floor=(*broken, *unknown),
    )


def _sentence(case: Case, found: Interval, objective: str, because: Sequence[str]) -> str:
    times = f"{ratio(found.value)} times as fast as plain decoding"
    if objective == "e2e_s":
        times += " end to end"
    ends = "" if found.low is None or found.high is None else f" ({found.low:.2f} to {found.high:.2f})"
    clearly = ""
    if found.low is not None and found.high is not None and found.low <= 1:
        clearly = "slower: " if found.high < 1 else "not clearly faster or slower: "
    strata = _by_stratum(case.strata) if objective == "tpot_s" else ""
    parts = [f"{case.label} is {clearly}{times}{ends}{strata}", case.audit.sentence(), *because]
    return "; ".join(dict.fromkeys(parts)) + "."


def _by_stratum(strata: Sequence[Stratum]) -> str:
    """The best and the worst tag in words, where the best stands out; nothing below two tags."""
    known = [stratum for stratum in strata if stratum.speedup.value is not None]
    if len(known) < 2:
        return ""
    worst, *others, best = sorted(known, key=lambda stratum: stratum.speedup.value or 0.0)
    if not _stands_out(best.speedup, [stratum.speedup for stratum in (worst, *others)]):
        return ", no tag stands out"

    def at(stratum: Stratum) -> str:
        measure = stratum.speedup
        ends = "" if measure.low is None else f", {interval(measure)}"
        return f"{stratum.tag} ({ratio(measure.value)}{ends}, n = {stratum.n})"

    low, high = worst.speedup.low, worst.speedup.high
    even = low is not None and high is not None and low <= 1 <= high
    near = abs((worst.speedup.value or 0.0) - 1) <= EVEN
    word = (
        ("even on" if near else "unclear on") if even else "slower on" if high is not None and high < 1 else "least on"
    )
    first = "most on" if (best.speedup.value or 0.0) > 1 else "best on"
    return f", {first} {at(best)} and {word} {at(worst)}"


def _stands_out(best: Measure, others: Sequence[Measure]) -> bool:
    """Whether the interval leaves 1 out, or lies above those of all others."""
    if best.low is None or best.high is None:
        return False
    above_all = all(other.high is not None and other.high < best.low for other in others)
    return above_all or not best.low <= 1 <= best.high


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
