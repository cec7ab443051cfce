"""What a month of requests costs by tokens, and what fewer tokens or a warmer cache would save of it.

Everything is arithmetic on plain numbers, so that whatever shows it can compute it again. A request has P prompt
tokens, a share h of them read from the cache, a share w written to it, and O output tokens; a month has N requests.
Prices are for a million tokens: i (input), c (cached), k (cache write), o (output).

| figure | formula |
|---|---|
| input row | N P (1 - h - w) i / 10^6; w counts only where k is known |
| cached row | N P h c / 10^6 |
| cache write row | N P w k / 10^6 |
| output row | N O o / 10^6 |
| bill | the sum of the rows |
| uncached bill | N (P i + O o) / 10^6 |
| a lever saves | the bill, less the bill with P/2, 0.6 P, O/2, or h = 0.6 |
| a written token pays for itself after | (k - i) / (i - c) reads |

Values are taken as checked: `cost_checks` refuses what is out of range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

MILLION = 1e6
HIT_RATE = 0.6
"""The hit rate that is named among the savings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A month of requests: mean tokens a request, and shares of the prompt's tokens, from 0 to 1.

    `written_share` is of prompt tokens that are written to the cache at a price of their own; None where nobody said.
    """

    prompt_tokens: float
    output_tokens: float
    requests_per_month: float
    cached_share: float = 0.0
    written_share: float | None = None

    @property
    def written(self) -> float:
        """The share that is written: what was said; else, of a prompt that is cached, all that was not read."""
        if self.written_share is not None:
            return self.written_share
        return 1 - self.cached_share if self.cached_share else 0.0

    def uncached(self) -> Workload:
        """The same requests without a cache."""
        return replace(self, cached_share=0.0, written_share=0.0)

    def warmed(self, hit_rate: float) -> Workload:
        """The same requests at another cached share; what can be cached at all stays."""
        if self.written_share is None:
            return replace(self, cached_share=hit_rate)
        return replace(
            self, cached_share=hit_rate, written_share=max(self.cached_share + self.written_share - hit_rate, 0.0)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrices:
    """Prices of a million tokens in one currency; `cache_write_price` None: a write is billed as input."""

    input_price: float
    cached_price: float
    output_price: float
    cache_write_price: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of token: how many a month, the price of a million, and the amount a month."""

    name: str
    tokens: float
    price: float
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """A month by tokens: rows named input, cache_write, cached and output."""

    rows: tuple[Row, ...]

    @property
    def amount(self) -> float:
        """All rows together."""
        return sum(row.amount for row in self.rows)

    @property
    def tokens(self) -> float:
        """Tokens of all rows."""
        return sum(row.tokens for row in self.rows)

    @property
    def input_share_of_tokens(self) -> float:
        """What of the tokens is prompt, however it is billed."""
        return 1 - self.rows[-1].tokens / self.tokens

    @property
    def input_share_of_bill(self) -> float | None:
        """What of the bill is for prompts; None of a bill of nothing."""
        return 1 - self.rows[-1].amount / self.amount if self.amount else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What one lever saves a month; `share` is of what it saves from, None where that is nothing."""

    lever: str
    saves: float
    share: float | None


def bill(work: Workload, prices: TokenPrices) -> Bill:
    """The month's bill; the row of cache writes is there where writes have a price and are made."""
    prompt = work.requests_per_month * work.prompt_tokens
    written = 0.0 if prices.cache_write_price is None else work.written
    # Not below 0: 1 - 0.6 - 0.4 is no exact 0 in binary.
    rows = [_row("input", prompt * max(1 - work.cached_share - written, 0.0), prices.input_price)]
    if prices.cache_write_price is not None and written:
        rows.append(_row("cache_write", prompt * written, prices.cache_write_price))
    rows.append(_row("cached", prompt * work.cached_share, prices.cached_price))
    rows.append(_row("output", work.requests_per_month * work.output_tokens, prices.output_price))
    return Bill(rows=tuple(rows))


def _row(name: str, tokens: float, price: float) -> Row:
    return Row(name=name, tokens=tokens, price=price, amount=tokens * price / MILLION)


LEVERS: dict[str, Callable[[Workload], Workload]] = {
    "half_prompt": lambda work: replace(work, prompt_tokens=work.prompt_tokens / 2),
    "prompt_40_less": lambda work: replace(work, prompt_tokens=work.prompt_tokens * 0.6),
    "half_output": lambda work: replace(work, output_tokens=work.output_tokens / 2),
    "hit_rate_60": lambda work: work.warmed(HIT_RATE),
}
"""What each lever makes of the requests; a prompt that is cut keeps the shares that are cached and written."""


def savings(work: Workload, cost_of: Callable[[Workload], float], *, uncached: bool = False) -> tuple[Saving, ...]:
    """What each lever alone saves of a cost (a bill, or hours), the most first.

    With `uncached` it saves from the requests without a cache, where a cut prompt has no cached share either; else
    from the requests as they are.
    """
    start = work.uncached() if uncached else work
    before = cost_of(start)
    found = []
    for lever, change in LEVERS.items():
        # The warm cache of an uncached month is that of the requests as they are: what can be cached is theirs.
        saves = before - cost_of(change(work if lever == "hit_rate_60" else start))
        found.append(Saving(lever=lever, saves=saves, share=saves / before if before else None))
    return tuple(sorted(found, key=lambda one: -one.saves))


def half_prompt_span(work: Workload, prices: TokenPrices) -> tuple[float, float]:
    """The least and the most that half the prompt can save, by which tokens go: cached ones, or others.

    Writes are counted as input.
    """
    half, total = work.prompt_tokens / 2, work.prompt_tokens
    ends = []
    for first, price, other in (
        (total * work.cached_share, prices.cached_price, prices.input_price),
        (total * (1 - work.cached_share), prices.input_price, prices.cached_price),
    ):
        of_first = min(half, first)
        ends.append(work.requests_per_month * (of_first * price + (half - of_first) * other) / MILLION)
    return min(ends), max(ends)


def reads_to_pay(prices: TokenPrices) -> float | None:
    """How often a token must be read from the cache until its write has paid; None where it never does, or is free."""
    if prices.cache_write_price is None or prices.cached_price >= prices.input_price:
        return None
    return max(prices.cache_write_price - prices.input_price, 0.0) / (prices.input_price - prices.cached_price)
