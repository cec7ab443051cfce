"""One door to the formulas: which one is taken for which scores, and p-values that belong to the bounds."""

from __future__ import annotations

import pytest

from specq.stats import floor, paired
from specq.stats.scores import Paired, difference, rate


def pairs(worse: int, better: int, n: int, *, per_cluster: int = 1, binary: bool = True) -> Paired:
    before = [1.0] * worse + [0.0] * better + [1.0] * (n - worse - better)
    after = [0.0] * worse + [1.0] * better + [1.0] * (n - worse - better)
    clusters = tuple(f"c{i // per_cluster}" for i in range(n))
    return Paired(before=tuple(before), after=tuple(after), clusters=clusters, binary=binary)


def test_independent_flips_are_read_by_another_formula() -> None:
    found = difference(pairs(9, 4, 200))
    assert (found.low, found.high) == (paired.bonett_price(9, 4, 200).low, paired.bonett_price(9, 4, 200).high)
    assert found.bounds == floor.one_sided(9, 4, 200).__class__(
        value=found.value, low=found.low_one_sided, high=found.high_one_sided, method=found.method
    )
    assert found.low_one_sided == floor.one_sided(9, 4, 200).low
    assert found.p == paired.mcnemar_mid_p(9, 4)


def test_clusters_are_taken_for_items() -> None:
    assert difference(pairs(9, 4, 200, per_cluster=10)).method == "clustered tango"
    assert difference(pairs(9, 4, 200, per_cluster=10)).p is None


@pytest.mark.parametrize("per_cluster", [1, 4])
@pytest.mark.parametrize(("worse", "better"), [(0, 0), (2, 2), (9, 4), (30, 5)])
@pytest.mark.parametrize("margin", [0.01, 0.02, 0.05, 0.1])
def test_a_p_value_contradicts_its_bound(worse: int, better: int, margin: float, per_cluster: int) -> None:
    found = difference(pairs(worse, better, 400, per_cluster=per_cluster))
    outcome = found.against(margin).outcome
    assert (found.p_within(margin) < 0.05) == (outcome == "keep")
    assert (found.p_beyond(margin) < 0.05) == (outcome == "reject")


def test_a_rate_of_clusters_is_as_sure_as_one_of_items() -> None:
    scores, clusters = [1.0] * 50 + [0.0] * 50, [f"c{i // 10}" for i in range(100)]
    alone = rate(scores, [str(i) for i in range(100)], binary=True)
    together = rate(scores, clusters, binary=True)
    assert alone.low is not None
    assert alone.high is not None
    assert together.low is not None
    assert together.high is not None
    assert together.high - together.low > 2 * (alone.high - alone.low)
    assert 0 <= together.low < together.high <= 1


def test_scores_between_0_and_1_are_taken_for_flips() -> None:
    found = difference(
        Paired(before=(0.5,) * 40, after=(0.4, 0.6) * 20, clusters=tuple(map(str, range(40))), binary=False)
    )
    assert found.method == "clustered t"
    assert found.value == pytest.approx(0)
    assert found.low < -0.01 < 0.01 < found.high
    assert (found.worse, found.better) == (20, 20)


@pytest.mark.parametrize("per_cluster", [1, 5])
@pytest.mark.parametrize("score", [0.0, 0.5, 0.9999, 1.0, -2.3])
def test_scores_that_are_all_equal_prove_their_mean(score: float, per_cluster: int) -> None:
    widths = []
    for n in (20, 100):
        found = rate([score] * n, [str(i // per_cluster) for i in range(n)], binary=False)
        assert found.low is not None
        assert found.high is not None
        assert found.low_one_sided is not None
        assert found.high_one_sided is not None
        assert found.low <= found.low_one_sided <= score <= found.high_one_sided <= found.high
        assert score < 0 or 0 <= found.low < found.high <= 1
        widths.append(found.high - found.low)
    assert widths[0] > 2 * widths[1] > 2 / 100


def test_a_full_score_everywhere_is_surer_by_another_metric() -> None:
    names = [str(i) for i in range(100)]
    right, full = (rate([1.0] * 100, names, binary=binary) for binary in (True, False))
    almost = rate([*[1.0] * 99, 0.99], names, binary=False)
    assert (full.low, full.high) == pytest.approx((right.low, right.high))
    assert almost.low == pytest.approx(full.low, abs=0.005), "one item off by a hair is no evidence of the spread"


def test_an_interval_of_scores_leaves_their_range() -> None:
    found = rate([1.0] * 10 + [0.9] * 4 + [0.0], [str(i) for i in range(15)], binary=False)
    assert (found.method, found.high) == ("clustered t", 1.0)


@pytest.mark.parametrize("score", [0.5, 1.0])
def test_equal_scores_of_two_arms_prove_that_they_are_equal(score: float) -> None:
    ends = []
    for n in (20, 100):
        same = Paired(before=(score,) * n, after=(score,) * n, clusters=tuple(map(str, range(n))), binary=False)
        found = difference(same)
        assert found.value == 0
        assert -1 <= found.low < -1 / n < 1 / n < found.high <= 1
        ends.append(found.high)
    assert ends[0] > 2 * ends[1]


def test_one_cluster_has_an_interval() -> None:
    assert rate([1.0, 0.0], ["a", "a"], binary=True).low is None


def test_clusters_need_no_more_items_than_independent_ones() -> None:
    alone, together = difference(pairs(9, 9, 400)), difference(pairs(9, 9, 400, per_cluster=10))
    more = alone.against(0.01).more_items
    clustered = together.against(0.01).more_items
    assert more is not None
    assert clustered is not None
    assert clustered > 1.2 * more
