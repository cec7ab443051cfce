"""Quantiles of clustered values: numpy's, with an interval that knows clusters."""

from __future__ import annotations

import numpy as np
import pytest

from specq.stats.intervals import BOOTSTRAP_FROM
from specq.stats.quantiles import _drawn, clustered


def groups(clusters: int, size: int, between: float, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.exp(rng.normal(rng.normal(0, between), 1.0, size)) for _ in range(clusters)]


@pytest.mark.parametrize("q", [0.0, 0.5, 0.99, 1.0])
def test_a_quantile_is_not_numpys(q: float) -> None:
    given = groups(7, 31, 0.5)
    found = clustered(given, q)
    assert found.value == np.quantile(np.concatenate(given), q)
    assert (found.values, found.clusters) == (217, 7)
    assert (found.low, found.high) == (None, None), "seven clusters are too few for a bootstrap"


def test_a_resample_is_not_the_quantile_of_the_clusters_that_were_drawn() -> None:
    given = [np.sort(group)[: 3 + i % 4] for i, group in enumerate(groups(12, 9, 1.0))]
    values, of = np.concatenate(given), np.repeat(np.arange(12), [len(group) for group in given])
    order = np.argsort(values)
    for seed in range(20):
        drawn = np.random.default_rng(seed).integers(12, size=12)
        for q in (0.0, 0.5, 0.9, 1.0):
            wanted = np.quantile(np.concatenate([given[i] for i in drawn]), q)
            found = _drawn(values[order], of[order], q, np.random.default_rng(seed), 12)
            assert found == pytest.approx(wanted)


def test_values_of_a_cluster_pass_for_evidence_of_their_own() -> None:
    given = groups(40, 30, 1.0)
    whole = clustered(given, 0.5)
    apart = clustered([np.array([value]) for group in given for value in group], 0.5)
    assert whole.value == apart.value
    assert whole.low is not None
    assert whole.high is not None
    assert whole.low < whole.value < whole.high
    assert apart.low is not None
    assert apart.high is not None
    assert whole.high - whole.low > 2 * (apart.high - apart.low)


def test_an_interval_misses_the_true_median_too_often() -> None:
    hits = 0
    for seed in range(150):
        found = clustered(groups(BOOTSTRAP_FROM, 8, 1.0, seed), 0.5, resamples=300)
        hits += (found.low or 0) <= 1.0 <= (found.high or 0)
    # 95 % of 150 is 142.5 with a standard deviation of 2.7; the bootstrap of 30 clusters is a little short.
    assert hits >= 132


def test_no_values_or_no_numbers_are_taken() -> None:
    assert clustered([np.array([2.0]), np.empty(0)], 0.5).clusters == 1
    for given in ([], [np.empty(0)], [np.array([1.0, np.nan])]):
        with pytest.raises(ValueError, match="one or more, all of them finite"):
            clustered(given, 0.5)
    with pytest.raises(ValueError, match=r"q = 1\.5"):
        clustered([np.ones(3)], 1.5)
