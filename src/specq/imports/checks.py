"""Counts that cannot be, and counts that mislead. A flag never stops an import.

The identity behind most of them: an answer's tokens are the one that the prompt's pass gave, one of each step's own,
and what was accepted. Where a block was cut, by a stop or by the token budget, an engine that counts before the cut
says more (vllm-project/vllm issue 56101, and the counters of Blaizzy/mlx-vlm as its pull request 2324 tells).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from specq.core.nouns import counted
from specq.imports.entry import Entry
from specq.imports.record import Imported, Said

_REL = 0.005
# Logs round to two decimals, shares to three or more.
_ABS = 0.0051
_ABS_SHARE = 0.00051


def check(entry: Entry, record: Imported, said: Said | None = None) -> None:
    """Flag what is wrong in a record, and between it and what its file states beside the counts."""
    said = said or Said()
    _drafts(entry, record)
    _length(entry, record, said)
    _blocks(entry, record, said)
    if not said.open:
        _identity(entry, record, said)
    _positions(entry, record, said)
    for rate in said.rates:
        if rate.down > 0 and not any(_close(rate.value, up / rate.down, _ABS) for up in rate.ups):
            counted = " or ".join(f"{up / rate.down:.6g}" for up in rate.ups)
            entry.flag("rate_contradicts", f"{rate.name} is {rate.value:.6g}, the counts give {counted}")


def _close(value: float, other: float, least: float) -> bool:
    return math.isfinite(value) and abs(value - other) <= max(_REL * abs(other), least)


def most_a_step(record: Imported) -> int | None:
    """The most that a step can have proposed, as far as the counts tell."""
    if record.k is not None:
        return record.k
    if not record.draft_steps or record.proposed is None:
        return None
    return math.ceil(record.proposed / record.draft_steps)


def drafts_can_be(record: Imported) -> bool:
    """Whether as many proposals can have been accepted as the record says."""
    accepted, proposed, steps, k = record.accepted, record.proposed, record.draft_steps, record.k
    if accepted is None:
        return True
    return (proposed is None or accepted <= proposed) and (steps is None or k is None or accepted <= k * steps)


def steps_can_be(record: Imported) -> bool:
    """Whether the tokens can have come from the steps: each emits k + 1 at most."""
    k, new, steps = most_a_step(record), record.new_tokens, record.steps
    return k is None or new is None or steps is None or new - (record.requests or 0) <= steps * (k + 1)


def positions_can_be(record: Imported) -> bool:
    """Whether the counts by position fall from the passes that had proposals."""
    positions, steps = record.accepted_by_position or (), record.draft_steps
    return _rise(positions) is None and (not positions or steps is None or positions[0] <= steps)


def _drafts(entry: Entry, record: Imported) -> None:
    accepted, proposed, steps, k = record.accepted, record.proposed, record.draft_steps, record.k
    if accepted is not None and proposed is not None and accepted > proposed:
        entry.flag("accepted_above_proposed", f"{accepted} accepted of {proposed} proposed")
    if accepted is not None and steps is not None and k is not None and accepted > k * steps:
        entry.flag("length_above_k", f"{accepted} accepted in {steps} steps of at most {k} proposals")
    if proposed is not None and steps is not None and k is not None and proposed > k * steps:
        entry.flag("counts_differ", f"{proposed} proposed in {steps} steps of at most {k} proposals")
    if accepted is None and not steps_can_be(record):
        entry.flag("length_above_k", f"{record.new_tokens} tokens in {record.steps} steps of at most {k} proposals")
    if record.new_tokens is not None and record.new_tokens < (record.requests or 0):
        entry.flag(
            "no_tokens", f"{counted(record.new_tokens, 'new token')} in {counted(record.requests or 0, 'answer')}"
        )


def _length(entry: Entry, record: Imported, said: Said) -> None:
    accepted, proposed, share, length = record.accepted, record.proposed, said.draft_acceptance, said.length
    if share is not None and accepted is not None and proposed and not _close(share, accepted / proposed, _ABS_SHARE):
        text = f"the stated acceptance is {share:.5g}, the counts give {accepted} / {proposed}"
        entry.flag("rate_contradicts", text)
    if length is None:
        return
    k = most_a_step(record)
    if k is not None and length > k + 1 + _ABS:
        entry.flag("length_above_k", f"the stated length is {length:.5g} tokens a step, k + 1 is {k + 1}")
    allowed = _lengths(record)
    if not allowed or any(_close(length, one, _ABS) for one in allowed):
        return
    if _close(length, allowed[0] + 1, _ABS):
        text = f"the stated length is {length:.5g}, which is 2 + accepted / steps; the counts give {allowed[0]:.5g}"
        entry.flag("bonus_counted_twice", text)
    else:
        text = f"the stated length is {length:.5g} tokens a step, the counts give {allowed[0]:.5g}"
        entry.flag("rate_contradicts", text)


def _lengths(record: Imported) -> list[float]:
    """Tokens a step under each definition that engines use."""
    steps = record.draft_steps or record.steps
    if not steps:
        return []
    found = [] if record.accepted is None else [1 + record.accepted / steps]
    if record.new_tokens is not None:
        found += [record.new_tokens / steps, (record.new_tokens - (record.requests or 0)) / steps]
    elif record.accepted is not None:
        # As the first of these, where nobody counted the tokens and no block was cut.
        found.append(1 + (record.accepted + (record.requests or 0)) / steps)
    return found


def _blocks(entry: Entry, record: Imported, said: Said) -> None:
    blocks = said.blocks
    if blocks is None:
        return
    if wrong := [place for place, (proposed, accepted) in enumerate(blocks) if accepted > proposed]:
        proposed, accepted = blocks[wrong[0]]
        text = f"step {wrong[0] + 1} accepted {accepted} of {proposed} proposed ({len(wrong)} such steps)"
        entry.flag("accepted_above_proposed", text)
    sums = (len(blocks), sum(one[0] for one in blocks), sum(one[1] for one in blocks))
    totals = (record.draft_steps, record.proposed, record.accepted)
    for what, found, total in zip(("steps", "proposed", "accepted"), sums, totals, strict=True):
        if total is not None and found != total:
            entry.flag("counts_differ", f"{what}: the steps one by one give {found}, the total is {total}")


def _identity(entry: Entry, record: Imported, said: Said) -> None:
    new, requests, accepted = record.new_tokens, record.requests, record.accepted
    if new is None or requests is None or accepted is None:
        return
    after = new if said.first_in_step else max(new - requests, 0)
    # Without a count of steps, whoever accepted something made one at least.
    steps = record.draft_steps if record.draft_steps is not None else int(accepted > 0)
    over = accepted + steps - after
    if over > 0:
        _over(entry, record, over, f"{accepted} accepted and {steps} steps' own tokens for {after} tokens")
        return
    if record.steps is not None and record.steps_from == "counted" and after > accepted + record.steps:
        text = f"{after} tokens, but {accepted} accepted and {record.steps} steps' own"
        entry.flag("tokens_without_step", text)
    if record.finish == "length" and said.blocks:
        *before, (proposed, _) = said.blocks
        left = after - sum(one + 1 for _, one in before)
        if proposed > left:
            entry.flag("budget_cut", f"the last step proposed {proposed} with {left} tokens of the budget left")


def _over(entry: Entry, record: Imported, over: int, counted: str) -> None:
    """More was counted than emitted: by a cut of each answer's last block, which explains k tokens each, or else."""
    k, steps = most_a_step(record), record.draft_steps
    if k is not None and over > k * (record.requests or 1):
        if over == steps:
            entry.flag("bonus_counted_twice", f"{counted}: each step's own token is among the accepted")
        else:
            entry.flag("overcounted", f"{counted}: {over} too many, and k is {k}")
        return
    cut = {"length": "budget_cut", "stop": "stop_inside_block", "eos": "stop_inside_block"}
    entry.flag(cut.get(record.finish or "", "block_cut"), f"{counted}: {over} too many")


def _positions(entry: Entry, record: Imported, said: Said) -> None:
    histogram, positions = said.histogram, record.accepted_by_position
    if histogram is not None:
        _total(entry, "the histogram's steps", sum(histogram), record.draft_steps)
        _total(entry, "the histogram's accepted", sum(j * n for j, n in enumerate(histogram)), record.accepted)
    elif positions is not None:
        _total(entry, "accepted by position", sum(positions), record.accepted)
        if rising := _rise(positions):
            text = f"position {rising} has {positions[rising - 1]}, position {rising - 1} only {positions[rising - 2]}"
            entry.flag("positions_rise", text)
        if positions and record.draft_steps is not None and positions[0] > record.draft_steps:
            text = f"position 1 was accepted {positions[0]} times in {record.draft_steps} steps"
            entry.flag("positions_do_not_sum", text)


def _total(entry: Entry, what: str, found: int, total: int | None) -> None:
    if total is not None and found != total:
        entry.flag("positions_do_not_sum", f"{what} sum to {found}, the total is {total}")


def _rise(positions: Sequence[int]) -> int | None:
    """The first position, from 1, that more steps accepted than the one before it."""
    return next((j + 1 for j in range(1, len(positions)) if positions[j] > positions[j - 1]), None)
