"""Intervals of paired shares, against another package's figures and against the law itself, by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from specq.stats.floor import against_floor
from specq.stats.paired import bonett_price, bonett_price_many, mcnemar, mcnemar_mid_p, tango, tango_many, wilson

# evalstats 0.3.3: tango_scc_paired_ci(c=0) and bonett_price_paired_ci, 95 %, lever less baseline.
KNOWN = [
    ((0, 1, 44), (-0.059393231, 0.118077097), (-0.051792065, 0.095270326)),
    ((0, 0, 50), (-0.071347599, 0.071347599), (-0.053303993, 0.053303993)),
    ((12, 2, 50), (-0.344708748, -0.061112406), (-0.333723714, -0.05089167)),
    ((3, 9, 200), (-0.004614126, 0.070509535), (-0.006369737, 0.065775678)),
    ((0, 0, 1000), (-0.003826758, 0.003826758), (-0.002766275, 0.002766275)),
    ((20, 20, 400), (-0.032135102, 0.032135102), (-0.031597061, 0.031597061)),
    ((7, 0, 60), (-0.22178788, -0.049474765), (-0.203480542, -0.02232591)),
    ((1, 30, 100), (0.201706793, 0.388082598), (0.188709184, 0.379918267)),
]


@pytest.mark.parametrize(("counts", "score", "closed"), KNOWN)
def test_another_package_finds_another_interval(counts, score, closed):
    for found, known in ((tango(*counts), score), (bonett_price(*counts), closed)):
        assert (found.low, found.high) == pytest.approx(known, abs=1e-6)
        assert found.value == (counts[1] - counts[0]) / counts[2]


def test_the_correction_is_another():
    """As above, with its correction of 1/8."""
    for counts, low, high in (((3, 9, 200), -0.005354725, 0.071268592), ((0, 0, 50), -0.075914406, 0.075914406)):
        found = tango(*counts, correction=0.125)
        assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [(0, 10, 0.0, 0.2775328), (7, 20, 0.181191824, 0.567145723), (50, 50, 0.928652401, 1.0)],
)
def test_a_single_share_has_another_interval(right, n, low, high):
    found = wilson(right, n)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)


def test_mcnemar_divides_by_zero_or_forgets_a_side():
    assert (mcnemar(0, 0), mcnemar_mid_p(0, 0), mcnemar_mid_p(4, 4)) == (1.0, 1.0, 1.0)
    # Two of twelve: 2 x P(at most 2 of 12) by hand, (1 + 12 + 66) / 4096 x 2.
    assert mcnemar(10, 2) == mcnemar(2, 10) == pytest.approx(158 / 4096)
    assert mcnemar_mid_p(10, 2) == pytest.approx((158 - 66) / 4096)
    assert mcnemar(1, 1) == 1.0


def law(n: int, worse: float, better: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All counts (b, c) with their probabilities, less what is rarer than one in 1e9."""
    flips = np.arange(n + 1)
    of_flips = binom.pmf(flips, n, worse + better)
    likely = flips[of_flips > 1e-9]
    parts = [(np.arange(k + 1), np.full(k + 1, k)) for k in likely]
    b, k = (np.concatenate(part) for part in zip(*parts, strict=True))
    weight = of_flips[k] * binom.pmf(b, k, worse / (worse + better))
    return b, k - b, weight


CELLS = list(itertools.product([50, 100, 200, 500, 1000], [0.01, 0.02, 0.05, 0.1, 0.2], [0.5, 0.7, 0.9]))


@pytest.mark.parametrize("n", sorted({n for n, *_ in CELLS}))
def test_the_interval_misses_too_often_or_is_too_wide(n):
    """Exact coverage, cell by cell: no simulation that could be lucky."""
    for _, flips, side in [cell for cell in CELLS if cell[0] == n]:
        b, c, weight = law(n, flips * side, flips * (1 - side))
        low, high = bonett_price_many(b, c, n)
        true = flips * (1 - 2 * side)
        covered = weight[(low <= true) & (true <= high)].sum()
        assert covered >= 0.935, (n, flips, side, covered)
        if n * flips >= 20:
            assert covered <= 0.965, (n, flips, side, covered)


