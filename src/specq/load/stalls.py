"""What long prompts do to the others' tokens, one server against another: as with and without chunked prefill.

Each long prompt is a cluster: all streams wait for the same one at once, so that their gaps are one observation and not
many. Servers get the same long prompts, so that the difference is paired by them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from specq.load.measures import Attempt
from specq.stats.intervals import P99_FROM, Interval, t_interval
from specq.stats.quantiles import Difference, difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A server against the first at one level, while long prompts are read; seconds, above 0 is longer than the first.

    `p99_s` is the difference of the p99 of all gaps that overlap the reading of one, None where either has fewer than
    100; `longest_s` the mean difference of the longest gap that each long prompt brought; `ttft_s` that of the long
    prompts' own time to the first token. `prompts` are the long prompts that both answered.
    """

    server: str
    level: float
    prompts: int
    p99_s: Difference | None
    longest_s: Interval | None
    ttft_s: Interval | None


def stall(base: Sequence[Attempt], other: Sequence[Attempt]) -> Stall | None:
    """The other server against the first; None where no long prompt was answered by both."""
    mine, theirs = _episodes(base), _episodes(other)
    both = [prompt for prompt in mine if prompt in theirs]
    if not both:
        return None
    gaps = [[np.asarray(of[prompt].gaps) for prompt in both] for of in (mine, theirs)]
    enough = all(sum(map(len, of)) >= P99_FROM for of in gaps)
    paired = [prompt for prompt in both if mine[prompt].longest and theirs[prompt].longest]
    longest = [_mean(theirs[prompt].longest) - _mean(mine[prompt].longest) for prompt in paired]
    return Stall(
        server=other[0].point.server,
        level=other[0].point.level,
        prompts=len(both),
        p99_s=difference(gaps[0], gaps[1], 0.99) if enough else None,
        longest_s=t_interval(longest) if longest else None,
        ttft_s=t_interval([_mean(theirs[prompt].ttft_s) - _mean(mine[prompt].ttft_s) for prompt in both]),
    )


class _Episode:
    """What one long prompt did, over its repeats."""

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self.longest: list[float] = []
        self.ttft_s: list[float] = []


def _episodes(attempts: Sequence[Attempt]) -> dict[str, _Episode]:
    """By long prompt that ended well: the others' gaps that overlap its reading, as pauses.pauses takes them."""
    found: dict[str, _Episode] = defaultdict(_Episode)
    for one in attempts:
        others = [row for row in one.rows if row.phase != "inject"]
        for long in one.injected:
            if long.error is not None:
                continue
            begin, end = long.sent_at_s, long.first_token_at_s
            if begin is None or end is None:
                continue
            gaps = [
                high - low
                for row in others
                for low, high in pairwise(row.events_at_s)
                if low < end and high > begin and low >= one.point.start_at_s and high <= one.point.end_at_s
            ]
            episode = found[long.prompt]
            episode.gaps += gaps
            episode.longest += [max(gaps)] if gaps else []
            episode.ttft_s.append(end - begin)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
