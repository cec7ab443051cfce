"""Bootstrap intervals over documents: another package's figures, coverage, and input that shows no spread."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specq.stats.bootstrap import mean_difference, perplexity_ratio
from specq.stats.intervals import BOOTSTRAP_FROM

# fmt: off
SKEWED = [
    0.3, -0.037, 0.244, -0.066, 0.014, 0.0, -0.019, 0.072, -0.01, 0.069, 0.012, 0.014, -0.075, 0.069, 0.386, 0.009,
    0.037, -0.056, -0.039, 0.193, 0.305, -0.01, -0.069, 0.072, 0.169, -0.039, -0.01, -0.073, -0.059, -0.036, -0.054,
    0.572, -0.072, 0.035, -0.07, 0.03, 0.104, 0.109, 0.141, -0.025,
]
# fmt: on


def test_another_package_finds_another_interval():
    """evalstats 0.3.3: bca_interval_1d over 500,000 resamples, at alpha = 0.0405151 (expanded for 40 values)."""
    found = mean_difference(np.zeros(40), SKEWED, resamples=10_000)
    assert (found.low, found.high) == pytest.approx((0.01645, 0.1106), abs=0.002)
    assert found.value == pytest.approx(np.mean(SKEWED))
    assert (found.items, found.clusters, found.method, found.note) == (40, 40, "bca", "")
    # Skewed to the right: the percentile or the t interval would be nearer to symmetric.
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.value > 1.25 * (found.value - found.low)


def test_t_over_few_clusters_differs_from_the_formula():
    sums = np.array([0.5, -0.2, 0.1, 0.4, 0.3])
    found = mean_difference(np.zeros(10), np.repeat(sums / 2, 2), np.arange(10) // 2)
    half = 2.776445 * sums.std(ddof=1) / math.sqrt(5) / 2
    assert (found.low, found.high) == pytest.approx((0.11 - half, 0.11 + half), abs=1e-6)
    assert (found.method, found.clusters) == ("t", 5)
    assert "5 clusters" in found.note


def test_a_seed_is_forgotten_or_order_matters():
    rng = np.random.default_rng(2)
    before, after, of = rng.random(120), rng.random(120), np.arange(120) // 3
    first = mean_difference(before, after, of, seed=4)
    assert first == mean_difference(before, after, of, seed=4)
    assert first != mean_difference(before, after, of, seed=5)
    assert mean_difference(after, before, of, seed=4).value == pytest.approx(-first.value)


def documents(count: int, seed: int) -> tuple[np.ndarray, ...]:
    """Texts of documents: a hard text is hard for both arms, and the arm costs a document its own amount."""
    rng = np.random.default_rng(seed)
    of = np.repeat(np.arange(count), rng.integers(2, 9, count))
    tokens = rng.integers(50, 500, of.size)
    hard = rng.normal(3.0, 0.8, of.size)
    cost = rng.normal(0.03, 0.04, count)[of] + rng.normal(0, 0.01, of.size)
    return hard * tokens, (hard + cost) * tokens, tokens, of


def coverage(count: int, draws: int, *, texts_alone: bool = False) -> float:
    hits = 0
    for seed in range(draws):
        before, after, tokens, of = documents(count, seed)
        found = perplexity_ratio(before, after, tokens, None if texts_alone else of, resamples=600)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= math.exp(0.03) <= found.high
    return hits / draws


@pytest.mark.parametrize(("count", "draws"), [(12, 1000), (60, 500)])
def test_the_ratio_of_perplexities_misses_too_often(count, draws):
    assert 0.92 <= coverage(count, draws) <= 0.97


def test_the_check_of_coverage_lets_texts_pass_for_documents():
    assert coverage(60, 200, texts_alone=True) < 0.8


def test_perplexities_are_averaged_or_not_paired():
    before, after, tokens, of = documents(50, 3)
    found = perplexity_ratio(before, after, tokens, of)
    assert found.value == pytest.approx(math.exp(after.sum() / tokens.sum()) / math.exp(before.sum() / tokens.sum()))
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    # What is hard about the texts, 0.8 nats of spread, cancels.
    assert math.log(found.high / found.low) < 0.04
    assert (found.items, found.clusters, found.method) == (of.size, 50, "bca")


@pytest.mark.parametrize("count", [5, BOOTSTRAP_FROM + 5])
def test_equal_outputs_get_an_interval_of_no_width(count):
    same = np.linspace(0, 1, count)
    found = mean_difference(same, same)
    assert (found.value, found.low, found.high, found.method) == (0.0, None, None, "none")
    assert "proves no equality" in found.note
    shifted = mean_difference(same, same + 0.1)
    assert shifted.value == pytest.approx(0.1)
    assert (shifted.low, shifted.high) == (None, None)
    assert "the same difference" in shifted.note
    ratio = perplexity_ratio(same, same, np.full(count, 9))
    assert (ratio.value, ratio.low, ratio.high) == (1.0, None, None)


def test_one_cluster_gets_an_interval():
    found = mean_difference([0.0, 0.5, 1.0], [0.5, 0.5, 0.0], ["a", "a", "a"])
    assert (found.low, found.high, found.clusters, found.items) == (None, None, 1, 3)
    assert "one cluster" in found.note


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mean_difference([], []), "one or more"),
        (lambda: mean_difference([1.0], [1.0, 0.0]), "1 before, 2 after"),
        (lambda: mean_difference([1.0, 2.0], [1.0, 0.0], [1]), "1 clusters"),
        (lambda: mean_difference([1.0, 2.0], [1.0, float("nan")]), r"after\[1\] = nan"),
        (lambda: mean_difference([1.0, 2.0], [1.0, 3.0], level=0.0), "level"),
        (lambda: perplexity_ratio([1.0, 2.0], [1.0, 3.0], [4, 0]), "tokens: 0"),
    ],
)
def test_odd_input_is_taken(call, said):
    with pytest.raises(ValueError, match=said):
        call()
