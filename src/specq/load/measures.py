"""From the rows of a level to its numbers: latencies, rates, failures, what the server told, what drafts gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from specq.load.rows import Judged, Measured, Requested
from specq.stats.intervals import percentiles

SLICES = 10
"""Equal parts of a steady state, whose counts show how much its rates move."""
LATE_S = 0.01
"""From so many seconds after it was due on, a request was sent late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A latency in seconds over requests (gaps: over gaps). p95 needs 20 values and p99 100; None below that."""

    n: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


def spread(values: Sequence[float]) -> Spread:
    """The spread of some values; all None without any."""
    if not values:
        return Spread(n=0, mean=None, p50=None, p95=None, p99=None)
    found = percentiles(values)
    return Spread(n=len(values), mean=float(np.mean(values)), p50=found["p50"], p95=found["p95"], p99=found["p99"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One complete measurement: its point and the rows of all its requests, ramp and tail too, and what was judged."""

    point: Measured
    rows: tuple[Requested, ...]
    judged: tuple[Judged, ...] = ()

    @property
    def seconds(self) -> float:
        """How long the steady state was."""
        return self.point.end_at_s - self.point.start_at_s

    @property
    def steady(self) -> tuple[Requested, ...]:
        """The requests of the steady state, failed ones too."""
        return tuple(row for row in self.rows if row.phase == "steady")

    @property
    def injected(self) -> tuple[Requested, ...]:
        """The long prompts that went out before the steady state was over, failed ones too."""
        end_s = self.point.end_at_s
        return tuple(row for row in self.rows if row.phase == "inject" and row.due_at_s < end_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What went on in the steady state, a second: tokens that arrived, requests that ended well, or at all.

    A request that lies partly outside counts by its share of time.

    `good_per_s` is goodput: requests that ended, times the share of the steady state's that met every floor; None
    without a floor. `in_flight` and `decoding` are how many requests were under way, and past their first token, on
    average.
    """

    seconds: float
    tokens_per_s: float
    prompt_tokens_per_s: float | None
    requests_per_s: float
    ended_per_s: float
    good_share: float | None
    good_per_s: float | None
    in_flight: float
    decoding: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Latencies of the steady state's requests that ended well. `late_s` is how long after it was due each was sent."""

    ttft_s: Spread
    tpot_s: Spread
    gap_s: Spread
    e2e_s: Spread
    queue_s: Spread
    late_s: Spread
    late: int


def start_at_s(row: Requested, *, closed: bool) -> float | None:
    """When the clock of a request starts: as its bytes go out, or in an open loop when it was due.

    Where it was asked again the first asking counts, for that is what its user waited from.
    """
    if not closed or row.retries:
        return row.due_at_s
    return row.sent_at_s


def ttft_s(row: Requested, *, closed: bool) -> float | None:
    """Seconds to the first token."""
    return _since(row.first_token_at_s, start_at_s(row, closed=closed))


def e2e_s(row: Requested, *, closed: bool) -> float | None:
    """Seconds to the last token."""
    return _since(row.last_token_at_s, start_at_s(row, closed=closed))


def tpot_s(row: Requested) -> float | None:
    """Seconds a token after the first; None below two tokens."""
    if row.output_tokens is None or row.output_tokens < 2:
        return None
    took = _since(row.last_token_at_s, row.first_token_at_s)
    return None if took is None else took / (row.output_tokens - 1)


def gaps_s(row: Requested) -> list[float]:
    """Seconds between events with output; tokens that came together have one gap before them all."""
    return [after - before for before, after in pairwise(row.events_at_s)]


def latency(attempts: Sequence[Attempt], *, closed: bool, tag: str | None = None) -> Latency:
    """The latencies of a level, its repeats together; with `tag` those of its requests alone."""
    steady = [row for one in attempts for row in one.steady if tag is None or tag in row.tags]
    well = [row for row in steady if row.error is None]
    # Whoever was sent late was, however it ended.
    late = _known(_since(row.sent_at_s, row.due_at_s) for row in steady)
    return Latency(
        ttft_s=spread(_known(ttft_s(row, closed=closed) for row in well)),
        tpot_s=spread(_known(map(tpot_s, well))),
        gap_s=spread([gap for row in well for gap in gaps_s(row)]),
        e2e_s=spread(_known(e2e_s(row, closed=closed) for row in well)),
        queue_s=spread(_known(row.queue_s for row in well)),
        late_s=spread(late),
        late=sum(one > LATE_S for one in late),
    )


def rates(attempts: Sequence[Attempt], good: Callable[[Requested], bool] | None) -> Rates:
    """The rates of a level, its repeats together; `good` says whether a request met the floor."""
    seconds = sum(one.seconds for one in attempts)
    steady = [row for one in attempts for row in one.steady]
    per_s = 1 / seconds if seconds > 0 else 0.0
    well = sum(_share_within(one, row) for one in attempts for row in one.rows if row.error is None)
    ended = sum(_share_within(one, row) for one in attempts for row in one.rows)
    share = None if good is None or not steady else sum(map(good, steady)) / len(steady)
    prompts = [row.prompt_tokens for one in attempts for row in one.rows if _within(one, row.first_token_at_s)]
    told = [count for count in prompts if count is not None]
    return Rates(
        seconds=seconds,
        tokens_per_s=sum(tokens_between(one, 0.0, one.seconds) for one in attempts) * per_s,
        prompt_tokens_per_s=sum(told) * per_s if prompts and len(told) == len(prompts) else None,
        requests_per_s=well * per_s,
        ended_per_s=ended * per_s,
        good_share=share,
        good_per_s=None if share is None else share * ended * per_s,
        in_flight=sum(_overlap(one, row.sent_at_s, row.end_at_s) for one in attempts for row in one.rows) * per_s,
        decoding=sum(_overlap(one, row.first_token_at_s, row.last_token_at_s) for one in attempts for row in one.rows)
        * per_s,
    )


def tokens_between(attempt: Attempt, first_s: float, last_s: float) -> float:
    """Tokens that came from `first_s` to before `last_s` of the steady state, of requests that were answered.

    Where the server counted more tokens than events had, each event had its share of them.
    """
    low, high = attempt.point.start_at_s + first_s, attempt.point.start_at_s + last_s
    total = 0.0
    for row in attempt.rows:
        if row.error is not None:
            continue
        counts = row.event_tokens or (1,) * len(row.events_at_s)
        seen = sum(counts)
        scale = row.output_tokens / seen if seen and row.output_tokens is not None else 1.0
        total += scale * sum(n for n, at in zip(counts, row.events_at_s, strict=True) if low <= at < high)
    return total


def requests_between(attempt: Attempt, first_s: float, last_s: float) -> float:
    """Requests that ended well, each by the share of its time from `first_s` to `last_s` of the steady state."""
    low, high = attempt.point.start_at_s + first_s, attempt.point.start_at_s + last_s
    return sum(_share_between(row, low, high) for row in attempt.rows if row.error is None)


def slices_of(attempt: Attempt) -> list[tuple[float, float]]:
    """The seconds of the steady state at which each of its equal slices begins and ends."""
    ends = [attempt.seconds * place / SLICES for place in range(SLICES + 1)]
    return list(pairwise(ends))


def failures(rows: Iterable[Requested]) -> dict[str, int]:
    """How many requests failed, by what was wrong, the most first."""
    return dict(Counter(row.error for row in rows if row.error is not None).most_common())


def _share_within(one: Attempt, row: Requested) -> float:
    """The share of a request's time that lies in the steady state: counting ends would favour where it begins."""
    return _share_between(row, one.point.start_at_s, one.point.end_at_s)


def _share_between(row: Requested, low: float, high: float) -> float:
    first = row.due_at_s if row.sent_at_s is None else row.sent_at_s
    took = row.end_at_s - first
    return _common(first, row.end_at_s, low, high) / took if took > 0 else float(low <= row.end_at_s <= high)


def _within(one: Attempt, at_s: float | None) -> bool:
    return at_s is not None and one.point.start_at_s <= at_s <= one.point.end_at_s


def _overlap(one: Attempt, first_s: float | None, last_s: float | None) -> float:
    """Seconds of the steady state between two times of a request."""
    if first_s is None or last_s is None:
        return 0.0
    return _common(first_s, last_s, one.point.start_at_s, one.point.end_at_s)


def _common(first_s: float, last_s: float, low: float, high: float) -> float:
    return max(0.0, min(last_s, high) - max(first_s, low))


def _since(end: float | None, start: float | None) -> float | None:
    return None if end is None or start is None else end - start


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
