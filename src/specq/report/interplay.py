"""Add or replace: what a lever on the target and a draft make together of what each makes alone.

Fewer bits and a draft both save reading weights, so that one may leave less for the other. If they added, the
speed-up of both would be the product of the two. With r the speed-up of the target's lever alone, d that of the draft
on the plain target and g that of the draft on the changed one, both together make r g: so r g against the product r d
is g against d, and against the lever alone it is g against 1. What r is uncertain by is in neither.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specq.report.words import ratio

Kind = Literal["add", "partly replace", "replace", "hinder", "undecided"]
_WORDS: dict[Kind, str] = {
    "add": "add",
    "partly replace": "partly replace each other",
    "replace": "replace each other",
    "hinder": "hinder each other",
    "undecided": "cannot be told",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A speed-up with its 95 % interval; low and high are None where there is none."""

    value: float
    low: float | None
    high: float | None

    def __post_init__(self) -> None:
        ends = (self.low, self.high)
        if not self.value > 0 or (None in ends and ends != (None, None)):
            raise ValueError(f"rate: {self}: allowed is a value above 0 with both ends of its interval or with neither")
        if self.low is not None and self.high is not None and not 0 < self.low <= self.value <= self.high:
            raise ValueError(f"rate: {self}: its interval does not hold its value")

    @classmethod
    def of(cls, value: float, low: float | None, high: float | None) -> Rate:
        """A rate whose interval is stretched to hold its value, which a bootstrap's need not; half of one is none."""
        if low is None or high is None:
            return cls(value=value, low=None, high=None)
        return cls(value=value, low=min(low, value), high=max(high, value))

    def words(self) -> str:
        """The value, and its interval where it has one."""
        if self.low is None or self.high is None:
            return ratio(self.value)
        return f"{ratio(self.value)} ({ratio(self.low)} to {ratio(self.high)})"


ONE = Rate(value=1.0, low=1.0, high=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interplay:
    """How a target's lever and a draft go together, with the speed-ups over the plain target that it rests on.

    `product` is what both would reach if they added. `better` is the speed-up of the better one alone, `alone` says
    which that is.
    """

    kind: Kind
    target: Rate
    draft: Rate
    both: Rate
    product: Rate
    better: Rate
    alone: Literal["target", "draft"]

    def sentence(self, target: str, draft: str) -> str:
        """What was found, for levers of these names."""
        both, product = self.both.words(), self.product.words()
        best = f"{target if self.alone == 'target' else draft} alone ({self.better.words()})"
        names = f"{target} and {draft}"
        each = f"alone {ratio(self.target.value)} and {ratio(self.draft.value)}"
        if self.kind == "add":
            return f"{names} add: {each}, together {both}, and their product is {product}."
        if self.kind == "partly replace":
            return (
                f"{names} partly replace each other: {each}, together {both}; that is more than {best}, and less than "
                f"their product, {product}."
            )
        if self.kind == "replace":
            return f"{names} replace each other: together {both}, no better than {best}; their product is {product}."
        if self.kind == "hinder":
            return f"{names} hinder each other: together {both}, worse than {best}."
        return (
            f"Whether {names} add or replace each other cannot be told: together {both}, between {best} and their "
            f"product, {product}."
        )


def interplay(target: Rate, draft: Rate, on_target: Rate, both: Rate | None = None) -> Interplay:
    """Hold both together against the product of each alone, and against the better one alone.

    Differences count where the 95 % interval of the ratio leaves 1; "hinder": worse than the better one alone. "add":
    better than it, and not below the product. "partly replace": better than it, and below the product. "replace": below
    the product, and not better than it. "undecided": neither, or there is no interval.

    Args:
        target: of the target's lever alone.
        draft: of the draft on the plain target.
        on_target: of the draft on the changed target, over that target alone.
        both: of both over the plain target, where it was measured itself; else target times on_target.
    """
    whole = times(target, on_target) if both is None else both
    alone: Literal["target", "draft"] = "target" if target.value >= draft.value else "draft"
    to_product = over(on_target, draft)
    to_better = on_target if alone == "target" else over(times(target, on_target), draft)
    return Interplay(
        kind=_kind(to_product, to_better),
        target=target,
        draft=draft,
        both=whole,
        product=times(target, draft),
        better=target if alone == "target" else draft,
        alone=alone,
    )


def _kind(to_product: Rate, to_better: Rate) -> Kind:
    if to_product.low is None or to_product.high is None or to_better.low is None or to_better.high is None:
        return "undecided"
    if to_better.high < 1:
        return "hinder"
    below = to_product.high < 1
    if to_better.low > 1:
        return "partly replace" if below else "add"
    return "replace" if below else "undecided"


def overall(kinds: Sequence[Kind]) -> str:
    """One sentence over several pairs; "" without any."""
    if not kinds:
        return ""
    counts = Counter(kinds)
    several = len(kinds) > 1
    said = ", ".join(f"{counts[kind]} {_WORDS[kind]}" for kind in _WORDS if counts[kind])
    head = f"Of {len(kinds)} pairs of a target's lever and a draft: {said}." if several else f"The one pair: {said}."
    told = len(kinds) - counts["undecided"]
    less = counts["partly replace"] + counts["replace"] + counts["hinder"]
    if not told:
        return f"{head} More prompts would tell."
    if not less:
        return f"{head} Where it can be told, each keeps its worth beside the other."
    if less == told:
        return f"{head} Where it can be told, one leaves less for the other to save: do not multiply their speed-ups."
    return f"{head} A product of speed-ups holds for some pairs and not for others."


def times(one: Rate, other: Rate) -> Rate:
    """The product of two rates that vary independently; half-widths of logarithms add in quadrature."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Rate(value=one.value * other.value, low=None, high=None)
    down = math.hypot(math.log(one.value / one.low), math.log(other.value / other.low))
    up = math.hypot(math.log(one.high / one.value), math.log(other.high / other.value))
    value = one.value * other.value
    return Rate(value=value, low=value * math.exp(-down), high=value * math.exp(up))


def over(one: Rate, other: Rate) -> Rate:
    """The ratio of two rates that vary independently."""
    if other.low is None or other.high is None:
        return times(one, Rate(value=1 / other.value, low=None, high=None))
    return times(one, Rate(value=1 / other.value, low=1 / other.high, high=1 / other.low))
