"""Two arms on the same items, each item right or wrong: tests and intervals for the difference.

`b` counts items that went from right to wrong, `c` those from wrong to right, among `n` items; the difference is
(c - b) / n, the lever's share right less the baseline's. Items are independent here; those that share a document
are not, and belong to `clustered`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """An estimate with the two ends of its interval, as shares; `method` names the formula."""

    value: float
    low: float
    high: float
    method: str


def mcnemar(b: int, c: int) -> float:
    """Two-sided exact p-value of "as many items got worse as got better"; 1 where none changed.

    McNemar 1947, by the binomial law of b among b + c.

    Raises:
        ValueError: a count is negative.
    """
    _check(b, c, b + c)
    if b + c == 0:
        return 1.0
    from scipy.stats import binom

    return min(1.0, 2.0 * float(binom.cdf(min(b, c), b + c, 0.5)))


def mcnemar_mid_p(b: int, c: int) -> float:
    """As `mcnemar`, with half the probability of what was seen: less conservative (Fagerland et al. 2013).

    Raises:
        ValueError: a count is negative.
    """
    _check(b, c, b + c)
    if b == c:
        return 1.0
    from scipy.stats import binom

    least, flips = min(b, c), b + c
    return float(2.0 * binom.cdf(least, flips, 0.5) - binom.pmf(least, flips, 0.5))


def wilson(right: int, n: int, level: float = 0.95) -> Bounds:
    """The score interval of a single share (Wilson 1927).

    Raises:
        ValueError: there are no items, or a count does not fit.
    """
    if not 0 <= right <= n or n == 0:
        raise ValueError(f"{right} of {n} items: allowed is 0 up to all of at least one")
    low, high = wilson_ends(right / n, n, level)
    return Bounds(value=right / n, low=low, high=high, method="wilson")


def wilson_ends(share: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """The ends of `wilson` for a share of n items, which may be no whole number: items that count for fewer."""
    z2 = _z(level) ** 2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def bonett_price(b: int, c: int, n: int, level: float = 0.95) -> Bounds:
    """Interval of the difference in closed form, one item added to each kind of flip (Bonett and Price 2012).

    The one to use: over 50 to 1000 items and flip rates of 1 to 20 % its exact coverage at 95 % is never below 94.9 %,
    where that of `tango` falls to 93.1 %. Never of zero width, whatever the counts.

    Raises:
        ValueError: there are no items, or the counts do not fit.
    """
    _check(b, c, n)
    _some(n)
    low, high = bonett_price_many(np.array([b]), np.array([c]), n, level)
    return Bounds(value=(c - b) / n, low=float(low[0]), high=float(high[0]), method="bonett-price")


def bonett_price_many(
    b: np.ndarray, c: np.ndarray, n: int | np.ndarray, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of `bonett_price` for many pairs of counts among n items at once: two arrays of the counts' shape.

    n may be an array of that shape, and counts need not be whole: `clustered` divides them by a design effect.
    """
    worse, better = (b + 1) / (n + 2), (c + 1) / (n + 2)
    centre = better - worse
    half = _z(level) * np.sqrt((worse + better - centre**2) / (n + 2))
    return np.maximum(-1.0, centre - half), np.minimum(1.0, centre + half)


def tango(b: int, c: int, n: int, level: float = 0.95, correction: float = 0.0) -> Bounds:
    """The score interval of the difference (Tango 1998); never of zero width, whatever the counts.

    `correction` widens it by so many items for the steps in which counts move (Chang et al. 2024 take 1/8).

    Raises:
        ValueError: there are no items, or the counts do not fit.
    """
    _check(b, c, n)
    _some(n)
    low, high = tango_many(np.array([b]), np.array([c]), n, level, correction)
    return Bounds(value=(c - b) / n, low=float(low[0]), high=float(high[0]), method="tango")


def tango_many(
    b: np.ndarray, c: np.ndarray, n: int | np.ndarray, level: float = 0.95, correction: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of `tango` for many pairs of counts among n items at once; counts and n as in `bonett_price_many`."""
    z = _z(level)
    estimate = (c - b) / n
    # The statistic falls as the hypothetical difference grows: -z lies above the estimate and z below.
    high = _crossing(b, c, n, -z, correction, estimate, np.ones_like(estimate))
    low = _crossing(b, c, n, z, -correction, -np.ones_like(estimate), estimate)
    return low, high


def _crossing(
    b: np.ndarray, c: np.ndarray, n: int | np.ndarray, z: float, shift: float, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Where the statistic takes the value z, by halving [left, right], within which it falls."""
    for _ in range(_HALVINGS):
        middle = (left + right) / 2
        above = _score(b, c, n, middle, shift) > z
        left, right = np.where(above, middle, left), np.where(above, right, middle)
    return (left + right) / 2


def _score(b: np.ndarray, c: np.ndarray, n: int | np.ndarray, difference: np.ndarray, shift: float) -> np.ndarray:
    """Tango's statistic of "the difference is `difference`", its variance by restricted maximum likelihood."""
    first = 2.0 * n
    second = -(b + c) + (2.0 * n - (c - b)) * difference
    third = -b * difference * (1.0 - difference)
    root = np.sqrt(np.maximum(second**2 - 4.0 * first * third, 0.0))
    worse = np.maximum((root - second) / (2.0 * first), 0.0)
    variance = n * (2.0 * worse + difference * (1.0 - difference))
    off = (c - b) - n * difference + shift
    with np.errstate(divide="ignore", invalid="ignore"):
        found = off / np.sqrt(variance)
        return np.where(variance > 0, found, np.where(off == 0, 0.0, np.sign(off) * np.inf))


def _z(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"level = {level}: allowed is a share between 0 and 1")
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))


def _check(b: int, c: int, n: int) -> None:
    if min(b, c) < 0 or b + c > n:
        raise ValueError(f"{b} items worse and {c} better among {n}: allowed are counts that fit into all items")


def _some(n: int) -> None:
    if n == 0:
        raise ValueError("no items: allowed is one or more")
