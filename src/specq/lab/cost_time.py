"""What a month of requests takes in seconds and machine-hours, and what those hours cost where you serve yourself.

As in `cost`: P prompt tokens, a share h of them cached, O output tokens, N requests a month. The machine reads a
prompt at p tokens/s and writes an answer at d tokens/s; to pick up a warm cache takes s seconds; its hour costs r.

| figure | formula |
|---|---|
| uncached tokens | P (1 - h) |
| prefill seconds | P (1 - h) / p + s |
| decode seconds | O / d |
| seconds of a request | prefill + decode |
| the cache saves | P h / p - s |
| the cache pays from a cached share of | s p / P on |
| machine-hours a month | N (prefill + decode) / 3600 |
| price of a million input tokens | 10^6 r / (3600 p); of output tokens with d |
| busy hours' bill | machine-hours times r |
| machines | machine-hours / 730, rounded up |
| rented bill | machines times 730 r |
| a faster decode makes a request faster by at most | (prefill + decode) / prefill |

Prefill grows faster than the prompt, and decode slows with it: beyond the context that both rates were measured at,
seconds and hours are a lower bound. Requests follow each other without a gap; where rates are those of a machine that
answers several at once, hours are right and seconds are no request's latency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from specq.lab.cost import MILLION, Workload

HOURS_A_MONTH = 730.0
"""8760 hours a year over 12."""
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a machine does: tokens a second of either half, seconds to pick up a warm cache."""

    prefill_tokens_per_s: float
    decode_tokens_per_s: float
    warm_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds of a request's halves, what they would be without a cache, and machine-hours a month."""

    prefill_s: float
    decode_s: float
    uncached_prefill_s: float
    machine_hours: float

    @property
    def e2e_s(self) -> float:
        """Seconds of a request."""
        return self.prefill_s + self.decode_s

    @property
    def prefill_share(self) -> float | None:
        """What of a request is prefill; None of a request of no time."""
        return self.prefill_s / self.e2e_s if self.e2e_s else None

    @property
    def cache_saves_s(self) -> float:
        """Seconds that the cache saves a request; below 0 it costs them."""
        return self.uncached_prefill_s - self.prefill_s

    @property
    def decode_limit(self) -> float | None:
        """How much faster a request gets at most by a faster decode; None where nothing else takes time."""
        return self.e2e_s / self.prefill_s if self.prefill_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedRow:
    """One kind of token on your own machine; price (of a million) and amount in the currency, price None of none."""

    name: str
    tokens: float
    hours: float
    price: float | None
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """A month on your own machines at `per_hour`.

    `busy_amount` pays the hours in which a machine works, `rented_amount` as many whole machines as these need, all
    month. `capacity` is the requests a month that one machine can serve without a pause, None where they take no time.
    """

    per_hour: float
    rows: tuple[HostedRow, ...]
    busy_amount: float
    machines: int
    rented_amount: float
    capacity: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """Where a rented machine costs what a service bills by tokens.

    So many `requests` a month pay a whole machine, None where the service is free. `times_as_fast`: how much faster a
    machine must be to serve as many; at most 1 where it can. `per_hour` is the price of an hour at which the requests
    as they are cost the same either way.
    """

    requests: float | None
    times_as_fast: float | None
    per_hour: float


def times(work: Workload, rates: Rates) -> Times:
    """Seconds and machine-hours of a month of requests."""
    prefill_s = work.prompt_tokens * (1 - work.cached_share) / rates.prefill_tokens_per_s + rates.warm_s
    decode_s = work.output_tokens / rates.decode_tokens_per_s
    return Times(
        prefill_s=prefill_s,
        decode_s=decode_s,
        uncached_prefill_s=work.prompt_tokens / rates.prefill_tokens_per_s,
        machine_hours=work.requests_per_month * (prefill_s + decode_s) / _HOUR_S,
    )


def pays_from(work: Workload, rates: Rates) -> float:
    """The cached share from which on the cache saves time."""
    return rates.warm_s * rates.prefill_tokens_per_s / work.prompt_tokens


def hosted(work: Workload, rates: Rates, per_hour: float) -> Hosted:
    """What the month costs on machines at `per_hour`, input and output apart."""
    n, taken = work.requests_per_month, times(work, rates)
    cached = work.prompt_tokens * work.cached_share
    parts = (
        ("input", work.prompt_tokens - cached, taken.prefill_s - rates.warm_s),
        ("cached", cached, rates.warm_s),
        ("output", work.output_tokens, taken.decode_s),
    )
    rows = tuple(
        HostedRow(
            name=name,
            tokens=n * tokens,
            hours=n * seconds / _HOUR_S,
            price=MILLION * per_hour * seconds / _HOUR_S / tokens if tokens else None,
            amount=n * seconds / _HOUR_S * per_hour,
        )
        for name, tokens, seconds in parts
    )
    # A month that fills its machines to the last second is no reason for one more.
    machines = max(1, math.ceil(taken.machine_hours / HOURS_A_MONTH - 1e-9))
    return Hosted(
        per_hour=per_hour,
        rows=rows,
        busy_amount=taken.machine_hours * per_hour,
        machines=machines,
        rented_amount=machines * HOURS_A_MONTH * per_hour,
        capacity=HOURS_A_MONTH * _HOUR_S / taken.e2e_s if taken.e2e_s else None,
    )


def break_even(work: Workload, by_tokens: float, own: Hosted) -> BreakEven:
    """A month of a service that bills `by_tokens`, against your own machines."""
    an_answer = by_tokens / work.requests_per_month
    requests = HOURS_A_MONTH * own.per_hour / an_answer if an_answer else None
    return BreakEven(
        requests=requests,
        times_as_fast=None if requests is None or own.capacity is None else requests / own.capacity,
        per_hour=by_tokens / (own.machines * HOURS_A_MONTH),
    )
