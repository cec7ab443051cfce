import math
from dataclasses import replace

import numpy as np
import pytest

from specq.stats.intervals import log_ratio, more_prompts, percentiles, pooled_ratio, speed_ratio, t_interval


def test_t_interval_against_a_table() -> None:
    found = t_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    # t(0.975, 4) = 2.776, sd = 1.5811, n = 5
    assert found.value == 3.0
    assert found.high == pytest.approx(3.0 + 2.776 * 1.5811 / math.sqrt(5), abs=1e-3)
    assert found.low == pytest.approx(6.0 - (found.high or 0.0))


def test_one_value_has_no_interval_and_none_is_refused() -> None:
    assert t_interval([2.0]).low is None
    with pytest.raises(ValueError, match="at least one"):
        t_interval([])


def test_pooled_is_the_ratio_of_sums_not_the_mean_of_ratios() -> None:
    found = log_ratio([10.0, 1.0], [10, 1], [5.0, 2.0], [10, 1])
    assert found.pooled.value == pytest.approx(11 / 7)
    assert found.per_prompt.value == pytest.approx(1.0)
    assert (found.minimum, found.maximum, found.slower) == (pytest.approx(0.5), pytest.approx(2.0), 0.5)


def test_arms_of_unequal_length_are_compared_by_the_token() -> None:
    found = log_ratio([4.0, 4.0], [40, 40], [1.0, 1.0], [20, 20])
    assert found.pooled.value == pytest.approx(2.0)
    assert (found.pooled.low, found.pooled.high) == (pytest.approx(2.0), pytest.approx(2.0))


def test_a_prompt_without_decoding_is_left_out() -> None:
    assert log_ratio([2.0, 0.0], [10, 0], [1.0, 0.0], [10, 0]).pooled.n == 1
    with pytest.raises(ValueError, match="at least one prompt"):
        log_ratio([0.0], [0], [0.0], [0])


def test_a_ratio_without_its_interval_is_the_same_to_the_last_digit() -> None:
    rng = np.random.default_rng(5)
    for n in (1, 2, 29, 30, 200, 1000):
        rows = [rng.uniform(0.1, 9.0, n + 1) for _ in range(4)]
        # A prompt that one arm did not decode is in neither.
        rows[3][n // 2] = 0.0
        assert speed_ratio(*rows) == log_ratio(*rows, resamples=20).pooled.value
    with pytest.raises(ValueError, match="at least one prompt"):
        speed_ratio([0.0], [0], [0.0], [0])


def test_t_below_thirty_prompts_and_bootstrap_from_there() -> None:
    rng = np.random.default_rng(3)
    ta = np.exp(rng.normal(0, 0.2, 30))
    one = np.ones(30)
    assert log_ratio(one[:29], one[:29], ta[:29], one[:29]).pooled.method == "t"
    first, again = (log_ratio(one, one, ta, one).pooled for _ in range(2))
    assert first.method == "bca"
    assert first == again, "the bootstrap is seeded"


def test_a_share_of_zero_has_no_interval() -> None:
    found = pooled_ratio([[0.0, 0.0]], [[4.0, 5.0]])
    assert (found.value, found.low, found.high) == (0.0, None, None)


def _coverage(prompts: int, draws: int, *, repeats_as_prompts: bool = False, resamples: int = 600) -> float:
    """Share of intervals that hold the truth; every prompt has its own speed-up and its own length."""
    rng = np.random.default_rng(11)
    spread, repeats, truth = 0.25, 4, math.exp(0.2 - 0.25**2 / 2)
    hits = 0
    for _ in range(draws):
        tokens = rng.integers(20, 200, prompts)
        own = rng.normal(0.2, spread, prompts)
        noise = rng.normal(0, 0.02, (2, repeats, prompts))
        base = tokens * np.exp(noise[0])
        arm = tokens * np.exp(noise[1] - own)
        counts = np.broadcast_to(tokens, base.shape)
        if repeats_as_prompts:
            rows = (base.ravel(), counts.ravel(), arm.ravel(), counts.ravel())
        else:
            rows = (base.sum(0), counts.sum(0), arm.sum(0), counts.sum(0))
        found = log_ratio(*rows, resamples=resamples).pooled
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= truth <= found.high
    return hits / draws


def test_t_interval_over_prompts_covers_the_truth() -> None:
    assert 0.92 <= _coverage(12, 600) <= 0.98


def test_bootstrap_over_prompts_covers_the_truth() -> None:
    assert 0.90 <= _coverage(40, 250) <= 0.98


def test_the_coverage_test_sees_repeats_taken_for_prompts() -> None:
    assert _coverage(7, 400, repeats_as_prompts=True) < 0.85


def test_more_prompts_needed_is_enough_and_no_more() -> None:
    rng = np.random.default_rng(5)
    ta = np.exp(rng.normal(-0.03, 0.2, 12))
    one = np.ones(12)
    found = log_ratio(one, one, ta, one).pooled
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1 < found.high
    extra = more_prompts(found)
    assert extra is not None
    from scipy.stats import t

    def half(n: int) -> float:
        return float(t.ppf(0.975, n - 1)) * found.spread / math.sqrt(n)

    assert half(12 + extra) < abs(math.log(found.value)) <= half(12 + extra - 1)


def test_more_prompts_says_nothing_where_nothing_can_be_said() -> None:
    assert more_prompts(pooled_ratio([[1.0]], [[2.0]])) is None
    few = pooled_ratio([[1.0, 2.0, 1.5, 1.1]], [[1.1, 1.0, 1.6, 1.2]])
    assert more_prompts(few) is None
    assert more_prompts(replace(few, n=5)) is not None
    assert more_prompts(pooled_ratio([[1.0, 2.0]], [[2.0, 1.0]])) is None


def test_p_value_agrees_with_the_interval() -> None:
    rng = np.random.default_rng(8)
    one = np.ones(10)
    for shift in (0.0, 0.1, 0.3):
        found = log_ratio(one, one, np.exp(rng.normal(-shift, 0.2, 10)), one)
        assert found.p_not_faster is not None
        assert found.pooled.low is not None
        assert (found.p_not_faster < 0.025) == (found.pooled.low > 1)


@pytest.mark.parametrize(
    ("count", "shown"), [(1, {"p50"}), (19, {"p50"}), (20, {"p50", "p95"}), (99, {"p50", "p95"}), (100, None)]
)
def test_tails_are_not_printed_from_too_few_values(count: int, shown: set[str] | None) -> None:
    found = percentiles(np.arange(count, dtype=float))
    assert {name for name, value in found.items() if value is not None} == (shown or {"p50", "p95", "p99"})
    assert found["p50"] == (count - 1) / 2
