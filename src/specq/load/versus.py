"""One server held against another at each level, such as one that drafts against one that does not.

Ratios are the first server's time over the other's, above 1 the other is faster, on prompts that both answered; their
interval goes over prompts. Throughput has no prompts: its interval is that of batch means, equal slices of each
steady state taken as independent (Law, Simulation Modeling and Analysis, 9.5.3), and so a little too narrow where
slices are short against a request.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specq.load.measures import Attempt, e2e_s, slices_of, tokens_between
from specq.load.rows import Requested
from specq.stats.intervals import Interval, log_ratio, t_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The other server against the first at one level; None where nothing can be compared.

    `speedup` is of the time a token, `e2e_speedup` of whole requests, `throughput` of tokens a second. `same` is how
    many of `compared` prompts were answered with the same text by both.
    """

    server: str
    level: float
    speedup: Interval | None
    e2e_speedup: Interval | None
    throughput: Interval | None
    same: int
    compared: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Win:
    """Up to which level the other server is surely faster a token, and from which it no longer is.

    `last` is the highest level up to which every interval lies above 1, None where the lowest does not; `first_not` is
    the level after it, None where there is none.
    """

    last: float | None
    first_not: float | None


def ratio(base: Sequence[Attempt], other: Sequence[Attempt], *, closed: bool) -> Ratio:
    """The other server against the first at one level."""
    mine, theirs = answers(base), answers(other)
    both = [prompt for prompt in mine if prompt in theirs]

    def whole(row: Requested) -> tuple[float, float]:
        took = e2e_s(row, closed=closed)
        return (0.0, 0.0) if took is None else (took, 1.0)

    return Ratio(
        server=other[0].point.server,
        level=other[0].point.level,
        speedup=_speedup(mine, theirs, both, decode_cost),
        e2e_speedup=_speedup(mine, theirs, both, whole),
        throughput=_throughput(base, other),
        same=sum(_texts(mine[prompt]) == _texts(theirs[prompt]) for prompt in both),
        compared=len(both),
    )


def win(ratios: Sequence[Ratio]) -> Win:
    """Where the win ends, over the levels in rising order."""
    known = [(one.level, one.speedup) for one in sorted(ratios, key=lambda one: one.level) if one.speedup is not None]
    last, first_not = None, None
    for level, found in known:
        if found.low is None or found.low <= 1:
            first_not = level
            break
        last = level
    return Win(last=last, first_not=first_not)


def decode_cost(row: Requested) -> tuple[float, float]:
    """Seconds after the first token of a request, and its tokens after the first."""
    known = row.first_token_at_s is not None and row.last_token_at_s is not None
    took = row.last_token_at_s - row.first_token_at_s if known else 0.0  # type: ignore[operator]
    return took, float((row.output_tokens or 1) - 1)


def answers(attempts: Sequence[Attempt]) -> dict[str, list[Requested]]:
    """The requests of the steady state that ended well, by prompt."""
    found: dict[str, list[Requested]] = defaultdict(list)
    for one in attempts:
        for row in one.steady:
            if row.error is None:
                found[row.prompt].append(row)
    return found


def _texts(rows: Sequence[Requested]) -> set[str]:
    return {row.output_sha256 for row in rows}


def _speedup(
    base: dict[str, list[Requested]],
    other: dict[str, list[Requested]],
    prompts: Sequence[str],
    cost: Callable[[Requested], tuple[float, float]],
) -> Interval | None:
    """The pooled ratio of seconds over units; `cost` gives both of a request."""

    def sums(of: dict[str, list[Requested]], which: int) -> list[float]:
        return [sum(cost(row)[which] for row in of[prompt]) for prompt in prompts]

    rows = [sums(base, 0), sums(base, 1), sums(other, 0), sums(other, 1)]
    if not any(all(value > 0 for value in column) for column in zip(*rows, strict=True)):
        return None
    return log_ratio(*rows).pooled


def _throughput(base: Sequence[Attempt], other: Sequence[Attempt]) -> Interval | None:
    mine, theirs = _slices(base), _slices(other)
    if not (sum(mine) and sum(theirs)):
        return None
    value = float(np.mean(theirs) / np.mean(mine))
    # The mean of ratio contributions has the variance of the log of each mean.
    of_mine, of_theirs = t_interval(np.asarray(mine) / np.mean(mine)), t_interval(np.asarray(theirs) / np.mean(theirs))
    if of_mine.low is None or of_theirs.low is None:
        return Interval(value=value, low=None, high=None, n=len(theirs), spread=0.0, method="none")
    half = math.hypot(1 - of_mine.low, 1 - of_theirs.low)
    low, high = value * math.exp(-half), value * math.exp(half)
    return Interval(value=value, low=low, high=high, n=len(theirs), spread=of_theirs.spread, method="t")


def _slices(attempts: Sequence[Attempt]) -> list[float]:
    """Tokens a second in each slice of each steady state."""
    return [
        tokens_between(one, first, last) / (last - first) if last > first else 0.0
        for one in attempts
        for first, last in slices_of(one)
    ]
