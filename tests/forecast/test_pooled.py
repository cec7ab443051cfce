"""What steps have in common is pooled: no point of a curve stands on a handful of steps of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specq.core.errors import Unsupported
from specq.core.types import DraftSpec, Step
from specq.forecast import pooled
from specq.forecast.cost import Point, relative_error

PASSES = {
    size: Point(proposed=size, draft_s=0.1, verify_s=1 + 0.05 * size, rest_s=0.01, n=9, spread=0.02)
    for size in (1, 2, 4, 8)
}


def steps(size: int, count: int, *, slow: float = 1.0, verify: float = 1.0, token: float = 0.5) -> list[Step]:
    """Steps of `size` proposals, in plain steps."""
    one = Step(
        context=20,
        proposed=size,
        accepted=0,
        emitted=1,
        draft_s=slow * size * token,
        verify_s=slow * verify * (1 + 0.05 * size),
        sample_s=slow * 0.02,
        rest_s=slow * 0.02,
    )
    return [one] * count


def by_size(found: tuple[Point, ...]) -> dict[int, Point]:
    return {one.proposed: one for one in found}


def test_a_burst_that_hits_all_steps_of_one_k_does_not_move_its_point() -> None:
    seen = [steps(1, 5), steps(2, 5), steps(4, 3, slow=2.0), steps(8, 2)]
    four = by_size(pooled.points(seen, PASSES, ()))[4]
    assert (four.draft_s, four.verify_s) == (pytest.approx(4 * 0.5), pytest.approx(1.2))
    # Each point on its own steps alone believes the burst.
    assert by_size(pooled.points(seen, {}, (1, 2, 4, 8)))[4].draft_s == pytest.approx(4.0)


def texts(*factors: float, around: float = 1.0) -> list[tuple[list[Step], float, dict[int, Point]]]:
    """A text for each factor, in the seconds of a machine whose plain step takes `around`."""
    return [(steps(2, 5, slow=around, verify=one), around, PASSES) for one in factors]


def test_a_draft_whose_weights_slow_the_targets_pass_keeps_its_factor() -> None:
    seen = texts(*[1.19, 1.2, 1.21] * 4, around=0.04)
    assert pooled.factor(seen) == pytest.approx(1.2, abs=0.002)
    found = by_size(pooled.points([steps(1, 5), steps(8, 2)], PASSES, (), slower=1.2))
    assert {size: one.verify_s for size, one in found.items()} == {
        size: pytest.approx(1.2 * one.verify_s) for size, one in PASSES.items()
    }


def test_a_factor_that_differs_from_text_to_text_is_drawn_towards_one() -> None:
    assert pooled.factor(texts(0.7, 1.25, 0.85, 0.86)) == pytest.approx(1.0, abs=0.05)
    assert pooled.factor(texts(0.85, 0.85, 0.86)) == 1.0  # Three texts say too little.
    # Many texts settle what few do not.
    assert pooled.factor(texts(*[0.7, 1.0, 0.85, 0.86] * 30)) == pytest.approx(0.855, abs=0.01)
    assert pooled.factor(texts(1.0, 1.0, 1.0, 1.0)) == 1.0


def test_a_lookup_that_seldom_finds_a_place_has_a_point_at_every_k() -> None:
    found = by_size(pooled.points([steps(0, 11), steps(8, 1, verify=3.0, token=0.0)], PASSES, ()))
    assert sorted(found) == [0, 1, 2, 4, 8]
    # One step says too little of how far its steps lie from the curve; the uncertainty is that of the passes.
    assert found[8].verify_s == pytest.approx(1.4)
    assert (found[8].draft_s, found[8].n, found[8].spread) == (0.0, 9, 0.02)


def test_a_draft_that_never_proposed_drafts_for_nothing_rather_than_breaking() -> None:
    found = by_size(pooled.points([steps(0, 4)], PASSES, ()))
    assert (found[2].draft_s, found[2].rest_s) == (0.0, 0.01)


def test_the_spread_is_that_of_the_steps_around_the_pooled_curve() -> None:
    seen = [steps(1, 3, slow=0.9), steps(1, 3), steps(2, 3, slow=1.1)]
    one = by_size(pooled.points(seen, PASSES, ()))[1]
    assert (one.n, one.spread) == (3, pytest.approx(0.1, abs=0.02))


def test_steps_of_one_text_are_counted_as_if_they_told_of_as_many_moments() -> None:
    """Texts that are off by 5 % each, all steps of one alike: the error said is that of texts, in 300 studies."""
    rng = np.random.default_rng(3)
    off, said = [], []
    for _ in range(300):
        factors = np.exp(rng.normal(0, 0.05, 12))
        one = by_size(pooled.points([steps(4, 5, slow=by) for by in factors], {}, (4,)))[4]
        off.append(np.log(one.step_s / (0.5 * 4 + 1.2 + 0.04)))
        # The plain steps, which are as unsure, are exact here.
        said.append(relative_error([one]) / np.sqrt(2))
    assert one.n == 12
    assert 0.8 < np.median(said) / np.std(off) < 1.25


def test_texts_count_in_the_plain_steps_around_them() -> None:
    ((fast,),), ((slow,),) = (pooled.scaled([(steps(1, 1, slow=by), by)], 0.04) for by in (1.0, 3.0))
    assert fast.draft_s == pytest.approx(0.02)
    assert (slow.draft_s, slow.verify_s) == (pytest.approx(fast.draft_s), pytest.approx(fast.verify_s))


def test_a_target_whose_first_layer_does_not_run_alone_is_told_and_measured_with_each_draft() -> None:
    class Target:
        def __init__(self, error: Exception | None) -> None:
            self.error = error

        def decoder(self, draft: DraftSpec) -> None:
            if self.error is not None:
                raise self.error

    told: list[str] = []
    sound: Any = Target(None)
    other: Any = Target(Unsupported("shared keys"))
    assert pooled.prober(sound, told.append) == DraftSpec(method="early_exit", layers=1, k=1)
    assert told == []
    assert pooled.prober(other, told.append) is None
    assert "shared keys" in told[0]
