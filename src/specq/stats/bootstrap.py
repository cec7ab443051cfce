"""Bootstrap intervals over clusters for scores that are no flips, and for the ratio of two perplexities.

A cluster (a document) is drawn whole, with all its items: items of one document are no evidence of their own. Without
clusters every item is its own. The interval is BCa (Efron 1987, as scipy.stats.bootstrap does it), from
`BOOTSTRAP_FROM` clusters on, at the higher level that makes up for a resample's spread being the smaller (the expanded
percentile of Hesterberg 2015); below, where a bootstrap is too short all the same, Student's t on what each cluster
adds to the ratio of sums (the delta method), weighted by 1 / (1 - share) (CR2, Bell and McCaffrey 2002). Where neither
can say anything there is no interval, and a note says why.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from specq.stats.intervals import BOOTSTRAP_FROM

Values = Sequence[float] | np.ndarray
Clusters = Sequence[Hashable] | np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampled:
    """A value with its two-sided interval; low and high are None where there is none, and `note` says why.

    `method` is "bca", "t" or "none"; `note` is empty where there is nothing to say.
    """

    value: float
    low: float | None
    high: float | None
    items: int
    clusters: int
    method: str
    note: str


def mean_difference(
    before: Values,
    after: Values,
    clusters: Clusters | None = None,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Resampled:
    """The mean of after less before, the same items in both: before [n], after [n], clusters [n] or None.

    Raises:
        ValueError: no items, unequal lengths, a score that is no number, or a bad level.
    """
    rows = _rows(level, clusters, before=before, after=after)
    differences, of = rows.values[1] - rows.values[0], rows.of
    sums = np.bincount(of, weights=differences)
    return _interval(sums, np.bincount(of).astype(float), len(differences), level, resamples, seed)


def perplexity_ratio(
    before: Values,
    after: Values,
    tokens: Values,
    documents: Clusters | None = None,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Resampled:
    """Perplexity after over perplexity before on the same tokens, exp((sum(after) - sum(before)) / sum(tokens)).

    Args:
        before: negative log-likelihood of each text, summed over its tokens, in nats [n].
        after: the same of the other arm, on the same tokens [n].
        tokens: how many tokens of each text were scored [n].
        documents: the document of each text [n]; texts of one document are drawn together.
        level: two-sided.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    The interval is made for the logarithm, whose pairing cancels what is hard about a text, and goes through exp.

    Raises:
        ValueError: as `mean_difference`, or a text without tokens.
    """
    rows = _rows(level, documents, before=before, after=after, tokens=tokens)
    if rows.values[2].min() <= 0:
        raise ValueError(f"tokens: {rows.values[2].min():g} in a text; allowed is one or more, leave empty texts out")
    sums = np.bincount(rows.of, weights=rows.values[1] - rows.values[0])
    weights = np.bincount(rows.of, weights=rows.values[2])
    found = _interval(sums, weights, len(rows.of), level, resamples, seed)
    low, high = (None if end is None else math.exp(end) for end in (found.low, found.high))
    return replace(found, value=math.exp(found.value), low=low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Values [rows, n] and the place of each item's cluster [n]."""

    values: np.ndarray
    of: np.ndarray


def _rows(level: float, clusters: Clusters | None, **given: Values) -> _Rows:
    if not 0 < level < 1:
        raise ValueError(f"level = {level}: allowed is a share between 0 and 1")
    arrays = {name: np.asarray(values, dtype=float) for name, values in given.items()}
    n = next(iter(arrays.values())).size
    names = list(range(n)) if clusters is None else list(clusters)
    sizes = {name: array.size for name, array in arrays.items()} | {"clusters": len(names)}
    if n == 0 or any(size != n for size in sizes.values()):
        told = ", ".join(f"{size} {name}" for name, size in sizes.items())
        raise ValueError(f"{told}: allowed is as many of each, one or more")
    for name, array in arrays.items():
        if not np.all(np.isfinite(array)):
            at = int(np.argmin(np.isfinite(array)))
            raise ValueError(f"{name}[{at}] = {array[at]}: allowed is a finite number; leave failed items out of both")
    place = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return _Rows(values=np.stack(list(arrays.values())), of=np.array([place[name] for name in names]))


def _interval(sums: np.ndarray, weights: np.ndarray, items: int, level: float, resamples: int, seed: int) -> Resampled:
    """Interval of sum(sums) / sum(weights), both [clusters]."""
    k, value = sums.size, float(sums.sum() / weights.sum())
    off = sums - value * weights
    none = Resampled(value=value, low=None, high=None, items=items, clusters=k, method="none", note="")
    if k == 1:
        return replace(none, note="one cluster: nothing shows how much another would differ")
    # Rounding alone must not pass for a spread, nor reach the bootstrap, which has no acceleration there.
    if np.abs(off).max() <= 1e-12 * max(np.abs(sums).max(), np.finfo(float).tiny):
        return replace(none, note=_without_spread(value, k))
    if k >= BOOTSTRAP_FROM:
        low, high = _bca(sums, weights, level, resamples, seed)
        if math.isfinite(low) and math.isfinite(high):
            return replace(none, low=low, high=high, method="bca")
    from scipy.special import stdtrit

    spread = float((off**2 / (1 - weights / weights.sum())).sum())
    half = float(stdtrit(k - 1, 0.5 + level / 2)) * math.sqrt(spread) / float(weights.sum())
    note = f"{k} clusters: below {BOOTSTRAP_FROM} Student's t" if k < BOOTSTRAP_FROM else "BCa has no ends here"
    return replace(none, low=value - half, high=value + half, method="t", note=note)


def _without_spread(value: float, clusters: int) -> str:
    if value == 0:
        return f"no difference in any of {clusters} clusters: resampling shows no spread, which proves no equality"
    return f"the same difference in all of {clusters} clusters: resampling shows no spread"


def expanded(level: float, clusters: int) -> float:
    """The level at which a normal quantile is Student's t times sqrt(k / (k - 1)): 0.9595 for 0.95 and 40 clusters."""
    from scipy.special import ndtr, stdtrit

    quantile = math.sqrt(clusters / (clusters - 1)) * float(stdtrit(clusters - 1, 0.5 + level / 2))
    return float(2 * ndtr(quantile) - 1)


def _bca(sums: np.ndarray, weights: np.ndarray, level: float, resamples: int, seed: int) -> tuple[float, float]:
    from scipy.stats import bootstrap

    def mean(index: np.ndarray, axis: int) -> np.ndarray:
        return sums[index].sum(axis=axis) / weights[index].sum(axis=axis)

    with np.errstate(divide="ignore", invalid="ignore"):
        found = bootstrap(
            (np.arange(sums.size),),
            mean,
            confidence_level=expanded(level, sums.size),
            n_resamples=resamples,
            method="BCa",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    return float(found.low), float(found.high)
