"""What long prompts do to streams that decode: gaps between tokens before, while and after one is read.

A server that reads a long prompt in one piece gives no tokens to anybody meanwhile; one that reads it in chunks gives
them between the chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from specq.load.measures import Attempt, Spread, spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Gaps of the steady streams, and what became of the long prompts.

    Long prompts that went out after the steady state are left out: no stream was beside them. `during` are gaps that
    overlap the time from the sending of a long prompt to its first token, `before` those that end before the first such
    time, `after` all others. `prompt_tokens` and `ttft_s` are those of the long prompts.
    """

    injected: int
    failed: int
    prompt_tokens: Spread
    ttft_s: Spread
    before: Spread
    during: Spread
    after: Spread


def pauses(attempts: Sequence[Attempt]) -> Pauses | None:
    """The gaps of a level; None where nothing was injected."""
    long = [row for one in attempts for row in one.injected]
    if not long:
        return None
    found: dict[str, list[float]] = {"before": [], "during": [], "after": []}
    for one in attempts:
        times = sorted(
            (row.sent_at_s, row.first_token_at_s if row.first_token_at_s is not None else row.end_at_s)
            for row in one.injected
            if row.sent_at_s is not None
        )
        for row in one.rows:
            if row.phase == "inject":
                continue
            for low, high in pairwise(row.events_at_s):
                if low < one.point.start_at_s or high > one.point.end_at_s:
                    continue
                found[_where(low, high, times)].append(high - low)
    well = [row for row in long if row.first_token_at_s is not None and row.sent_at_s is not None]
    return Pauses(
        injected=len(long),
        failed=sum(row.error is not None for row in long),
        prompt_tokens=spread([float(row.prompt_tokens) for row in long if row.prompt_tokens is not None]),
        ttft_s=spread([row.first_token_at_s - row.sent_at_s for row in well]),  # type: ignore[operator]
        before=spread(found["before"]),
        during=spread(found["during"]),
        after=spread(found["after"]),
    )


def _where(low: float, high: float, times: Sequence[tuple[float, float]]) -> str:
    if any(low < end and high > begin for begin, end in times):
        return "during"
    return "before" if not times or high <= times[0][0] else "after"
