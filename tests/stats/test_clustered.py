"""Intervals where items share documents: against another package's figures, and by simulation with planted mistakes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from specq.stats.clustered import Ends, clustered, clustered_many
from specq.stats.paired import bonett_price_many, tango, tango_many

STUDIES = 2000
MIXED, UNEQUAL = (2, 3, 10, 4, 6, 5, 7, 2, 8, 3), (1, 1, 1, 2, 10, 1, 1, 2, 1, 10)


def groups(n: int, sizes: tuple[int, ...]) -> np.ndarray:
    """The cluster of each of n items, sizes in turn; the last one takes what is left."""
    return np.repeat(np.arange(n), list(itertools.islice(itertools.cycle(sizes), n)))[:n]


def studies(n, sizes, flips, worse, together, *, whole=False, seed=1, count=STUDIES):
    """Differences [count, n] of 0/1 scores: a share `flips` of items flips, of which `worse` lose.

    Items share their cluster's draw with probability sqrt(together), which makes `together` their correlation; with
    `whole` a share `together` of clusters flips as a whole and the others' items are independent.
    """
    rng = np.random.default_rng(seed)
    of = groups(n, sizes)

    def draw(shape):
        u = rng.random(shape, dtype=np.float32)
        return (u < flips).astype(np.float32) - 2 * (u < flips * worse)

    shape = (count, of[-1] + 1)
    if whole:
        shared = (rng.random(shape, dtype=np.float32) < together)[:, of]
    else:
        shared = rng.random((count, n), dtype=np.float32) < together**0.5
    return np.where(shared, draw(shape)[:, of], draw((count, n))).astype(float), of, flips * (1 - 2 * worse)


def covered(ends: Ends | tuple[np.ndarray, np.ndarray], true: float) -> float:
    low, high = (ends.low, ends.high) if isinstance(ends, Ends) else ends
    return float(((low <= true + 1e-12) & (high >= true - 1e-12)).mean())


# Items, sizes, flip rate, share that gets worse, correlation (or share of clusters that flip whole).
FLOOR = [
    (50, (10,), 0.2, 0.9, 1.0, False),
    (50, (2,), 0.01, 1.0, 0.0, False),
    (50, MIXED, 0.05, 0.7, 0.5, False),
    (50, (10,), 0.2, 0.5, 0.0, False),
    (100, (5,), 0.05, 0.9, 0.2, False),
    (100, (2,), 0.05, 0.9, 0.0, False),
    (100, (10,), 0.2, 0.7, 0.8, False),
    (200, (10,), 0.1, 1.0, 1 / 3, True),
    (200, MIXED, 0.1, 0.9, 1 / 3, True),
    (200, UNEQUAL, 0.05, 0.9, 0.5, False),
    (200, (5,), 0.2, 0.7, 0.2, False),
    (500, (10,), 0.05, 1.0, 1 / 3, True),
    (500, (2,), 0.01, 0.9, 0.0, False),
    (500, (5,), 0.05, 1.0, 1 / 3, True),
    (500, MIXED, 0.1, 0.7, 0.8, False),
    (1000, (10,), 0.02, 1.0, 1 / 3, True),
    (1000, (10,), 0.05, 1.0, 1 / 3, True),
    (1000, (10,), 0.05, 0.9, 1 / 3, True),
    (1000, MIXED, 0.02, 0.9, 0.2, False),
    (1000, UNEQUAL, 0.1, 1.0, 1 / 3, True),
    (1000, (5,), 0.01, 1.0, 1.0, False),
    (1000, (10,), 0.1, 1.0, 1.0, False),
    (1000, UNEQUAL, 0.05, 1.0, 1.0, False),
]


@pytest.mark.parametrize("cell", FLOOR)
def test_an_interval_over_clusters_misses_too_often(cell):
    *law, whole = cell
    differences, of, true = studies(*law, whole=whole)
    assert covered(clustered_many(differences, of), true) >= 0.935


# All with 20 effective flips and more, correlated, not all one way.
WIDTH = [
    (200, (2,), 0.2, 0.5, 0.2, False),
    (500, (5,), 0.1, 0.9, 0.2, False),
    (500, (10,), 0.2, 0.7, 0.1, False),
    (500, MIXED, 0.2, 0.9, 0.2, False),
    (1000, (5,), 0.05, 0.5, 0.2, False),
    (1000, (10,), 0.1, 0.9, 0.2, False),
    (1000, (10,), 0.1, 0.5, 1 / 3, True),
    (1000, MIXED, 0.1, 0.7, 0.5, False),
    (1000, (2,), 0.05, 0.9, 0.5, False),
]


@pytest.mark.parametrize("cell", WIDTH)
def test_an_interval_over_clusters_is_too_wide(cell):
    *law, whole = cell
    differences, of, true = studies(*law, whole=whole)
    n, flips = law[0], law[2]
    effective = n * flips * n * (flips - true**2) / differences.sum(axis=1).var()
    assert effective >= 20
    assert 0.935 <= covered(clustered_many(differences, of), true) <= 0.965


def test_the_price_of_unseen_clusters_is_higher_than_told():
    """Independent flips that go one way look like clusters that flip whole and were not seen: up to 98.5 %."""
    for n, flips in ((1000, 0.02), (500, 0.1), (1000, 0.1)):
        differences, of, true = studies(n, (10,), flips, 1.0, 0.0)
        assert 0.95 <= covered(clustered_many(differences, of), true) <= 0.985


def unclustered(differences: np.ndarray, of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    del of
    return bonett_price_many((differences < 0).sum(axis=1), (differences > 0).sum(axis=1), differences.shape[1])


def two_pseudo_clusters(differences: np.ndarray, of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Student's t over clusters, with one more cluster of one item on either side."""
    from scipy.stats import t

    n, k = differences.shape[1], of[-1] + 1
    sums = np.stack([np.bincount(of, weights=row, minlength=k) for row in differences])
    centre = sums.sum(axis=1) / n
    off = sums - centre[:, None] * np.bincount(of)
    half = t.ppf(0.975, k + 1) * np.sqrt((off**2).sum(axis=1) * k / (k - 1) + 2) / n
    return centre - half, centre + half


