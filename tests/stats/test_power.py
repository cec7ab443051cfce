"""What so many items can prove: a table, and the law itself."""

from __future__ import annotations

import numpy as np
import pytest

from specq.stats.paired import bonett_price_many
from specq.stats.power import items_needed, provable_margin

# Items for a margin of 1, 2, 3, 5 and 10 points, by flip rate: 6.183 d / m^2, rounded up.
TABLE = {0.02: (1237, 310, 138, 50, 13), 0.05: (3092, 773, 344, 124, 31), 0.1: (6183, 1546, 687, 248, 62)}


@pytest.mark.parametrize("flips", TABLE)
def test_the_table_of_items_differs(flips):
    for margin, items in zip((0.01, 0.02, 0.03, 0.05, 0.1), TABLE[flips], strict=True):
        assert items_needed(margin, flips) == pytest.approx(items, abs=1)
        assert provable_margin(items, flips) == pytest.approx(margin, rel=0.03)


def test_the_power_that_is_promised_is_not_there():
    """At the margin that 500 items prove, a lever that costs nothing is kept about 80 times in 100."""
    draws = np.random.default_rng(1).multinomial(500, [0.025, 0.025, 0.95], size=4000)
    low, _ = bonett_price_many(draws[:, 0], draws[:, 1], 500, 0.9)
    kept = (low > -provable_margin(500, 0.05)).mean()
    assert 0.75 < kept < 0.85


def test_odd_settings_are_taken():
    for call in (lambda: items_needed(0, 0.1), lambda: items_needed(0.1, 1.1), lambda: provable_margin(0, 0.1)):
        with pytest.raises(ValueError, match="allowed"):
            call()
    assert items_needed(0.5, 0.0) == 1
