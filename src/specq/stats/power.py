"""How much so many items can prove about "at most m worse", and how many items that takes.

For a lever that in truth costs nothing and flips a share d of the items, half of them each way, the standard error of
the paired difference is sqrt(d / n). Its one-sided 95 % bound lies above -m with a power of 80 % where
m = (z_0.95 + z_0.8) sqrt(d / n), about 2.49 sqrt(d / n).
"""

from __future__ import annotations

import math

LEVEL, POWER = 0.95, 0.8


def provable_margin(n: int, flip_rate: float, *, level: float = LEVEL, power: float = POWER) -> float:
    """The least margin, as a share, that `n` independent items prove with that power at that flip rate.

    Raises:
        ValueError: there are no items, or the flip rate is no share.
    """
    _check(flip_rate)
    if n < 1:
        raise ValueError(f"n = {n}: allowed is one item or more")
    return _z_sum(level, power) * math.sqrt(flip_rate / n)


def items_needed(margin: float, flip_rate: float, *, level: float = LEVEL, power: float = POWER) -> int:
    """How many independent items prove that margin, a share, with that power at that flip rate.

    Raises:
        ValueError: the margin is not above 0 and at most 1, or the flip rate is no share.
    """
    _check(flip_rate)
    if not 0 < margin <= 1:
        raise ValueError(f"margin = {margin}: allowed is a share above 0 and at most 1; 0.02 is 2 points")
    return max(1, math.ceil(_z_sum(level, power) ** 2 * flip_rate / margin**2))


def _z_sum(level: float, power: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(level) + ndtri(power))


def _check(flip_rate: float) -> None:
    if not 0 <= flip_rate <= 1:
        raise ValueError(f"flip_rate = {flip_rate}: allowed is a share from 0 to 1")
