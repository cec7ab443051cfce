"""What an answer costs, and one that is right, however it is paid for.

| figure | formula |
|---|---|
| price of an answer | the month's amount over the requests a month |
| price of a correct answer | the price of an answer over the share that is right |
| its interval | the price of an answer over the ends of Wilson's 95 % interval of that share |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Way = Literal["tokens", "busy_hours", "rented"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """The share of answers that are right, and its 95 % interval where it was counted on `n` items."""

    share: float
    n: int | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPrice:
    """The price of an answer, paid by tokens, by busy hours or by rented machines.

    The price of a correct one is None where nobody said how many are right, or none is; `high` is None too where all
    may be wrong.
    """

    way: Way
    amount: float
    price_per_answer: float
    price_per_correct_answer: float | None
    low: float | None
    high: float | None


def right(share: float, n: int | None) -> Right:
    """A share with its interval (Wilson 1927), which needs the number of items that it was counted on."""
    if n is None:
        return Right(share=share)
    from specq.stats.paired import wilson_ends

    low, high = wilson_ends(share, n)
    return Right(share=share, n=n, low=low, high=high)


def answer_price(way: Way, amount: float, requests: float, known: Right | None) -> AnswerPrice:
    """The price of an answer where so many cost `amount`."""
    one = amount / requests
    return AnswerPrice(
        way=way,
        amount=amount,
        price_per_answer=one,
        price_per_correct_answer=None if known is None else _over(one, known.share),
        low=None if known is None else _over(one, known.high),
        high=None if known is None else _over(one, known.low),
    )


def _over(price: float, share: float | None) -> float | None:
    return price / share if share else None
