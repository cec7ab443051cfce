"""Quantiles of values that come in clusters: all values pooled, the interval over clusters drawn whole.

The interval is the percentile one of a bootstrap over clusters: a quantile is no smooth function of its data, so that
BCa's acceleration, which a jackknife finds, means nothing for it. There is none below `BOOTSTRAP_FROM` clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specq.stats.bootstrap import expanded
from specq.stats.intervals import BOOTSTRAP_FROM

RESAMPLES = 1000
FEWEST = 5
"""Clusters from which on a difference of quantiles has an interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """A quantile of all values (linear interpolation) with its two-sided interval; None where there is none."""

    value: float
    low: float | None
    high: float | None
    values: int
    clusters: int


def clustered(
    groups: Sequence[np.ndarray], q: float, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Quantile:
    """The q quantile of the values of all clusters together; each group holds those of one cluster.

    Raises:
        ValueError: there are no values, one is no number, or q or level is no share.
    """
    if not 0 <= q <= 1 or not 0 < level < 1:
        raise ValueError(f"q = {q}, level = {level}: allowed are shares from 0 to 1, level between them")
    groups = [np.asarray(group, dtype=float) for group in groups if len(group)]
    values = np.concatenate(groups) if groups else np.empty(0)
    if values.size == 0 or not np.all(np.isfinite(values)):
        raise ValueError(f"{values.size} values: allowed is one or more, all of them finite numbers")
    value = float(np.quantile(values, q))
    low, high = None, None
    if len(groups) >= BOOTSTRAP_FROM:
        of = np.repeat(np.arange(len(groups)), [group.size for group in groups])
        order = np.argsort(values, kind="stable")
        values, of = values[order], of[order]
        rng = np.random.default_rng(seed)
        found = [_drawn(values, of, q, rng, len(groups)) for _ in range(resamples)]
        tail = (1 - level) / 2
        # With few values in the tail all draws may agree on a point that is not quite the value's.
        low = min(float(np.quantile(found, tail)), value)
        high = max(float(np.quantile(found, 1 - tail)), value)
    return Quantile(value=value, low=low, high=high, values=int(values.size), clusters=len(groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A quantile of all values of `other` less that of `one`, with the interval over clusters; None where is none."""

    value: float
    low: float | None
    high: float | None
    one: float
    other: float
    clusters: int


def difference(
    one: Sequence[np.ndarray],
    other: Sequence[np.ndarray],
    q: float,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """The q quantile of `other`'s values less that of `one`'s, all clusters pooled; both have the same clusters.

    A cluster is drawn with the values of both. The interval is the percentile one at the level that Student's t has
    with so few clusters (bootstrap.expanded), and there is none below FEWEST.

    Raises:
        ValueError: the clusters are not as many, or either has no values.
    """
    if len(one) != len(other) or not sum(map(len, one)) or not sum(map(len, other)):
        raise ValueError(f"{len(one)} and {len(other)} clusters: allowed are as many of both, and values in both")
    values = [float(np.quantile(np.concatenate(of), q)) for of in (one, other)]
    low, high = None, None
    value = values[1] - values[0]
    if len(one) >= FEWEST:
        rng = np.random.default_rng(seed)
        found = []
        for _ in range(resamples):
            drawn = rng.integers(len(one), size=len(one))
            both = [np.concatenate([of[place] for place in drawn]) for of in (one, other)]
            if all(len(values) for values in both):
                found.append(float(np.quantile(both[1], q) - np.quantile(both[0], q)))
        tail = (1 - expanded(level, len(one))) / 2
        low, high = min(float(np.quantile(found, tail)), value), max(float(np.quantile(found, 1 - tail)), value)
    return Difference(value=value, low=low, high=high, one=values[0], other=values[1], clusters=len(one))


def _drawn(values: np.ndarray, of: np.ndarray, q: float, rng: np.random.Generator, clusters: int) -> float:
    """The quantile of one resample: values [n] in rising order, each as often as its cluster was drawn."""
    times = np.bincount(rng.integers(clusters, size=clusters), minlength=clusters)
    upto = np.cumsum(times[of])
    place = q * (upto[-1] - 1)
    below = int(place)
    first, second = values[np.searchsorted(upto, [below, min(below + 1, upto[-1] - 1)], side="right")]
    return float(first + (place - below) * (second - first))
