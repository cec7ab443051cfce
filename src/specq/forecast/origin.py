"""Whether the target wrote a text at these settings, from its own law along it.

Above temperature 0 three sums are asked, each with the mean 0 for a text of the law and a known variance. How many of
the text's tokens are among the likeliest, less the mass m that these have: the variance is m (1 - m). How many of these
are the likeliest of all, in the same way. And the surprise of these, -log p - entropy (`decoding.law`), p within them.
A file tells the likeliest n, so that it fixes the law within them whatever it leaves open of the others; where
temperature or truncation leave their mass open, the first sum lies between two ends. Which tokens are asked for at a
position follows from the likeliest alone and never from the token that was drawn, so that the means stay 0.

Each sum is a martingale along the text: that it lies d or more off has the probability 2 exp(-z^2 / 2) at most, with
z = d / sqrt(variance + c d) and c = 1/3 for counts (Freedman 1975). For a surprise, whose tail falls as exp(-d), c is
taken as 1. So a rare token in a text of sure ones, whose variance is near 0, is no finding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from specq.core.types import Sampling
from specq.decoding.law import Law
from specq.forecast import warped
from specq.forecast.imported import TIE, Position
from specq.report.audit import Z_LIMIT

FAR = 0.75
"""Nats below the likeliest token that rounding to bfloat16 explains (`decoding.audit` takes as much for a near tie)."""
# The share of a text's tokens, at least so many, that rounding moves: away from the likeliest, or out of a truncated
# law; and of those that it does not explain.
_MOVED, _STRANGE, _FEW = 20, 100, 2
# How far apart the ends of the likeliest's mass may lie, on average, for a count to tell anything.
_WIDTH = 0.1
# What rounded log-probabilities may add up to, a position.
_ROUNDING = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What texts of `tokens` tokens say of their origin; of several texts it is the sum.

    `outside` tokens are in no law that truncation leaves and in no sum. At `asked` positions the likeliest are told:
    `among` counts the tokens that are among them, `best` those of them that are the likeliest of all, `mass` and
    `best_mass` the numbers that are expected; pairs hold both ends. `mass_variance` is the greatest that it can be,
    `surprise` and `surprise_variance` are of the tokens among the likeliest. At temperature 0 nothing is asked:
    `missed` tokens are not the likeliest, `far` of them beyond what rounding explains.
    """

    tokens: int = 0
    outside: int = 0
    asked: int = 0
    among: tuple[int, int] = (0, 0)
    mass: tuple[float, float] = (0.0, 0.0)
    mass_variance: float = 0.0
    best: tuple[int, int] = (0, 0)
    best_mass: float = 0.0
    best_variance: float = 0.0
    surprise: float = 0.0
    surprise_variance: float = 0.0
    missed: int = 0
    far: int = 0

    def __add__(self, other: Evidence) -> Evidence:
        def plus(one: Any, more: Any) -> Any:
            return tuple(map(sum, zip(one, more, strict=True))) if isinstance(one, tuple) else one + more

        return Evidence(**{each.name: plus(getattr(self, each.name), getattr(other, each.name)) for each in _FIELDS})

    @property
    def count_z(self) -> float:
        """The z of the tokens among the likeliest, the nearest to 0 that is possible; above 0: there are more."""
        return _z(_beyond(self.among, self.mass), self.mass_variance, 1 / 3, self.asked)

    @property
    def best_z(self) -> float:
        """The z of those that are the likeliest, the nearest to 0 that is possible; above 0: there are more."""
        return _z(_beyond(self.best, (self.best_mass,) * 2), self.best_variance, 1 / 3, self.asked)

    @property
    def surprise_z(self) -> float:
        """The z of the surprise; above 0: the tokens are less likely than the target's own."""
        return _z(self.surprise, self.surprise_variance, 1.0, self.asked)

    @property
    def why_not(self) -> str:
        """Why the target did not write such texts at these settings; "" where nothing says so."""
        moved = max(_FEW, self.tokens // _MOVED)
        if self.missed > moved:
            return f"{self.missed} of {self.tokens} tokens are not its likeliest"
        if self.far > max(_FEW, self.tokens // _STRANGE):
            return f"{self.far} of {self.tokens} tokens are not its likeliest, nor near it"
        if self.outside > moved:
            return f"{self.outside} of {self.tokens} tokens have no probability"
        for z, seen, expected, what in (
            (self.count_z, self.among, self.mass, "among the likeliest"),
            (self.best_z, self.best, (self.best_mass,) * 2, "the likeliest"),
        ):
            if abs(z) > Z_LIMIT:
                ends = (seen[0], expected[1]) if z > 0 else (seen[1], expected[0])
                return f"{_beyond_limit(z)}: {ends[0]} of {self.asked} tokens are {what}, where {ends[1]:.0f} would be"
        if abs(self.surprise_z) > Z_LIMIT:
            which = "less" if self.surprise_z > 0 else "more"
            return f"{_beyond_limit(self.surprise_z)}: its tokens are {which} likely than those that it draws"
        return ""

    @property
    def checked(self) -> bool:
        """Whether the target may well have written them, and enough is told for that to mean something."""
        told = self.asked > 0 and self.asked + self.outside == self.tokens
        return told and self.mass[1] - self.mass[0] <= _WIDTH * self.asked and not self.why_not


def of_file(positions: Sequence[Position], outside: Sequence[bool], sampling: Sampling) -> Evidence:
    """What a file's log-probabilities tell of a text.

    Args:
        positions: of each of its tokens.
        outside: whether that is outside the law at these settings; at temperature 0 whether it is not the likeliest.
        sampling: the settings.
    """
    if sampling.temperature == 0:
        gaps = [
            (one.head[0] if one.head else one.own) - one.own if out else 0.0
            for one, out in zip(positions, outside, strict=True)
        ]
        return Evidence(tokens=len(positions), missed=sum(outside), far=sum(gap > FAR for gap in gaps))
    total = Evidence(tokens=len(positions), outside=sum(outside))
    # A row that lists its own token beside the likeliest n may tell one more of them: n is what all rows have.
    count = min((len(one.head) for one in positions), default=0)
    for one, out in zip(positions, outside, strict=True):
        if count and not out:
            total += _asked(one, one.head[:count], sampling)
    return total


def of_law(law: Law, sampling: Sampling) -> Evidence:
    """What the whole law, all tokens of which are told, says of a text."""
    if sampling.temperature == 0:
        missed = law.gap > 0
        return Evidence(tokens=len(law.p), missed=int(missed.sum()), far=int((law.gap > FAR).sum()))
    inside = law.p > 0
    surprise, variance = law.surprise
    hit, mass = law.hit[inside], law.confidence[inside]
    return Evidence(
        tokens=len(law.p),
        outside=law.outside,
        asked=int(inside.sum()),
        among=(len(hit), len(hit)),
        mass=(float(len(hit)), float(len(hit))),
        # 0.5: rounding may swap the two best.
        best=(int(np.floor(hit).sum()), int(np.ceil(hit).sum())),
        best_mass=float(mass.sum()),
        best_variance=float((mass * (1 - mass)).sum()),
        surprise=surprise,
        surprise_variance=variance,
    )


def _asked(one: Position, head: tuple[float, ...], sampling: Sampling) -> Evidence:
    """One position, by the likeliest tokens that the law has for sure and that do not tie with the next."""
    # The least of the likeliest stands for the own token, so that it tells no more of the law than they do.
    law = warped.kept(Position(own=head[-1], rank=None, head=head, inside=True, hit=(0.0, 1.0)), sampling)
    sure = sum(total <= law.total[0] * (1 + 1e-12) for total in law.sums) - 1
    size = next((at for at in range(sure, 0, -1) if _apart(head, at)), 0)
    if not size:
        return Evidence()
    # One that is as likely as the last of those that are listed may be among them or beside them.
    beside = size == len(head) and not one.inside and abs(one.own - head[-1]) <= TIE
    surely = one.own >= head[size - 1] - TIE and not beside
    low, high = (law.sums[size] / max(total, law.sums[size]) for total in reversed(law.total))
    widest = min(max(0.5, low), high)
    found = Evidence(
        asked=1,
        among=(int(surely), int(surely or beside)),
        mass=(low, high),
        mass_variance=widest * (1 - widest),
    )
    if not surely:
        return found
    logs = np.array([log for log in law.logs[:size] if log > -math.inf])
    weights = np.exp(logs) / law.sums[size]
    mean, own = float(weights @ logs), law.power * (one.own - law.shift)
    found += Evidence(surprise=mean - own, surprise_variance=float(weights @ (logs - mean) ** 2))
    if size > 1 and _apart(head, 1):
        hit, first = int(one.own >= head[0] - TIE), float(weights[0])
        found += Evidence(best=(hit, hit), best_mass=first, best_variance=first * (1 - first))
    return found


def _apart(head: Sequence[float], size: int) -> bool:
    """Whether the first `size` do not tie with the next, or, where they are all, not with one another at their end."""
    if size < len(head):
        return head[size - 1] - head[size] > TIE
    return size == 1 or head[-2] - head[-1] > TIE


def _beyond(seen: tuple[int, int], expected: tuple[float, float]) -> float:
    """How far two spans lie apart; below 0 where less was seen than expected."""
    return max(0.0, seen[0] - expected[1]) or min(0.0, seen[1] - expected[0])


def _beyond_limit(z: float) -> str:
    return f"z = {z:+.1f}, allowed is {Z_LIMIT:.0f}"


def _z(beyond: float, variance: float, tail: float, positions: int) -> float:
    size = max(0.0, abs(beyond) - _ROUNDING * positions)
    return math.copysign(size / math.sqrt(variance + tail * size), beyond) if size else 0.0


_FIELDS = fields(Evidence)
