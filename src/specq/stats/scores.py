"""Scores of items: a rate with its interval, and the paired difference of two arms on the same items.

One door to the formulas: independent items that are right or wrong, clusters of them, and scores between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from specq.stats import clustered, floor, paired
from specq.stats.floor import Held
from specq.stats.paired import Bounds
from specq.stats.power import items_needed

LEVEL = 0.95
# The two-sided level whose ends are one-sided bounds at LEVEL.
_ONE_SIDED = 2 * LEVEL - 1
# With fewer items off the most common score than this, their spread says nothing about the next item.
_SPREAD_FROM = 5
_HIGHEST = 1 - 1e-7
_HALVINGS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Scores of the same items before and after, with the cluster of each; `binary` ones are 0 or 1."""

    before: tuple[float, ...]
    after: tuple[float, ...]
    clusters: tuple[str, ...]
    binary: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A mean score with its two-sided 95 % interval and both one-sided 95 % bounds, None where it has none."""

    value: float
    low: float | None
    high: float | None
    low_one_sided: float | None
    high_one_sided: float | None
    n: int
    clusters: int
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A mean paired difference, after less before, with its two-sided 95 % interval and both one-sided 95 % bounds.

    `worse` and `better` count items, `p` is two-sided that there is none (exact McNemar by mid-p where items are
    independent and right or wrong, else None).
    """

    value: float
    low: float
    high: float
    low_one_sided: float
    high_one_sided: float
    worse: int
    better: int
    n: int
    clusters: int
    method: str
    p: float | None
    pairs: Paired

    def against(self, margin: float) -> Held:
        """The difference held against "at most `margin` worse", with the one-sided bounds.

        Raises:
            ValueError: the margin is no share from 0 to 1.
        """
        if self.independent and self.pairs.binary:
            return floor.against_floor(self.worse, self.better, self.n, margin)
        found = floor.held(self.bounds, self.worse, self.better, self.n, margin)
        return replace(found, more_items=self._more(margin)) if found.outcome == "undecided" else found

    def _more(self, margin: float) -> int | None:
        """Items beyond these that would decide, were their clusters like these: of flips alone.

        As `floor.against_floor` says for independent items, times the square of how much wider the bounds are here.
        """
        if not self.pairs.binary or margin <= 0 or self.value <= -margin:
            return None
        alone = floor.one_sided(self.worse, self.better, self.n)
        wider = (self.high_one_sided - self.low_one_sided) / (alone.high - alone.low)
        rate = min(1.0, (self.worse + self.better + 0.5) / self.n)
        needed = math.ceil(items_needed(margin, rate) * wider**2)
        return needed - self.n if self.n < needed <= floor.MOST_ITEMS else None

    def p_within(self, margin: float) -> float:
        """One-sided p-value of "it is at least `margin` worse": the level at which the lower bound meets the margin."""
        return _p(lambda level: one_sided(self.pairs, level).low > -margin)

    def p_beyond(self, margin: float) -> float:
        """One-sided p-value of "it is at most `margin` worse": the level at which the upper bound meets the margin."""
        return _p(lambda level: one_sided(self.pairs, level).high < -margin)

    @property
    def independent(self) -> bool:
        """Whether no two items share a cluster."""
        return self.clusters == self.n

    @property
    def bounds(self) -> Bounds:
        """Both one-sided 95 % bounds."""
        return Bounds(value=self.value, low=self.low_one_sided, high=self.high_one_sided, method=self.method)


def rate(scores: Sequence[float], clusters: Sequence[str], *, binary: bool) -> Rate:
    """The mean of scores with its interval: Wilson's for independent items that are right or wrong.

    Other scores get Student's t on cluster sums. Where all but a few items have one score, their spread says nothing
    about the next item: the interval is then also at least as wide as Wilson's on as many items as the spread allows.
    Scores that lie in 0 to 1 have an interval within it; none is of zero width.

    Raises:
        ValueError: there are no scores.
    """
    if not scores:
        raise ValueError("no scores: allowed is one or more")
    x = np.asarray(scores, dtype=float)
    count = len(set(clusters))
    if binary and count == len(x):
        method = "wilson"
    elif count == 1:
        method = "one cluster"
    else:
        method = "wilson on effective items" if binary else "clustered t"
    two, one = (_rate_ends(x, clusters, count, method, level) for level in (LEVEL, _ONE_SIDED))
    return Rate(
        value=float(x.mean()),
        low=two[0],
        high=two[1],
        low_one_sided=one[0],
        high_one_sided=one[1],
        n=len(x),
        clusters=count,
        method=method,
    )


