"""Intervals of quantiles and ratios of a run whose repeats ask the same clusters again, such as prompts.

Each resample draws repeats and clusters, both whole and with replacement, and a value counts as often as its repeat
times as often as its cluster (the pigeonhole bootstrap: Owen, The Pigeonhole Bootstrap, Annals of Applied Statistics
2007). So what all values of one prompt share, and what all of one repeat share, are both in the interval; it errs wide.
With one repeat it is the bootstrap over clusters. The ends are percentiles at the level that Student's t has with so
few clusters (bootstrap.expanded); there are none below FEWEST clusters. Two repeats show little of how far a third
would differ: the interval holds what both gave.

No resample goes beyond what was seen, so that the end of a high quantile is too near with few values. A quantile's ends
are therefore never nearer than the order statistics that hold for values of any law (Conover, Practical Nonparametric
Statistics, 3.2), of as many values as they are worth: their number over the design effect of clusters on how many lie
beyond the quantile (Kish 1965; Woodruff 1952). Where there is no such value, there is no end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from specq.stats.bootstrap import expanded

RESAMPLES = 1000
FEWEST = 5
"""Clusters from which on there is an interval."""

Values = Sequence[float] | np.ndarray
Names = Sequence[Hashable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with the ends of its interval; an end is None where there is none.

    `method` is "bootstrap" or "none"; it went over so many `clusters` and, if more than one, `repeats`.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    clusters: int
    repeats: int
    method: str


def quantile(
    values: Values, clusters: Names, repeats: Names, q: float, *, level: float = 0.95, seed: int = 0
) -> Estimate:
    """The q quantile of all values (linear interpolation) with its interval: each [n].

    Raises:
        ValueError: there are no values, or not as many of each.
    """
    draws = draw_quantiles(values, clusters, repeats, q, seed=seed)
    found = _estimate(float(np.quantile(values, q)), draws, clusters, repeats, level)
    if found.method == "none":
        return found
    tail = (1 - level) / 2
    ordered, low, high = np.sort(np.asarray(values, dtype=float)), found.low, found.high
    effect = _design_effect(np.asarray(values, dtype=float) > found.value, clusters)
    worth = max(1, int(ordered.size / effect + 1e-9))
    below, above = (
        None if place is None else _place_among(place, worth, ordered.size, up=up)
        for place, up in zip(_order_statistics(worth, q, tail), (False, True), strict=True)
    )
    return Estimate(
        value=found.value,
        low=None if below is None or low is None else min(low, float(ordered[below])),
        high=None if above is None or high is None else max(high, float(ordered[above])),
        n=found.n,
        clusters=found.clusters,
        repeats=found.repeats,
        method=found.method,
    )


def ratio(up: Values, down: Values, clusters: Names, repeats: Names, *, level: float = 0.95, seed: int = 0) -> Estimate:
    """sum(up) / sum(down) with its interval: each [n].

    Raises:
        ValueError: there are no values, not as many of each, or `down` sums to 0.
    """
    draws = draw_ratios(up, down, clusters, repeats, seed=seed)
    return _estimate(float(np.sum(up) / np.sum(down)), draws, clusters, repeats, level)


def draw_quantiles(values: Values, clusters: Names, repeats: Names, q: float, *, seed: int = 0) -> np.ndarray:
    """The quantile of each resample [resamples]. All draws of one seed have the same repeats in the same resample.

    Raises:
        ValueError: as `quantile`.
    """
    given = np.asarray(values, dtype=float)
    order = np.argsort(given, kind="stable")
    ordered = given[order]

    def of(times: np.ndarray) -> float:
        upto = np.cumsum(times[order])
        place = q * (upto[-1] - 1)
        below = int(place)
        first, second = ordered[np.searchsorted(upto, [below, min(below + 1, upto[-1] - 1)], side="right")]
        return float(first + (place - below) * (second - first))

    return _drawn(given.size, clusters, repeats, of, seed)


def draw_ratios(up: Values, down: Values, clusters: Names, repeats: Names, *, seed: int = 0) -> np.ndarray:
    """The ratio of sums of each resample [resamples]; of one seed as `draw_quantiles`.

    Raises:
        ValueError: as `ratio`.
    """
    over, under = np.asarray(up, dtype=float), np.asarray(down, dtype=float)
    if over.size != under.size or not under.sum() > 0:
        raise ValueError(f"{over.size} over {under.size} values: allowed are as many of both, which sum above 0")
    return _drawn(over.size, clusters, repeats, lambda times: float((times @ over) / (times @ under)), seed)


def _drawn(n: int, clusters: Names, repeats: Names, statistic: Callable[[np.ndarray], float], seed: int) -> np.ndarray:
    """The statistic of each resample, given how often each value counts in it; a resample without any is left out."""
    if n == 0 or not n == len(clusters) == len(repeats):
        raise ValueError(f"{n} values, {len(clusters)} clusters, {len(repeats)} repeats: allowed are as many of each")
    of_cluster, of_repeat = _places(clusters), _places(repeats)
    k, r = int(of_cluster.max()) + 1, int(of_repeat.max()) + 1
    # Streams of their own, so that draws of the repeats do not depend on how many clusters there are.
    of_k, of_r = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    found = []
    for _ in range(RESAMPLES):
        drawn = np.bincount(of_k.integers(k, size=k), minlength=k)[of_cluster]
        times = drawn * np.bincount(of_r.integers(r, size=r), minlength=r)[of_repeat]
        found.append(statistic(times) if times.any() else float("nan"))
    return np.asarray(found)


def _places(names: Names) -> np.ndarray:
    place = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.asarray([place[name] for name in names])


def _estimate(value: float, draws: np.ndarray, clusters: Names, repeats: Names, level: float) -> Estimate:
    k, known = len(set(clusters)), draws[np.isfinite(draws)]
    low, high, method = None, None, "none"
    if k >= FEWEST and known.size:
        tail = (1 - expanded(level, k)) / 2
        low, high = min(float(np.quantile(known, tail)), value), max(float(np.quantile(known, 1 - tail)), value)
        method = "bootstrap"
    return Estimate(
        value=value, low=low, high=high, n=len(clusters), clusters=k, repeats=len(set(repeats)), method=method
    )


def _design_effect(beyond: np.ndarray, clusters: Names) -> float:
    """Variance of how many lie beyond, found from clusters, over that of independent values; at least 1."""
    of, share = _places(clusters), float(beyond.mean())
    sizes, k = np.bincount(of), int(of.max()) + 1
    within = beyond.size * share * (1 - share) * beyond.size / max(1, beyond.size - 1)
    between = float(((np.bincount(of, weights=beyond) - share * sizes) ** 2).sum()) * k / (k - 1)
    return max(1.0, between / within) if within > 0 else 1.0


def _place_among(place: int, worth: int, n: int, *, up: bool) -> int:
    """A place among `worth` values as one among n, never nearer to the middle."""
    return min(n - 1, -(-(place + 1) * n // worth) - 1) if up else place * n // worth


def _order_statistics(n: int, q: float, tail: float) -> tuple[int | None, int | None]:
    """Places, from 0, of the values beyond which the q quantile lies with at most `tail` on each side."""
    from scipy.special import bdtr

    # The chance that so many values or fewer lie below the quantile [n + 1].
    upto = bdtr(np.arange(n + 1), n, q)
    # The quantile lies below x_(l) where fewer than l values lie below it, above x_(u) where u or more do.
    low = int(np.searchsorted(upto, tail, side="right")) - 1
    high = int(np.searchsorted(upto, 1 - tail, side="left"))
    return (low if low >= 0 else None), (high if high < n else None)
