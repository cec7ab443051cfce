"""What would change a recommendation: what is missing for each arm, and what else to try where nothing is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from specq.core.nouns import counted
from specq.report.verdict import PROMPTS_FOR_A_FORECAST, Case, Ground, Verdict

# What to try in place of an arm that is turned down, by what it changes: for its quality, and for its speed.
_BETTER = {
    "quantize": "more bits, smaller groups or another method",
    "model": "a larger model, or one that is trained for longer",
    "kv_cache": "a cache of more bits",
    "prompt": "clean alone, or a larger share to select",
    "lossy": "a stricter threshold or an exact rule",
}
_FASTER = {
    "draft": "another draft, another k, or prompts of another kind",
    "quantize": "another kernel, engine or machine",
    "model": "a smaller model",
    "kv_cache": "longer contexts, or another engine or machine",
    "prompt": "longer prompts, or a smaller share to select",
    "prefix_cache": "prompts that begin alike, in an order that keeps those together",
    "batch": "another size, or a machine that waits for memory",
}


def of_undecided(cases: Sequence[Case], verdicts: Mapping[str, Verdict], ground: Ground) -> list[str]:
    """What would let each arm be judged that was not, said once for all arms that lack the same."""
    found: dict[str, list[str]] = {}
    for case in cases:
        for lack in dict.fromkeys(_lacks(case, verdicts[case.arm], ground)):
            found.setdefault(lack, []).append(case.label)
    return [f"for {_named(who)} {lack}" for lack, who in found.items()]


def of_decided(cases: Sequence[Case], verdicts: Mapping[str, Verdict]) -> list[str]:
    """That nothing measured is missing for an arm that was turned down, and what to try in its place."""
    found: dict[str, list[str]] = {}
    for case in cases:
        if instead := _instead(case, verdicts[case.arm]):
            found.setdefault(instead, []).append(case.label)
    return [f"for {_named(who)} nothing, for {_decided(who)}; try {instead}" for instead, who in found.items()]


def _lacks(case: Case, verdict: Verdict, ground: Ground) -> Iterator[str]:
    if case.shortfall or not verdict.has_data:
        yield "a run in which no sample fails"
    elif verdict.kind == "keep":
        yield "more prompts, or fewer arms asked at once, for it is ahead alone but not after Holm"
    elif verdict.kind == "undecided":
        yield from _speed(case, verdict, ground)
        if ground.audited and case.audit.status == "missing":
            yield "an audit of its outputs that comes through"
        if case.changes and case.quality is None:
            yield "a measurement of what it costs in quality on your task (a table [[evals]])"
        elif case.quality is not None and (case.changes or case.quality.kind != "unjudged"):
            yield from case.quality.lacks
        if verdict.floor:
            yield f"what the floor needs to be told ({'; '.join(verdict.floor)})"


def _speed(case: Case, verdict: Verdict, ground: Ground) -> Iterator[str]:
    """What an arm's speed lacks to be told from the baseline's; nothing where it is told."""
    found = case.measures.get(ground.measure)
    if found is None or found.value is None:
        return
    if found.low is None or found.high is None:
        yield "a second prompt, for one has no spread"
    elif found.low > 1 or found.high < 1:
        by_process = ground.by_process(case)
        if len({value > 1 for _, value in by_process}) > 1:
            yield "more processes, for these disagree on which is faster"
        elif case.apart is not None and case.apart.hides(found.low, found.high):
            yield "a run in which it takes turns with the baseline, or whose machine stands still"
    elif verdict.more_prompts is None:
        yield "another speed: no number of prompts in reach would tell this one from the baseline's"
    elif found.n < PROMPTS_FOR_A_FORECAST:
        yield f"more prompts ({found.n} are too few to say how many)"
    else:
        yield f"about {counted(verdict.more_prompts, 'more prompt')}"


def _instead(case: Case, verdict: Verdict) -> str:
    if case.shortfall or not verdict.has_data or verdict.kind not in ("reject", "invalid"):
        return ""
    if verdict.kind == "invalid":
        return "a run in which its guards hold"
    if not verdict.floor:
        ways = _FASTER
    elif case.quality is not None and case.quality.kind == "reject":
        ways = _BETTER
    else:
        return "another floor, or another lever"
    found = dict.fromkeys(ways[kind] for kind in ways if kind in case.kinds)
    return ", or ".join(found) or "another lever"


def _named(who: Sequence[str]) -> str:
    return who[0] if len(who) == 1 else f"{', '.join(who[:-1])} and {who[-1]}"


def _decided(who: Sequence[str]) -> str:
    return "it is decided" if len(who) == 1 else "they are decided"