@pytest.mark.parametrize(
    ("interval", "cell"),
    [
        (unclustered, (500, (10,), 0.1, 0.7, 0.5, False)),
        (unclustered, (1000, (5,), 0.05, 0.5, 0.2, False)),
        (unclustered, (200, MIXED, 0.1, 0.9, 1 / 3, True)),
        (two_pseudo_clusters, (1000, (10,), 0.02, 1.0, 1 / 3, True)),
    ],
)
def test_the_check_of_coverage_lets_a_wrong_interval_pass(interval, cell):
    *law, whole = cell
    differences, of, true = studies(*law, whole=whole)
    assert covered(interval(differences, of), true) < 0.9


@pytest.mark.parametrize(
    "cell",
    [
        (100, (10,), 0.1, 0.9, 0.5, False),
        (200, MIXED, 0.1, 1.0, 1 / 3, True),
        (500, (5,), 0.05, 0.7, 0.2, False),
        (1000, (10,), 0.05, 1.0, 1 / 3, True),
        (1000, MIXED, 0.2, 0.9, 1.0, False),
    ],
)
def test_a_lever_at_the_margin_is_kept_or_rejected_too_often(cell):
    """Each bound taken alone errs in 5 % of studies; where a third of clusters flips whole, in up to 8 %."""
    *law, whole = cell
    differences, of, true = studies(*law, whole=whole)
    ends = clustered_many(differences, of, level=0.9, one_sided=True)
    assert (ends.low > true + 1e-12).mean() <= (0.08 if whole else 0.065)
    assert (ends.high < true - 1e-12).mean() <= 0.06


# evalstats 0.3.3: clustered_score_paired_ci, 95 %. Without flips it takes clusters for whole, as here.
@pytest.mark.parametrize(("count", "size", "end"), [(10, 5, 0.277532800), (25, 4, 0.133192251), (100, 3, 0.036993498)])
def test_equal_outputs_have_another_interval_than_so_many_clusters(count, size, end):
    found = clustered(np.zeros(count * size), np.arange(count * size) // size)
    assert found.value == 0
    assert (found.low, found.high) == pytest.approx((-end, end), abs=1e-6)
    alone = clustered(np.zeros(count * size), range(count * size))
    assert found.high > alone.high > 0


# The same function with one item a cluster; better, then worse, among n items.
@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [((9, 18, 200), -0.099461176, 0.006296200), ((11, 30, 400), -0.080926475, -0.016912174)],
)
def test_clusters_of_one_item_are_no_independent_items(counts, low, high):
    better, worse, n = counts
    differences = np.repeat([1.0, -1.0, 0.0], [better, worse, n - better - worse])
    found = clustered(differences, range(n))
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)
    known = tango(worse, better, n)
    assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=1e-9)


