import math

import numpy as np
import pytest
from scipy.stats import fisher_exact

from specq.stats.counts import fisher_more, g_test, holm, tv_upper


@pytest.mark.parametrize(("a", "n", "b", "m"), [(8, 100, 1, 100), (0, 10, 5, 10), (3, 50, 3, 50), (0, 5, 0, 5)])
def test_fisher_more_is_the_one_sided_exact_test(a: int, n: int, b: int, m: int) -> None:
    assert fisher_more(a, n, b, m) == pytest.approx(
        fisher_exact([[a, n - a], [b, m - b]], alternative="greater").pvalue
    )


def test_fisher_more_refuses_impossible_counts() -> None:
    with pytest.raises(ValueError, match="up to the total"):
        fisher_more(3, 2, 0, 1)


def test_g_test_is_uniform_under_the_law_and_tiny_off_it() -> None:
    rng = np.random.default_rng(0)
    law = [0.5, 0.3, 0.2]
    p_values = [g_test(rng.multinomial(500, law), law) for _ in range(400)]
    assert 0.02 <= np.mean(np.asarray(p_values) < 0.05) <= 0.09
    assert g_test(rng.multinomial(5000, [0.45, 0.35, 0.2]), law) < 1e-4


def test_a_draw_that_cannot_happen_fails_at_once() -> None:
    assert g_test([99, 1], [1.0, 0.0]) == 0.0
    assert g_test([100, 0], [1.0, 0.0]) == 1.0


def test_tv_bound_holds_at_its_level() -> None:
    rng = np.random.default_rng(1)
    law, drawn = [0.5, 0.3, 0.2], [0.4, 0.3, 0.3]
    bounds = [tv_upper(rng.multinomial(200, drawn), law) for _ in range(400)]
    assert np.mean(np.asarray(bounds) >= 0.1) >= 0.95
    assert tv_upper([100, 0], [1.0, 0.0]) == pytest.approx(math.sqrt(math.log(20) / 200))
    assert tv_upper([1], [1.0]) == 1.0


def test_holm_steps_down_and_keeps_the_order() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]
