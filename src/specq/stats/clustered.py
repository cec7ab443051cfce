"""The mean paired difference where items come in clusters: several items a document, right and wrong together.

A cluster is the unit of evidence. How much its items move together is the design effect: the variance of the sum,
found from clusters, over what independent items would give (Kish 1965). It lies between 1 and that of clusters that
flip as a whole, the mean size weighted by size.

Flips (all differences are -1, 0 or 1). Counts of flips and of items are divided by the design effect (Rao and Scott
1992) and go to Tango's interval, as in Yang, Sun and Hardin 2012. Two things are added, for few flips say little:

- The design effect is drawn towards whole clusters by half a flip. Without any flip it is that of whole clusters, and
  the interval is the one of so many clusters.
- Where flips go one way, a few whole clusters carry much of the mean and may not have been seen at all. The variance
  then grows faster with the mean than by the design effect: by the third moment of cluster sums over the second, seen
  with three whole clusters beside what was observed. The end away from 0 moves out by what this adds to a score
  interval.

No interval can hold 95 % here and be tight as well. Take 33 flips one way, one each in clusters of ten among 1000
items: independent items at 3.3 % give that, and so do items at 5 % of which a third flip in whole clusters, none yet.
In simulations (50 to 1000 items, clusters of 1 to 10, flips of 1 to 20 %, correlation 0 to 1, a third flipping whole)
it covers 93.5 % and more, and at most 96.5 % with 20 effective flips that correlate and do not all go one way. With
flips that are independent and go one way it covers up to 98.5 %. Of two one-sided bounds at 95 % the lower one errs in
up to 7.5 %, the upper one in up to 6.5 %.

Scores (any other differences). Student's t on the sum, with the same design effect, at least 1, and one difference of
usual size added to the variance; degrees of freedom lie between items less one and clusters less one, as the design
effect does. Sums of clusters are weighted by 1 / (1 - share of items) (CR2, Bell and McCaffrey 2002).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from specq.stats.paired import Bounds, bonett_price_many, tango_many

# What is assumed beside the data: half a flip of whole clusters for the variance, three whole clusters for its growth.
_FLIP_WHOLE, _WHOLE = 0.5, 3.0
# The correction of Tango's interval where only its lower end counts (floor.one_sided says why).
_ONE_SIDED = 0.125
# Below so many flips by the design effect Tango's interval alone misses up to 7 %; the wider of two is taken.
_FEW = 20
# Below so many differences that are not 0, their size says nothing about the next.
_SIZES_FROM = 5

Values = Sequence[float] | np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Ends of intervals for R studies of the same clusters, with what they rest on; all arrays [R]."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    design_effect: np.ndarray
    method: str


def clustered(
    differences: Values,
    clusters: Sequence[Hashable] | np.ndarray,
    *,
    level: float = 0.95,
    reach: float = 1.0,
    one_sided: bool = False,
) -> Bounds:
    """Interval of the mean difference, lever less baseline, of items in clusters.

    Args:
        differences: one number an item [n].
        clusters: the cluster of each item [n].
        level: two-sided; where `one_sided` is set each end holds at (1 + level) / 2 taken alone.
        reach: the most by which a score can move; 1 for shares.
        one_sided: both ends are chosen to err little on their own side, as `floor.one_sided` does for flips.

    Returns:
        Bounds within -reach and reach; never of zero width. One cluster proves nothing: all of -reach to reach.

    Raises:
        ValueError: no items, another number of clusters, a difference that is no number or beyond reach, a bad level.
    """
    found = clustered_many(
        np.asarray(differences, dtype=float)[None, :], clusters, level=level, reach=reach, one_sided=one_sided
    )
    return Bounds(value=float(found.value[0]), low=float(found.low[0]), high=float(found.high[0]), method=found.method)


def clustered_many(
    differences: np.ndarray,
    clusters: Sequence[Hashable] | np.ndarray,
    *,
    level: float = 0.95,
    reach: float = 1.0,
    one_sided: bool = False,
) -> Ends:
    """`clustered` for R studies of the same items at once: differences [R, n], clusters [n].

    All studies are read as flips only if all of them are.

    Raises:
        ValueError: as `clustered`.
    """
    sums = _sums(differences, clusters, level, reach)
    value = sums.total / sums.n
    if sums.sizes.size == 1:
        edge = np.full_like(value, reach)
        return Ends(value=value, low=-edge, high=edge, design_effect=edge * 0 + sums.n, method="one cluster")
    flips = reach >= 1 and np.array_equal(differences**2, np.abs(differences))
    size2 = np.ones_like(value) if flips else _usual_size2(sums, reach)
    effect = _design_effect(sums, size2)
    read = _flips if flips else _scores
    low, high = read(sums, effect, size2, level, one_sided)
    return Ends(
        value=value,
        low=np.maximum(low, -reach),
        high=np.minimum(high, reach),
        design_effect=effect,
        method="clustered tango" if flips else "clustered t",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    """What R studies come to: cluster sums [R, K] and sizes [K]; the other arrays are sums over items [R]."""

    n: int
    sizes: np.ndarray
    sums: np.ndarray
    total: np.ndarray
    absolute: np.ndarray
    squares: np.ndarray
    moved: np.ndarray

    @property
    def off(self) -> np.ndarray:
        """Cluster sums less what their size would give at the mean [R, K]."""
        return self.sums - np.multiply.outer(self.total / self.n, self.sizes)

    @property
    def within(self) -> np.ndarray:
        """Variance of the sum, were items independent [R]."""
        return np.maximum(self.squares - self.total**2 / self.n, 0.0)

    @property
    def whole(self) -> float:
        """Design effect of clusters that flip as a whole."""
        return float((self.sizes**2).sum()) / self.n

    @property
    def one_way(self) -> np.ndarray:
        """How far differences go one way: 0 for as much up as down, 1 for all one way [R]."""
        return np.abs(self.total) / np.maximum(self.absolute, np.finfo(float).tiny)


def _design_effect(sums: _Sums, size2: np.ndarray) -> np.ndarray:
    between = (sums.off**2 / (1 - sums.sizes / sums.n)).sum(axis=1)
    assumed = _FLIP_WHOLE * size2
    return np.clip((between + assumed * sums.whole) / (sums.within + assumed), 1.0, max(1.0, sums.whole))


def _usual_size2(sums: _Sums, reach: float) -> np.ndarray:
    """Square of the usual size of a difference that is not 0, about the mean; of `reach` where too few moved."""
    about = np.where(sums.within > 1e-12 * sums.squares, sums.within, sums.squares)
    return np.where(sums.moved >= _SIZES_FROM, about / np.maximum(sums.moved, 1), reach**2)


def _flips(
    sums: _Sums, effect: np.ndarray, size2: np.ndarray, level: float, one_sided: bool
) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import ndtri

    better = (sums.absolute + sums.total) / 2
    b, c, n = (sums.absolute - better) / effect, better / effect, sums.n / effect
    low, high = tango_many(b, c, n, level, _ONE_SIDED if one_sided else 0.0)
    closed_low, closed_high = bonett_price_many(b, c, n, level)
    if one_sided:
        high = np.maximum(low, closed_high)
    else:
        few = b + c < _FEW
        low, high = np.where(few, np.minimum(low, closed_low), low), np.where(few, np.maximum(high, closed_high), high)
    z = np.full_like(effect, ndtri(0.5 + level / 2))
    return _moved_out(sums, effect, size2, z, effect * sums.one_way, low, high)


def _scores(
    sums: _Sums, effect: np.ndarray, size2: np.ndarray, level: float, one_sided: bool
) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import stdtrit

    del one_sided  # Both ends of Student's t are chosen alone already.
    clustered_share = (effect - 1) / max(sums.whole - 1, 1e-9)
    freedom = 1 / ((1 - clustered_share) / (sums.n - 1) + clustered_share / (sums.sizes.size - 1))
    t = stdtrit(freedom, 0.5 + level / 2)
    half = t * np.sqrt(_variance(sums, effect, size2))
    low, high = (sums.total - half) / sums.n, (sums.total + half) / sums.n
    return _moved_out(sums, effect, size2, t, np.zeros_like(effect), low, high)


def _variance(sums: _Sums, effect: np.ndarray, size2: np.ndarray) -> np.ndarray:
    return effect * sums.within + size2 * effect**2


def _moved_out(
    sums: _Sums,
    effect: np.ndarray,
    size2: np.ndarray,
    z: np.ndarray,
    slope: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The end away from 0, moved out by what faster growth of the variance adds; `slope` is the growth used so far.

    A score interval for a sum with variance V that grows by u as the sum grows by 1 reaches out by
    z^2 u / 2 + sqrt(z^2 V + (z^2 u / 2)^2); with V = u = the count it is the one of a Poisson count.
    """
    variance = _variance(sums, effect, size2)
    side, whole, size = np.sign(sums.total), sums.whole, np.sqrt(size2)
    third, second = side * (sums.off**3).sum(axis=1), (sums.off**2).sum(axis=1)
    # Whole clusters weigh by their cubes and squares, as they would among the sums.
    largest = float((sums.sizes**3).sum() / (sums.sizes**2).sum())
    assumed = _WHOLE * whole * size2
    growth = (third + assumed * largest * size * sums.one_way) / (second + assumed)

    def out(u: np.ndarray) -> np.ndarray:
        shift = z**2 * u / 2
        return shift + np.sqrt(z**2 * variance + shift**2)

    further = (out(np.maximum(growth, slope)) - out(slope)) / sums.n
    return np.where(side <= 0, low - further, low), np.where(side >= 0, high + further, high)


def _sums(differences: np.ndarray, clusters: Sequence[Hashable] | np.ndarray, level: float, reach: float) -> _Sums:
    names = list(clusters)
    n = differences.shape[1]
    if n == 0 or len(names) != n:
        raise ValueError(f"{n} differences and {len(names)} clusters: allowed is as many of both, one or more")
    if not 0 < level < 1:
        raise ValueError(f"level = {level}: allowed is a share between 0 and 1")
    if not np.all(np.abs(differences) <= reach):
        worst = differences.flat[int(np.argmax(~(np.abs(differences) <= reach)))]
        raise ValueError(f"a difference of {worst}: allowed is up to reach = {reach}; give the most a score can move")
    place = {name: i for i, name in enumerate(dict.fromkeys(names))}
    of = np.array([place[name] for name in names])
    order = np.argsort(of, kind="stable")
    starts = np.searchsorted(of[order], np.arange(len(place)))
    return _Sums(
        n=n,
        sizes=np.bincount(of).astype(float),
        sums=np.add.reduceat(differences[:, order], starts, axis=1),
        total=differences.sum(axis=1),
        absolute=np.abs(differences).sum(axis=1),
        squares=(differences**2).sum(axis=1),
        moved=(differences != 0).sum(axis=1),
    )
