"""Intervals over clusters and repeats: what each would miss alone."""

from __future__ import annotations

import numpy as np
import pytest

from specq.stats import crossed

PROMPTS = list(range(40))


def width(one: crossed.Estimate) -> float:
    assert one.low is not None
    assert one.high is not None
    assert one.low <= one.value <= one.high
    return one.high - one.low


def test_an_interval_misses_the_truth_more_often_than_it_says() -> None:
    rng, missed = np.random.default_rng(1), 0
    for seed in range(60):
        of_prompt = rng.normal(0, 1, len(PROMPTS))
        values = [of_prompt[place % 40] + rng.normal(0, 0.3) for place in range(80)]
        found = crossed.quantile(values, PROMPTS * 2, [0] * 40 + [1] * 40, 0.5, seed=seed)
        assert (found.n, found.clusters, found.repeats, found.method) == (80, 40, 2, "bootstrap")
        assert found.low is not None
        assert found.high is not None
        missed += not found.low <= 0 <= found.high
    # With 5 % of 60 to be missed, 8 or more come once in 100 times.
    assert missed <= 7


def test_answers_to_one_prompt_count_as_so_many_prompts() -> None:
    values = np.random.default_rng(2).normal(0, 1, 40)
    once = crossed.quantile(values, PROMPTS, [0] * 40, 0.5)
    often = crossed.quantile(np.tile(values, 10), PROMPTS * 10, [0] * 400, 0.5)
    assert width(often) > 0.8 * width(once)


def test_repeats_that_differ_leave_the_interval_as_it_is() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.normal(100, 1, 10), rng.normal(120, 1, 10)
    seconds, slices, repeats = [1.0] * 20, list(range(20)), [0] * 10 + [1] * 10
    alike = crossed.ratio([*first, *(second - 20)], seconds, slices, repeats)
    apart = crossed.ratio([*first, *second], seconds, slices, repeats)
    assert width(alike) < 4
    assert apart.low is not None
    assert apart.high is not None
    assert apart.low < 101
    assert apart.high > 119
    assert apart.value == pytest.approx(110, abs=1)


def test_the_end_of_a_tail_lies_within_what_was_seen() -> None:
    few = crossed.quantile(range(58), range(58), [0] * 58, 0.95, level=0.9)
    enough = crossed.quantile(range(59), range(59), [0] * 59, 0.95, level=0.9)
    assert few.high is None
    assert enough.high == 58
    # The same values of 30 prompts, each asked twice alike, are worth half as many.
    twice = crossed.quantile(sorted([*range(30), *range(30)]), [n // 2 for n in range(60)], [0] * 60, 0.95, level=0.9)
    assert twice.high is None


def test_few_clusters_have_an_interval() -> None:
    few = crossed.quantile([1.0, 2.0] * 20, [0, 1, 2, 3] * 10, [0] * 40, 0.5)
    assert (few.low, few.high, few.method) == (None, None, "none")
    with pytest.raises(ValueError, match="0 values"):
        crossed.draw_quantiles([], [], [], 0.5)
    with pytest.raises(ValueError, match="sum above 0"):
        crossed.ratio([1.0], [0.0], [0], [0])
