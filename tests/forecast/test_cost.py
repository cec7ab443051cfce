"""Cost curves: what lies between measured points and contexts, ceilings, and drafts that cannot win."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

from specq.forecast import cost
from specq.forecast.cost import Curve, Point


def point(proposed: int, draft_s: float, verify_s: float, rest_s: float = 0.0) -> Point:
    return Point(proposed=proposed, draft_s=draft_s, verify_s=verify_s, rest_s=rest_s, n=9, spread=0.01)


def curve(*points: Point, plain_s: float = 1.0, context: int = 50) -> Curve:
    return Curve(plain=point(0, 0.0, plain_s), points=points, context=context, measured_s=1.0)


def deep(*depths: Curve) -> Curve:
    first = depths[0]
    return Curve(plain=first.plain, points=first.points, context=first.context, measured_s=1.0, depths=depths)


def test_seconds_between_and_beyond_the_measured_points_lie_on_lines() -> None:
    found = curve(point(1, 0.2, 1.0), point(2, 0.4, 1.1), point(4, 0.8, 1.5, 0.1)).parts(6)
    assert found["draft"] == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2])
    assert found["verify"] == pytest.approx([1.0, 1.0, 1.1, 1.3, 1.5, 1.7, 1.9])
    assert found["rest"] == pytest.approx([0.0, 0.0, 0.0, 0.05, 0.1, 0.15, 0.2])


def test_the_ceiling_counts_the_bonus_token_and_the_break_even_is_a_step_in_plain_steps() -> None:
    found = curve(point(4, 0.8, 1.2), plain_s=0.5)
    assert found.ceiling(4) == pytest.approx(5 * 0.5 / 2.0)
    assert found.break_even(4) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ((point(1, 1.1, 1.0), point(4, 4.4, 1.2)), "a drafted token takes 1.10 of a plain step"),
        ((point(1, 0.1, 2.5), point(4, 0.4, 6.0)), "tokens takes"),
        ((point(1, 0.9, 1.2), point(4, 3.8, 1.5)), "drafting takes"),
    ],
)
def test_a_pair_that_even_a_perfect_draft_cannot_save_is_called_hopeless_with_its_cause(
    points: tuple[Point, ...], says: str
) -> None:
    assert says in curve(*points).why_hopeless(4)


def test_a_draft_without_a_kernel_is_called_slow_without_its_cause() -> None:
    slow = curve(point(1, 1.1, 1.0), point(4, 4.4, 1.2))
    assert "kernel" not in slow.why_hopeless(4)
    told = replace(slow, no_kernel="the kernels compute in bfloat16, not float32").why_hopeless(4)
    assert told.endswith("have no kernel here (the kernels compute in bfloat16, not float32)")


def test_a_pair_that_can_win_is_not_called_hopeless() -> None:
    assert curve(point(1, 0.5, 1.1), point(4, 2.0, 1.3)).why_hopeless(4) == ""


def test_a_quantized_target_is_blamed_only_where_flat_passes_would_let_a_perfect_draft_win() -> None:
    steep = curve(point(1, 0.1, 2.5), point(4, 0.4, 6.0))
    both = curve(point(1, 0.9, 1.2), point(4, 3.8, 1.5))
    slow = curve(point(1, 1.1, 1.0), point(4, 4.4, 1.2))
    for one in (steep, both):
        assert "quantized" not in one.why_hopeless(4)
        assert "for the target's weights are quantized" in replace(one, quantized=True).why_hopeless(4)
    assert "quantized" not in replace(slow, quantized=True).why_hopeless(4)


def test_the_grid_ends_with_the_most_that_is_forecast() -> None:
    assert cost.grid(8) == (1, 2, 4, 8)
    assert cost.grid(5) == (1, 2, 4, 5)
    assert cost.grid(1) == (1,)


NEAR = curve(point(1, 0.1, 1.0), point(2, 0.2, 1.6), point(4, 0.4, 2.0), plain_s=1.0, context=100)
FAR = curve(point(1, 0.2, 2.0), point(4, 0.8, 4.0), plain_s=1.5, context=300)


def test_a_step_costs_what_it_does_at_its_own_context_and_no_less_beyond_the_last_one() -> None:
    found = deep(NEAR, FAR)
    parts = found.parts(4, [100, 200, 300, 900, 5])
    assert parts["draft"][:, 4] == pytest.approx([0.4, 0.6, 0.8, 0.8, 0.4])
    assert parts["verify"][:, 1] == pytest.approx([1.0, 1.5, 2.0, 2.0, 1.0])
    # Without proposals a step is a plain one, there as well.
    assert parts["verify"][:, 0] == pytest.approx([1.0, 1.25, 1.5, 1.5, 1.0])
    assert found.plain_s([100, 200, 300, 900, 5]) == pytest.approx([1.0, 1.25, 1.5, 1.5, 1.0])
    assert found.step_s(4, [200])[0, [0, 1, 4]] == pytest.approx([1.25, 1.65, 3.6])


def test_a_jump_between_the_proposals_of_the_first_context_is_kept_at_a_context_of_fewer_points() -> None:
    # 2 proposals cost 0.27 more than the line from 1 to 4; the far context adds 1.0 at 1 and 2.0 at 4 proposals.
    assert deep(NEAR, FAR).parts(4, [300])["verify"][0, 2] == pytest.approx(1.6 + 1.0 + 1 / 3)


def test_one_context_alone_is_taken_for_all() -> None:
    found = deep(NEAR)
    assert found.step_s(4, [7, 700]) == pytest.approx(np.array([found.step_s(4)] * 2))
    assert found.plain_s([7, 700]) == pytest.approx([1.0, 1.0])


def test_the_curve_that_is_told_first_lies_at_its_context_and_is_as_uncertain_as_its_worst_depth() -> None:
    vague = Point(proposed=4, draft_s=0.8, verify_s=4.0, rest_s=0.0, n=3, spread=0.2)
    found = deep(NEAR, curve(point(1, 0.2, 2.0), vague, plain_s=1.5, context=300)).at(200)
    assert (found.context, found.plain.step_s) == (200, pytest.approx(1.25))
    assert [one.proposed for one in found.points] == [1, 2, 4]
    assert found.points[2].step_s == pytest.approx(0.6 + 3.0)
    assert (found.points[2].n, found.points[2].spread) == (3, 0.2)
    assert found.ceiling(4) == pytest.approx(5 * 1.25 / 3.6)
    assert found.depths[1].plain.step_s == 1.5


def test_a_lookup_that_found_nothing_at_a_depth_still_has_seconds_there() -> None:
    silent = curve(point(0, 0.0, 1.5), plain_s=1.5, context=300)
    found = deep(NEAR, silent).step_s(4, [300])[0]
    assert found[4] == pytest.approx(2.4 + 0.5)


def first(own: Curve, copies: Curve) -> Curve:
    return dataclasses.replace(own, copies=copies)


DRAFTED = curve(point(1, 1.2, 1.0), point(4, 4.8, 1.2))


def test_a_copied_step_costs_what_a_drafted_one_does_or_seconds_of_other_minutes() -> None:
    # The machine was half as fast while the lookup was measured.
    copies = curve(point(1, 0.02, 2.0), point(4, 0.04, 2.8), plain_s=2.0)
    found = first(DRAFTED, copies).copied_parts(4)
    assert found["draft"][[1, 4]] == pytest.approx([0.01, 0.02])
    assert found["verify"][[0, 1, 4]] == pytest.approx([1.0, 1.0, 1.4])
    far = curve(point(1, 0.04, 4.0), point(4, 0.08, 5.6), plain_s=3.0, context=300)
    both = deep(NEAR, FAR)
    joined = first(both, deep(dataclasses.replace(copies, context=100), far)).copied_parts(4, [100, 300])
    assert joined["verify"][:, 4] == pytest.approx([2.8 / 2, 5.6 * 1.5 / 3])


def test_a_lookup_that_never_copied_while_it_was_measured_verifies_for_nothing() -> None:
    # Its only points are plain steps; what verifying four tokens takes is known from the draft.
    found = first(DRAFTED, curve(point(0, 0.0, 1.0))).copied_parts(4)
    assert (found["draft"] == 0).all()
    assert found["verify"][4] == pytest.approx(1.2)


def test_a_slow_draft_after_a_lookup_that_can_win_is_called_hopeless() -> None:
    assert DRAFTED.why_hopeless(4)
    found = first(DRAFTED, curve(point(1, 0.0, 1.0), point(4, 0.0, 1.25)))
    assert found.ceiling(4) == pytest.approx(5 / 1.25)
    assert found.why_hopeless(4) == ""
    assert [name for name, _ in cost.named({"d": found, "e": DRAFTED})] == ["d", "d, copied", "e"]


def test_no_step_is_cheaper_than_a_plain_one_at_any_context() -> None:
    near = curve(point(0, 0.05, 0.4), point(1, 0.1, 0.7), point(4, 0.4, 2.0), plain_s=1.0, context=100)
    far = curve(point(1, 0.2, 1.1), point(4, 0.8, 4.0), plain_s=1.5, context=300)
    alone, both = near.parts(4), deep(near, far).parts(4, [100, 200, 300])
    assert alone["verify"][:2] == pytest.approx([1.0, 1.0])
    assert alone["draft"][0] == pytest.approx(0.05)
    assert both["verify"][:, 0] == pytest.approx([1.0, 1.25, 1.5])
    assert (sum(both.values()) >= deep(near, far).plain_s([100, 200, 300])[:, None]).all()
