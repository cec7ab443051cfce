"""A token's probability after warping, bounded from the likeliest tokens that a file tells.

A raw law sums to 1, so the mass of the tokens that are not listed is known, and none of them is likelier than the least
of the likeliest. From this follow bounds of each sum that warping needs. What warping keeps are always the likeliest
tokens, in the order and by the rules of `decoding.sampling`: temperature; top-k, which keeps what ties with the k-th;
top-p, which keeps a token while the mass of all better ones is below top_p; min-p, which keeps those of at least min_p
times the best one's probability. So the sum that is kept is the least of the sums that each of them keeps, and where
the likeliest tokens hold it whole it is exact. All weights are relative to the best token's, so that none is too large.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from specq.core.types import Sampling
from specq.forecast.imported import VOCABULARY, Position

# What float32 may make of a sum of probabilities, and of a comparison of them.
_ROUNDING = 1e-6

Membership = Literal["in", "open", "out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What is known of a token's probability after warping.

    `low` and `high` bound its logarithm, given that the law has the token; `member`: whether it has, as far as the
    file tells. "out": both are minus infinity.
    """

    low: float
    high: float
    member: Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What warping keeps at a position: weights are p^(1/T) over the best token's, or over the largest it can be.

    `logs` [n] are the logarithms of the weights of the likeliest, which fall, `sums` [n + 1] their running sums from
    0 on, `shift` the log-probability that has the weight 1. `rest` bounds the weight of tokens that are not listed,
    `mass` is the most raw probability that they can have. `top_k` bounds the sum that top-k keeps (all, where it is
    off), `total` that which is kept at last.
    """

    power: float
    shift: float
    logs: tuple[float, ...]
    sums: tuple[float, ...]
    mass: float
    rest: tuple[float, float]
    top_k: tuple[float, float]
    total: tuple[float, float]


def reach(one: Position, sampling: Sampling) -> Reach:
    """The least and the greatest that the own token's probability can be after warping; temperature above 0."""
    if one.own == -math.inf:
        return Reach(low=-math.inf, high=-math.inf, member="out")
    law = kept(one, sampling)
    own = law.power * (one.own - law.shift)
    better = sum(raw > one.own for raw in one.head)
    members = (
        _in_top_k(one, better, sampling.top_k),
        _in_top_p(one, law, own, better, sampling.top_p),
        _in_min_p(one, own, sampling.min_p),
    )
    if "out" in members:
        return Reach(low=-math.inf, high=-math.inf, member="out")
    # A law that has the token has all that are better, too.
    least = max(law.total[0], law.sums[better] + math.exp(own))
    greatest = max(law.total[1], least)
    high = min(0.0, own - (math.log(least) if least > 0 else own))
    low = min(high, own - (math.log(greatest) if greatest > 0 else own))
    return Reach(low=low, high=high, member="open" if "open" in members else "in")


def kept(one: Position, sampling: Sampling) -> Kept:
    """The sums of a position's law that temperature, top-k, top-p and min-p keep; temperature above 0."""
    power = 1 / sampling.temperature
    apart = () if one.inside else (one.own,)
    left = 1 - sum(math.exp(raw) for raw in (*one.head, *apart))
    mass = max(0.0, left) + _ROUNDING
    # Without other tokens an unseen one may be the best, with all that is left.
    shift = one.head[0] if one.head else max(one.own, math.log(mass))
    logs = tuple(power * (raw - shift) for raw in one.head)
    sums = tuple(accumulate(map(math.exp, logs), initial=0.0))
    own = sum(math.exp(power * (raw - shift)) for raw in apart)
    if power == 1:
        whole = (math.exp(-shift),) * 2
        rest = (max(0.0, whole[0] - sums[-1] - own),) * 2
    else:
        rest = _rest(one, power, shift, mass, max(0.0, left - _ROUNDING))
        whole = (sums[-1] + own + rest[0], sums[-1] + own + rest[1])
    top_k = _top_k(one, whole, logs, sums, mass, rest[1], own, sampling.top_k)
    nucleus = _top_p(top_k, logs, sums, sampling.top_p)
    likely = _min_p(whole, logs, sums, sampling.min_p)
    total = (min(nucleus[0], likely[0]), min(nucleus[1], likely[1]))
    return Kept(
        power=power, shift=shift, logs=logs, sums=sums, mass=mass, rest=rest, top_k=top_k, total=(total[0], max(total))
    )


