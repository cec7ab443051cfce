"""What must hold in every record, whatever was measured. A violation makes its arm invalid."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator
from itertools import repeat
from operator import add, le, ne

from specq.core.records import Generated

# Clock readings of the parts lie inside those of the whole; this much is rounding and call overhead.
TIME_SLACK = 0.02


def violations(generations: Iterable[Generated], max_new_tokens: int | None = None) -> tuple[str, ...]:
    """One line for each kind of violation with its count and its first place; empty when all holds.

    Checked: counts are not negative; accepted <= proposed; 1 <= emitted <= accepted + 1; the
    emitted tokens and the one from prefill add up to new_tokens; context grows by what was
    emitted; times are not negative and 0 < ttft_s <= e2e_s; steps take no longer than decoding;
    a generation that ended at the length limit has max_new_tokens tokens.
    """
    places: dict[str, list[str]] = {}
    for g in generations:
        if _sound(g, max_new_tokens):
            continue
        for kind, where in _of_one(g, max_new_tokens):
            places.setdefault(kind, []).append(f"prompt {g.prompt}, repeat {g.repeat}, process {g.process}{where}")
    return tuple(f"{kind} ({len(where)} times, first at {where[0]})" for kind, where in places.items())


def _sound(g: Generated, max_new_tokens: int | None) -> bool:
    """Whether all holds of one generation, looked at by columns; False where it does not, or is in doubt.

    The quick twin of `_of_one`: a run has a million steps, and hardly one that is wrong.
    """
    if g.served is not None:
        return False
    cut = g.finish == "length" and max_new_tokens is not None
    if not g.steps or not 0 < g.ttft_s <= g.e2e_s or (cut and g.new_tokens != max_new_tokens):
        return False
    contexts, proposed, accepted, emitted, *parts = zip(*g.steps, strict=True)
    if min(contexts[0], *map(min, (proposed, accepted, *parts))) < 0 or min(emitted) < 1:
        return False
    if not (all(map(le, accepted, proposed)) and all(map(le, emitted, map(add, accepted, repeat(1))))):
        return False
    if any(map(ne, map(add, contexts, emitted), contexts[1:])) or sum(emitted) + 1 != g.new_tokens:
        return False
    # In another order sums differ by rounding, so what is near the limit is in doubt.
    return sum(map(sum, parts)) < (g.e2e_s - g.ttft_s) * (1 + TIME_SLACK / 2)


def _of_one(g: Generated, max_new_tokens: int | None) -> Iterator[tuple[str, str]]:
    for number, (context, proposed, accepted, emitted, draft, verify, sample, rest) in enumerate(g.steps, start=1):
        # Plain comparisons: a run has a million steps, and a list or a text for each would take longer than the rest.
        if context < 0 or proposed < 0 or accepted < 0 or emitted < 0:
            yield "a count below 0", f", step {number}"
        if accepted > proposed:
            yield "accepted more than was proposed", f", step {number}"
        if not 1 <= emitted <= accepted + 1:
            yield "emitted outside 1 to accepted + 1", f", step {number}"
        if draft < 0 or verify < 0 or sample < 0 or rest < 0:
            yield "a step with negative time", f", step {number}"
    for number, (before, after) in enumerate(itertools.pairwise(g.steps), start=2):
        if after[0] - before[0] != before[3]:
            yield "context that did not grow by what was emitted", f", step {number}"
    if g.served is None and sum(step[3] for step in g.steps) + 1 != g.new_tokens:
        yield "emitted tokens and the prefill's one do not add up to the answer's length", ""
    if not 0 < g.ttft_s <= g.e2e_s:
        yield "a time to first token outside 0 to the whole time", ""
    if sum(map(sum, (step[4:] for step in g.steps))) > (g.e2e_s - g.ttft_s) * (1 + TIME_SLACK) + 1e-3:
        yield "steps that took longer than the decoding they are part of", ""
    if g.served is not None:
        yield from _of_server(g)
    if g.finish == "length" and max_new_tokens is not None and g.new_tokens != max_new_tokens:
        yield f"an answer cut at the length limit that has not {max_new_tokens} tokens", ""


def _of_server(g: Generated) -> Iterator[tuple[str, str]]:
    """What must hold of a server's own counts."""
    told = g.served or {}
    proposed, accepted, times = told.get("proposed"), told.get("accepted"), told.get("event_s") or ()
    if proposed is not None and accepted is not None and not 0 <= accepted <= proposed:
        yield "accepted more than was proposed", ""
    if any(later < earlier for earlier, later in itertools.pairwise(times)):
        yield "events that came before those that they follow", ""
    if accepted is not None and g.new_tokens and accepted > g.new_tokens:
        yield "more accepted tokens than the answer has", ""


def prompts_that_differ(arm: Iterable[Generated], baseline: Iterable[Generated]) -> tuple[str, ...]:
    """Ids of prompts whose token ids are not the same in both (by hash), sorted."""
    hashes: dict[str, set[str]] = {}
    for g in baseline:
        hashes.setdefault(g.prompt, set()).add(g.prompt_sha256)
    differ = {g.prompt for g in arm if g.prompt in hashes and hashes[g.prompt] != {g.prompt_sha256}}
    return tuple(sorted(differ))


def later_answers(arm: Iterable[Generated], audited: Collection[str]) -> tuple[int, int]:
    """How many later answers to the audited prompts differ by hash from the one that was audited, of how many.

    Audited is the first process's first repeat; only at temperature 0 must the others equal it.
    """
    own = [g for g in arm if g.prompt in audited]
    first = {g.prompt: g.output_sha256 for g in own if g.process == g.repeat == 0}
    later = [g.output_sha256 != first[g.prompt] for g in own if (g.process or g.repeat) and g.prompt in first]
    return sum(later), len(later)


def share_with_same_output(arm: Iterable[Generated], baseline: Iterable[Generated]) -> tuple[int, int]:
    """How many of the arm's generations have the baseline's token ids in the same turn (by hash), of how many."""
    by_turn = {(g.process, g.prompt, g.repeat): g.output_sha256 for g in baseline}
    pairs = [(g.output_sha256, by_turn.get((g.process, g.prompt, g.repeat))) for g in arm]
    compared = [(mine, theirs) for mine, theirs in pairs if theirs is not None]
    return sum(mine == theirs for mine, theirs in compared), len(compared)