def test_tango_would_do_as_well():
    """Why it is not the interval that decides."""
    b, c, weight = law(500, 0.009, 0.001)
    low, high = tango_many(b, c, 500)
    assert weight[(low <= -0.008) & (high >= -0.008)].sum() < 0.935


def test_the_check_of_coverage_lets_a_wald_interval_pass():
    b, c, weight = law(50, 0.018, 0.002)
    centre, half = (c - b) / 50, 1.96 * np.sqrt(np.maximum((b + c) / 50 - ((c - b) / 50) ** 2, 0) / 50)
    covered = weight[(centre - half <= -0.016) & (centre + half >= -0.016)].sum()
    assert covered < 0.7


@pytest.mark.parametrize("n", [50, 100, 200, 300, 400, 1000])
def test_a_lever_at_the_margin_is_kept_or_rejected_too_often(n):
    for margin, more in itertools.product((0.005, 0.01, 0.02, 0.03, 0.05, 0.1), (1e-9, 0.01, 0.05, 0.1, 0.2)):
        b, c, weight = law(n, margin + more / 2, more / 2)
        kept = weight[tango_many(b, c, n, 0.9, 0.125)[0] > -margin].sum()
        rejected = weight[bonett_price_many(b, c, n, 0.9)[1] < -margin].sum()
        assert kept <= 0.053, (n, margin, more, kept)
        assert rejected <= 0.05, (n, margin, more, rejected)


def test_the_bounds_of_a_floor_are_others_than_those_that_were_checked():
    for b, c, n in ((3, 1, 200), (0, 0, 50), (9, 9, 400)):
        held = against_floor(b, c, n, 0.02).bounds
        assert held.low == tango(b, c, n, 0.9, 0.125).low
        assert held.high == bonett_price(b, c, n, 0.9).high


def test_a_floor_is_ignored_or_turned_around():
    kept, lost, open_ = against_floor(2, 3, 400, 0.02), against_floor(60, 5, 400, 0.02), against_floor(9, 5, 400, 0.02)
    assert (kept.outcome, lost.outcome, open_.outcome) == ("keep", "reject", "undecided")
    assert against_floor(5, 60, 400, 0.02).outcome == "keep"
    assert kept.more_items is lost.more_items is None
    assert open_.more_items == pytest.approx(6.183 * (14.5 / 400) / 0.02**2 - 400, abs=2)
    assert against_floor(30, 20, 400, 0.02).more_items is None  # what was seen breaches the margin
    assert against_floor(60, 5, 400, 0.5).outcome == "keep"


def test_equal_outputs_prove_everything():
    few, many = against_floor(0, 0, 20, 0.02), against_floor(0, 0, 400, 0.02)
    assert (few.outcome, many.outcome) == ("undecided", "keep")
    assert few.bounds.value == many.bounds.value == 0
    assert few.bounds.high - few.bounds.low > many.bounds.high - many.bounds.low > 0
    assert few.more_items is not None
    assert few.more_items > 0


@pytest.mark.parametrize("call", [tango, bonett_price])
@pytest.mark.parametrize("counts", [(0, 0, 0), (-1, 0, 5), (3, 3, 5)])
def test_counts_that_do_not_fit_are_taken(call, counts):
    with pytest.raises(ValueError, match="allowed"):
        call(*counts)
    with pytest.raises(ValueError, match="allowed"):
        against_floor(*counts, margin=0.02)


def test_odd_settings_are_taken():
    with pytest.raises(ValueError, match="margin"):
        against_floor(1, 1, 10, 1.5)
    with pytest.raises(ValueError, match="level"):
        tango(1, 1, 10, level=1.0)
    with pytest.raises(ValueError, match="of 3 items"):
        wilson(4, 3)