def _rate_ends(
    x: np.ndarray, clusters: Sequence[str], count: int, method: str, level: float
) -> tuple[float, float] | tuple[None, None]:
    n, value = len(x), float(x.mean())
    if method == "wilson":
        return paired.wilson_ends(value, n, level)
    if method == "one cluster":
        return None, None
    effect = _design_effect(x - value, clusters)
    if method != "clustered t":
        return paired.wilson_ends(value, n / effect, level)
    from scipy.special import stdtrit

    within = float(((x - value) ** 2).sum())
    shares = bool(x.min() >= 0 and x.max() <= 1)
    few = n - int(np.unique(x, return_counts=True)[1].max()) < _SPREAD_FROM
    # The score of one item more, as far away as scores go: shares do not need it, for Wilson's says the same of them.
    unseen = effect**2 * max(1.0, float(np.abs(x).max())) ** 2 if few and not shares else 0.0
    half = float(stdtrit(count - 1, 0.5 + level / 2)) * math.sqrt(effect * within + unseen) / n
    low, high = value - half, value + half
    if not shares:
        return low, high
    if few:
        # How much of the spread that shares with this mean can have was seen, drawn towards all of it by one item.
        seen = (within + 0.25) / (n * value * (1 - value) + 0.25)
        ends = paired.wilson_ends(value, n / (effect * min(seen, 1.0)), level)
        low, high = min(low, ends[0]), max(high, ends[1])
    return max(low, 0.0), min(high, 1.0)


def _design_effect(off: np.ndarray, clusters: Sequence[str]) -> float:
    """The variance of the sum of `off`, found from clusters, over that of independent items; from 1 to whole clusters.

    Counts over it are counts of independent items (Rao and Scott 1992).
    """
    place = {name: i for i, name in enumerate(dict.fromkeys(clusters))}
    of = np.array([place[name] for name in clusters])
    whole = float((np.bincount(of) ** 2).sum()) / len(off)
    within = float((off**2).sum())
    if within == 0:
        # Nothing is seen of how items move together: the cautious end.
        return whole
    return float(np.clip((np.bincount(of, weights=off) ** 2).sum() / within, 1.0, whole))


def difference(pairs: Paired) -> Difference:
    """The paired difference of scores, after less before.

    Independent items that are right or wrong: Bonett and Price's interval, `floor.one_sided` for the bounds, McNemar's
    mid-p. Others: `clustered.clustered`, whose evidence are clusters.

    Raises:
        ValueError: there are no items.
    """
    n, count = len(pairs.before), len(set(pairs.clusters))
    moved = [after - before for before, after in zip(pairs.before, pairs.after, strict=True)]
    worse, better = sum(one < 0 for one in moved), sum(one > 0 for one in moved)
    p, one = None, one_sided(pairs, LEVEL)
    if pairs.binary and count == n:
        two = paired.bonett_price(worse, better, n, LEVEL)
        p = paired.mcnemar_mid_p(worse, better)
    else:
        two = _clustered(moved, pairs, LEVEL, one_sided=False)
    return Difference(
        value=two.value,
        low=two.low,
        high=two.high,
        low_one_sided=one.low,
        high_one_sided=one.high,
        worse=worse,
        better=better,
        n=n,
        clusters=count,
        method=two.method,
        p=p,
        pairs=pairs,
    )


def one_sided(pairs: Paired, level: float) -> Bounds:
    """Both one-sided bounds of the difference at a level, by the formulas of `difference`."""
    moved = [after - before for before, after in zip(pairs.before, pairs.after, strict=True)]
    if pairs.binary and len(set(pairs.clusters)) == len(moved):
        return floor.one_sided(sum(one < 0 for one in moved), sum(one > 0 for one in moved), len(moved), level)
    return _clustered(moved, pairs, 2 * level - 1, one_sided=True)


def _clustered(moved: Sequence[float], pairs: Paired, level: float, *, one_sided: bool) -> Bounds:
    # Scores between 0 and 1 move by 1 at most; log-probabilities by as much as was seen.
    reach = max(1.0, *map(abs, moved))
    return clustered.clustered(moved, pairs.clusters, level=level, reach=reach, one_sided=one_sided)


def _p(shown: Callable[[float], bool]) -> float:
    """One less the highest level at which a bound still shows it, from 0.5 to _HIGHEST; 0.5 where none does."""
    low, high = 0.5 + 1e-9, _HIGHEST
    if shown(high):
        return 1 - high
    if not shown(low):
        return 0.5
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if shown(middle) else (low, middle)
    return 1 - low
