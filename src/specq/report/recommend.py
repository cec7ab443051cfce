"""The recommendation: which arm to serve, the numbers that rests on and what would change it; or none, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specq.core.nouns import counted
from specq.report import lacking
from specq.report.verdict import PROCESSES_FOR_A_VERDICT, Case, Ground, Verdict
from specq.report.words import interval, ratio, share

HOLM_P = 0.05


def recommend(cases: Sequence[Case], verdicts: Mapping[str, Verdict], ground: Ground) -> str:
    """One paragraph. Nothing is recommended from a smoke run, without data, or against a baseline that failed."""
    if why := _nothing(cases, verdicts, ground):
        return f"No recommendation: {why}."
    ahead = [case for case in cases if verdicts[case.arm].kind == "keep"]
    kept = [case for case in ahead if (verdicts[case.arm].p_not_faster or 0.0) < HOLM_P]
    text = _serve(kept, cases, verdicts, ground) if kept else _stay(cases, verdicts, ground)
    return text if ground.complete else f"Provisional, for the run is unfinished: {text}"


def _nothing(cases: Sequence[Case], verdicts: Mapping[str, Verdict], ground: Ground) -> str:
    """Why nothing can be recommended, or ""."""
    if ground.smoke:
        return "a smoke run shows that all works and is too short to compare; run it without smoke"
    if ground.shortfalls:
        return f"the baseline is not whole, so nothing can be held against it ({'; '.join(ground.shortfalls)})"
    if not cases:
        return "no arm stands beside the baseline; add a lever"
    if not any(verdicts[case.arm].has_data for case in cases):
        return f"no data ({_others(cases, verdicts)})"
    return ""


def _serve(kept: Sequence[Case], cases: Sequence[Case], verdicts: Mapping[str, Verdict], ground: Ground) -> str:
    name = ground.measure
    best = max(kept, key=lambda case: case.measures[name].value or 0.0)
    measure, p = best.measures[name], verdicts[best.arm].p_not_faster
    among = f", p = {p:.2g} after Holm over {len(cases)} arms" if p is not None and len(cases) > 1 else ""
    text = (
        f"Serve with {best.label}: {name} {ratio(measure.value)} ({interval(measure)}, "
        f"n = {counted(measure.n, 'prompt')}{among}); {_outputs(best)}"
    )
    if best.audit.seen_above is not None:
        text += f", and a fault on fewer than {share(best.audit.seen_above)} of prompts may have been missed"
    text += "."
    if ground.null is not None and ground.null.value is not None:
        text += f" The baseline against itself: {ratio(ground.null.value)} ({interval(ground.null)})."
    close = [
        case.label for case in kept if case is not best and (case.measures[name].high or 0.0) >= (measure.low or 0.0)
    ]
    if close:
        text += f" {', '.join(close)} cannot be told from it: the intervals overlap."
    if best.apart is not None:
        text += f" It was {best.apart.caveat}."
    text += _still(cases, verdicts, ground, measure.value or 0.0)
    rejected = [case for case in cases if verdicts[case.arm].kind == "reject" and verdicts[case.arm].floor]
    if rejected:
        text += f" Not served: {_others(rejected, verdicts)}."
    failed = [case for case in cases if case.shortfall or not verdicts[case.arm].has_data]
    if failed:
        text += f" Not compared with it: {_others(failed, verdicts)}."
    changes = ["prompts of another kind (see By tag)", "another batch size, engine or machine"]
    if ground.processes < PROCESSES_FOR_A_VERDICT:
        changes.insert(0, f"{PROCESSES_FOR_A_VERDICT} fresh processes that disagree (this run had {ground.processes})")
    if ground.drift is not None:
        changes.insert(0, f"a run on a quiet machine (this one drifted by {share(ground.drift)})")
    served = {case.arm for case in kept}
    changes += lacking.of_undecided([case for case in cases if case.arm not in served], verdicts, ground)
    return f"{text} What would change this: {'; '.join(changes)}."


def _outputs(case: Case) -> str:
    """What is known of an arm's outputs: its audit, or, where it changes them, its quality against the floor."""
    if case.changes and case.quality is not None and case.quality.kind == "keep":
        p = "" if case.quality.p is None else f" (p = {case.quality.p:.2g} after Holm)"
        return f"it changes the outputs, and is within the floor on quality{p}: {'; '.join(case.quality.sentences)}"
    return case.audit.sentence()


def _stay(cases: Sequence[Case], verdicts: Mapping[str, Verdict], ground: Ground) -> str:
    listed = [*lacking.of_undecided(cases, verdicts, ground), *lacking.of_decided(cases, verdicts)]
    if ground.drift is not None:
        listed.append(f"a run on a quiet machine (this one drifted by {share(ground.drift)})")
    still = _still(cases, verdicts, ground, 1.0)
    return f"Stay with plain decoding ({_others(cases, verdicts)}).{still} What would change this: {'; '.join(listed)}."


def _still(cases: Sequence[Case], verdicts: Mapping[str, Verdict], ground: Ground, than: float) -> str:
    """A sentence on the fastest arm beyond `than` that changes the outputs, after Holm; "" where there is none."""
    name = ground.measure
    ahead = [
        case
        for case in cases
        if verdicts[case.arm].faster_but_changed
        and (verdicts[case.arm].p_not_faster or 0.0) < HOLM_P
        and (case.measures[name].value or 0.0) > than
    ]
    if not ahead:
        return ""
    best = max(ahead, key=lambda case: case.measures[name].value or 0.0)
    measure = best.measures[name]
    faster = "faster still" if than > 1 else "faster"
    apart = f", {best.apart.caveat}" if best.apart is not None else ""
    return (
        f" {best.label} would be {faster} ({name} {ratio(measure.value)}, {interval(measure)}{apart}), but it "
        f"{best.changes}: {_quality_lacks(best)} first."
    )


def _quality_lacks(case: Case) -> str:
    """What is to be done about the quality of an arm that changes the outputs before it can be served."""
    if case.quality is None:
        return "measure its quality on your task"
    if case.quality.kind == "unjudged":
        return "set a margin for its quality in [floor]"
    return f"its quality is undecided and needs {'; '.join(case.quality.lacks)}"


def _others(cases: Sequence[Case], verdicts: Mapping[str, Verdict]) -> str:
    return "; ".join(f"{case.label} {_standing(case, verdicts[case.arm])}" for case in cases)


def _standing(case: Case, verdict: Verdict) -> str:
    """Where an arm that is not recommended stands, in a few words."""
    if not verdict.has_data:
        return f"has no data{f': {case.shortfall}' if case.shortfall else ''}"
    if verdict.faster_but_changed:
        undecided = case.quality is not None and case.quality.kind == "undecided"
        return "is faster, and its quality is undecided" if undecided else "is faster but changes the outputs"
    words = {
        "keep": "is ahead alone but not after Holm over the arms asked",
        "reject": f"breaches the floor ({verdict.floor[0]})" if verdict.floor else "is slower",
        "undecided": "is undecided",
        "invalid": "is invalid",
    }
    return words[verdict.kind] + (f": {case.shortfall}" if case.shortfall else "")