def test_one_flip_proves_that_items_are_independent():
    flipped = np.zeros((2, 500))
    flipped[0, 0] = flipped[1, ::10] = -1
    few, many = clustered_many(flipped, np.arange(500) // 10).design_effect
    assert few == pytest.approx((1 + 0.5 * 10) / 1.5, rel=0.05)
    assert many < 1.1


def test_flips_that_go_together_count_as_many():
    together, apart = np.zeros(200), np.zeros(200)
    together[:20], apart[::10] = -1, -1
    of = np.arange(200) // 10
    low, high = (end[0] for end in tango_many(np.array([2.0]), np.array([0.0]), 20))
    whole, single = clustered(together, of), clustered(apart, of)
    assert whole.value == single.value == -0.1
    assert whole.low == pytest.approx(low) == pytest.approx(-0.301, abs=1e-3)
    assert whole.high >= high
    # Twenty flips in twenty documents show a loss; the same twenty in two documents do not.
    assert single.high < -0.05 < 0 < whole.high


def test_order_or_direction_of_items_moves_an_interval():
    differences, of, _ = studies(200, MIXED, 0.1, 0.9, 0.3, count=20)
    shuffled = np.random.default_rng(3).permutation(200)
    plain, mixed = clustered_many(differences, of), clustered_many(differences[:, shuffled], of[shuffled])
    turned = clustered_many(-differences, [f"doc {i}" for i in of])
    assert np.allclose(plain.low, mixed.low)
    assert np.allclose(plain.low, -turned.high)
    assert np.all((plain.design_effect >= 1) & (plain.design_effect <= (np.bincount(of) ** 2).sum() / 200))
    one = clustered(differences[3], of)
    assert (one.low, one.high) != (0, 0)
    assert (one.low, one.high) == pytest.approx((plain.low[3], plain.high[3]), abs=1e-9)


@pytest.mark.parametrize("one_sided", [False, True])
def test_a_higher_level_gives_a_narrower_interval(one_sided):
    for scale in (1.0, 0.3):
        differences, of, _ = studies(200, MIXED, 0.05, 0.9, 0.3, count=50)
        levels = (0.01, 0.5, 0.8, 0.9, 0.95, 0.99, 0.9999)
        ends = [clustered_many(scale * differences, of, level=level, one_sided=one_sided) for level in levels]
        for near, far in itertools.pairwise(ends):
            assert np.all(far.low <= near.low + 1e-12)
            assert np.all(far.high >= near.high - 1e-12)


def scores(n, sizes, together, kind, *, seed=2):
    """Differences of scores from 0 to 1 with a known mean, correlated within clusters."""
    rng = np.random.default_rng(seed)
    of = groups(n, sizes)
    shared, own = rng.normal(size=(STUDIES, of[-1] + 1))[:, of], rng.normal(size=(STUDIES, n))
    both = together**0.5 * shared + (1 - together) ** 0.5 * own
    if kind == "shifted":
        return -0.2 + 0.02 * both, of, -0.2
    if kind == "spread":
        return np.clip(0.1 * both, -1, 1), of, 0.0
    # One item in five moves at all, down more than up.
    moved = rng.random((STUDIES, n)) < 0.2
    return np.where(moved, np.clip(0.15 * both, -0.6, 0.6) - 0.1, 0.0), of, -0.02


@pytest.mark.parametrize("kind", ["shifted", "spread", "rare"])
@pytest.mark.parametrize(
    ("n", "sizes", "together"),
    [(50, (10,), 0.0), (50, (10,), 1.0), (100, (5,), 0.5), (300, MIXED, 0.3), (300, UNEQUAL, 1.0)],
)
def test_an_interval_of_scores_misses_too_often_or_is_too_wide(n, sizes, together, kind):
    differences, of, true = scores(n, sizes, together, kind)
    found = covered(clustered_many(differences, of), true)
    assert found >= 0.935
    if n >= 100:
        assert found <= 0.975


def test_the_check_of_scores_lets_independent_items_pass():
    differences, _, true = scores(300, UNEQUAL, 1.0, "spread")
    assert covered(clustered_many(differences, range(300)), true) < 0.85


def test_scores_without_spread_prove_everything():
    same, none = clustered(np.full(50, 0.1), np.arange(50) // 5), clustered(np.zeros(50), np.arange(50) // 5)
    assert same.low < 0.1 < same.high
    few = clustered([0.01, *np.zeros(49)], np.arange(50) // 5)
    assert few.high - few.low > (none.high - none.low) / 2
    alone = clustered(np.zeros(50), np.zeros(50))
    assert (alone.low, alone.high, alone.method) == (-1, 1, "one cluster")
    nats = clustered([0.5, -3.0, 0.2, 0.1, 0.4, -0.2], [0, 0, 1, 1, 2, 2], reach=5)
    assert -5 <= nats.low < nats.high <= 5


@pytest.mark.parametrize(
    ("differences", "of", "settings", "said"),
    [
        ([], [], {}, "one or more"),
        ([0.0, 1.0], [1], {}, "1 clusters"),
        ([0.0, float("nan")], [1, 2], {}, "nan"),
        ([0.0, -1.5], [1, 2], {}, "reach"),
        ([0.0, 1.0], [1, 2], {"level": 1.0}, "level"),
    ],
)
def test_odd_input_is_taken(differences, of, settings, said):
    with pytest.raises(ValueError, match=said):
        clustered(differences, of, **settings)