def _rest(one: Position, power: float, shift: float, mass: float, least_mass: float) -> tuple[float, float]:
    """The least and the greatest weight of the tokens that are not listed, at temperatures other than 1.

    p^a is p times p^(a - 1), and p is at most a cap: so mass times cap^(a - 1) bounds the sum above where a > 1, and
    below where a < 1. The other way round many small tokens do it. The rank of a token that stands apart tells how
    many of them are likelier than it; all others are not.
    """
    cap = min(one.head[-1] if one.head else 0.0, math.log(mass)) - shift
    told = not one.inside and one.rank is not None
    between = max(0, one.rank - 1 - len(one.head)) if told and one.rank is not None else 0
    tail = min(cap, one.own - shift) if told else cap

    def together(raw: float) -> float:
        raw *= math.exp(-shift)
        likelier = min(raw, between * math.exp(cap))
        # An exponent beyond 700 is that of a token without any probability, and the other bound is below it.
        weights = (math.exp(min(700.0, (power - 1) * top)) for top in (cap, tail))
        return sum(part * weight for part, weight in zip((likelier, raw - likelier), weights, strict=True))

    if power > 1:
        most = together(mass)
        return min(most, between * math.exp(power * (one.own - shift))), most
    most = math.exp((1 - power) * math.log(VOCABULARY) + power * (math.log(mass) - shift))
    return min(most, together(least_mass)), most


def _top_k(
    one: Position,
    whole: tuple[float, float],
    logs: Sequence[float],
    sums: Sequence[float],
    mass: float,
    rest: float,
    own: float,
    top_k: int,
) -> tuple[float, float]:
    """The sum that top-k keeps: the k likeliest and all that tie with the last of them."""
    if not top_k:
        return whole
    if len(logs) < top_k:
        return sums[-1] + (own if one.rank is not None and one.rank <= top_k else 0.0), whole[1]
    last = one.head[top_k - 1]
    inside = sums[sum(raw >= last for raw in one.head)]
    if one.head[-1] < last:
        return inside, inside
    # The likeliest end with that token: others may tie with it, as many as what is left can hold.
    ties = _ties(mass, last, logs[-1], rest) + (own if one.own == last and not one.inside else 0.0)
    return inside, inside + ties


def _top_p(
    whole: tuple[float, float], logs: Sequence[float], sums: Sequence[float], top_p: float
) -> tuple[float, float]:
    """The sum that top-p keeps: the running sum that first reaches top_p of all."""
    if top_p >= 1:
        return whole
    least, most = _goals(whole, top_p)
    low, high = bisect_left(sums, least), bisect_left(sums, most)
    # A nucleus that goes on beyond the likeliest ends with a token that is no likelier than the least of them.
    last = math.exp(logs[-1]) if logs else 1.0
    return (
        sums[low] if low < len(sums) else max(least, sums[-1]),
        sums[high] if high < len(sums) else min(whole[1], most + last),
    )


def _min_p(
    whole: tuple[float, float], logs: Sequence[float], sums: Sequence[float], min_p: float
) -> tuple[float, float]:
    """The sum that min-p keeps: of all tokens with at least min_p times the best one's weight, which is 1."""
    if not min_p:
        return whole
    if not logs:
        return 0.0, whole[1]
    edge = math.log(min_p)
    sure = max(1, sum(one >= edge + _ROUNDING for one in logs))
    maybe = max(1, sum(one >= edge - _ROUNDING for one in logs))
    return sums[sure], sums[maybe] if maybe < len(logs) else whole[1]


def _in_top_k(one: Position, better: int, top_k: int) -> Membership:
    if not top_k:
        return "in"
    if better >= top_k:
        return "out"
    # Tokens that are not listed may be better than one that stands apart; its rank counts them, and perhaps ties.
    return "in" if one.inside or (one.rank is not None and one.rank <= top_k) else "open"


def _in_top_p(one: Position, law: Kept, own: float, better: int, top_p: float) -> Membership:
    if top_p >= 1:
        return "in"
    least, most = _goals(law.top_k, top_p)
    if law.sums[better] >= most:
        return "out"
    # Where tokens tie, their order is not told: all of them may come first.
    before = law.sums[sum(raw >= one.own for raw in one.head)] - (math.exp(own) if one.inside else 0.0)
    if not one.inside:
        before += law.rest[1]
    elif one.own == one.head[-1]:
        before += _ties(law.mass, one.own, own, law.rest[1])
    return "in" if before < least else "open"


def _in_min_p(one: Position, own: float, min_p: float) -> Membership:
    if not min_p:
        return "in"
    if not one.head:
        return "open"
    above = own - math.log(min_p)
    return "in" if above >= _ROUNDING or (one.inside and own == 0) else "out" if above <= -_ROUNDING else "open"


def _goals(whole: tuple[float, float], top_p: float) -> tuple[float, float]:
    return top_p * whole[0] * (1 - _ROUNDING), top_p * whole[1] * (1 + _ROUNDING)


def _ties(mass: float, raw: float, log: float, rest: float) -> float:
    """The most weight that tokens can have which are not listed and as likely as one that is."""
    return min(rest, math.floor(mass / max(math.exp(raw), 1e-300)) * math.exp(log))
