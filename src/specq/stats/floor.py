"""A paired difference held against a floor, "at most m worse": non-inferiority with three outcomes.

The lever is kept where the one-sided 95 % lower bound of the difference lies above -m, rejected where the upper bound
lies below -m, and undecided in between. A large p-value of "no difference" proves nothing and is not used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from specq.stats.paired import Bounds, bonett_price, tango
from specq.stats.power import items_needed

Outcome = Literal["keep", "reject", "undecided"]
# Beyond this a forecast of items helps nobody.
MOST_ITEMS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a margin and the flips of independent items come to.

    `bounds` holds the two one-sided 95 % bounds of (c - b) / n. `more_items` says how many items beyond these would
    settle an undecided case, did the lever in truth cost nothing and flip as many items as here; None where nothing
    can be said: it is settled, or what was seen lies at the margin or beyond it.
    """

    outcome: Outcome
    margin: float
    bounds: Bounds
    b: int
    c: int
    n: int
    more_items: int | None


def against_floor(b: int, c: int, n: int, margin: float) -> Held:
    """Hold `b` items gone from right to wrong and `c` gone right, among `n`, against a margin, a share.

    Raises:
        ValueError: the margin is no share from 0 to 1, there are no items, or the counts do not fit.
    """
    found = held(one_sided(b, c, n), b, c, n, margin)
    return replace(found, more_items=_more(b, c, n, margin)) if found.outcome == "undecided" else found


def held(bounds: Bounds, b: int, c: int, n: int, margin: float) -> Held:
    """Hold one-sided bounds against a margin; `b` of `n` items got worse and `c` better. No forecast of items is made.

    Raises:
        ValueError: the margin is no share from 0 to 1.
    """
    if not 0 <= margin <= 1:
        raise ValueError(f"margin = {margin}: allowed is a share from 0 to 1; 0.02 is 2 points")
    outcome: Outcome = "undecided"
    if bounds.low > -margin:
        outcome = "keep"
    elif bounds.high < -margin:
        outcome = "reject"
    return Held(outcome=outcome, margin=margin, bounds=bounds, b=b, c=c, n=n, more_items=None)


def one_sided(b: int, c: int, n: int, level: float = 0.95) -> Bounds:
    """Both one-sided bounds of (c - b) / n at a level, each by the formula that errs least on its side.

    Where flips go one way the law is skewed: over 50 to 1000 items and margins of 0.5 to 10 points, with other flips of
    0 to 20 %, a lever that lies at the margin is kept by the lower bound of Tango's corrected interval in at most 5.3 %
    of studies (by Bonett and Price's in up to 9.7 %), and rejected by the upper bound of Bonett and Price's in at most
    5 % (by Tango's in up to 8.9 %). These are exact, by enumeration.
    """
    two = 2 * level - 1
    low, high = tango(b, c, n, level=two, correction=0.125).low, bonett_price(b, c, n, level=two).high
    return Bounds(value=(c - b) / n, low=low, high=max(low, high), method="tango below, bonett-price above")


def _more(b: int, c: int, n: int, margin: float) -> int | None:
    if margin == 0 or (c - b) / n <= -margin:
        return None
    # Half a flip more than was seen: with none seen the rate is small, not 0.
    needed = items_needed(margin, min(1.0, (b + c + 0.5) / n))
    return needed - n if n < needed <= MOST_ITEMS else None
