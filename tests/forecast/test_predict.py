"""Forecasts against studies whose truth is known, and what few prompts, ties and hopeless drafts make of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from specq.core.types import EXACT_RULES
from specq.forecast import predict
from specq.forecast.cost import Curve, Point
from specq.forecast.predict import Cell
from specq.forecast.replay import Copied, Traced


def point(proposed: int, step_s: float, *, spread: float = 0.0, n: int = 20) -> Point:
    return Point(proposed=proposed, draft_s=0.0, verify_s=step_s, rest_s=0.0, n=n, spread=spread)


def curve(step_s: float, *, plain_s: float = 1.0, spread: float = 0.0) -> Curve:
    """Steps that take `step_s` whatever they propose."""
    points = tuple(point(k, step_s, spread=spread) for k in (1, 8))
    return Curve(plain=point(0, plain_s, spread=spread), points=points, context=10, measured_s=1.0)


def text(hits: np.ndarray) -> Traced:
    """A greedy text: each token is the draft's or it is not."""
    return Traced(p=np.ones(len(hits)), q=hits, hit=hits)


def test_a_perfect_draft_reaches_its_ceiling_and_a_useless_one_pays_for_each_step() -> None:
    texts = {"right": [text(np.ones(37))] * 4, "wrong": [text(np.zeros(37))] * 4}
    curves = {"right": curve(1.2), "wrong": curve(1.2)}
    found = predict.rank(texts, curves, ks=(1, 3), rules=("rejection",))
    best = found.of(Cell(draft="right", k=3, rule="rejection"))
    assert best.speedup == pytest.approx(4 / 1.2)
    assert best.speedup == pytest.approx(curves["right"].ceiling(3))
    assert best.tokens_per_step == pytest.approx(4.0)
    worst = found.of(Cell(draft="wrong", k=3, rule="rejection"))
    # The last step proposes nothing, and a step without proposals costs a plain one.
    assert worst.speedup == pytest.approx(36 / (35 * 1.2 + 1))
    assert (worst.slower_prompts, worst.p_faster, best.slower_prompts, best.p_faster) == (1.0, 0.0, 0.0, 1.0)
    assert found.best == best
    assert worst.regret > 2
    assert best.regret == 0


def test_no_draft_is_the_best_where_none_is_faster_and_that_is_its_regret() -> None:
    found = predict.rank({"d": [text(np.zeros(9))] * 3}, {"d": curve(2.0)}, ks=(1, 2), rules=("rejection",))
    assert found.best is None
    assert found.forecasts[0].regret == pytest.approx(1 / found.forecasts[0].speedup - 1)


def test_equally_fast_cells_put_the_rule_that_was_asked_and_the_shortest_proposal_first() -> None:
    copied = Copied(matched=np.zeros(9, dtype=int), proposed=np.zeros(9, dtype=int))
    found = predict.rank({"d": [copied] * 3}, {"d": curve(1.0)}, ks=(1, 2), asked={"d": "greedy_draft"})
    assert found.forecasts[0].cell == Cell(draft="d", k=1, rule="greedy_draft")


def test_one_prompt_gets_no_interval_and_no_probability() -> None:
    one = predict.rank({"d": [text(np.ones(9))]}, {"d": curve(1.0)}, ks=(2,), rules=("match",)).forecasts[0]
    assert (one.low, one.high) == (None, None)
    assert np.isnan(one.p_faster)


def test_texts_of_one_token_are_refused_rather_than_divided_by() -> None:
    with pytest.raises(ValueError, match="after its first"):
        predict.rank({"d": [text(np.ones(1))]}, {"d": curve(1.0)})


def test_more_prompts_are_asked_for_while_the_best_two_are_not_apart() -> None:
    rng = np.random.default_rng(4)
    hits = [(rng.random(33) < 0.6).astype(float) for _ in range(8)]
    other = [(rng.random(33) < 0.6).astype(float) for _ in range(8)]
    found = predict.rank(
        {"a": [text(one) for one in hits], "b": [text(one) for one in other]},
        {"a": curve(1.0), "b": curve(1.0)},
        ks=(4,),
        rules=("rejection",),
    )
    assert found.near is not None
    assert found.near > 0
    apart = predict.rank(
        {"a": [text(np.ones(33))] * 4 + [text(hits[0])] * 4, "b": [text(np.zeros(33))] * 8},
        {"a": curve(1.0), "b": curve(1.0)},
        ks=(4,),
        rules=("rejection",),
    )
    assert apart.near is None


def steps_taken(rng: np.random.Generator, share: np.ndarray, k: int) -> int:
    """A live greedy run: proposals are right with the text's own chance, position by position."""
    t, steps = 1, 0
    while t < len(share):
        n = 0
        while n < min(k, len(share) - t - 1) and rng.random() < share[t + n]:
            n += 1
        t, steps = t + n + 1, steps + 1
    return steps


def test_intervals_cover_what_a_live_run_on_fresh_texts_measures() -> None:
    """100 studies: prompts differ in how predictable they are, the live run writes other texts and is noisy."""
    rng = np.random.default_rng(11)
    covered, total, k = 0, 49, 4
    for _ in range(100):
        prompts = int(rng.integers(6, 25))
        ease = rng.beta(4, 2, prompts)
        texts = [text((rng.random(total) < one).astype(float)) for one in ease]
        measured = curve(1.6 * float(np.exp(rng.normal(0, 0.01))), spread=0.04)
        found = predict.rank({"d": texts}, {"d": measured}, ks=(k,), rules=("rejection",), resamples=400)
        steps = sum(steps_taken(rng, np.full(total, one), k) for one in ease)
        live = prompts * (total - 1) / (1.6 * steps * float(np.exp(rng.normal(0, 0.01))))
        one = found.forecasts[0]
        assert one.low is not None
        assert one.high is not None
        covered += one.low <= live <= one.high
    assert covered >= 90


def test_intervals_are_not_so_wide_that_they_say_nothing() -> None:
    rng = np.random.default_rng(12)
    texts = [text((rng.random(65) < 0.7).astype(float)) for _ in range(24)]
    one = predict.rank({"d": texts}, {"d": curve(1.6)}, ks=(4,), rules=("rejection",)).forecasts[0]
    assert one.low is not None
    assert one.high is not None
    assert one.high / one.low < 1.35


def test_every_rule_has_its_own_forecast_and_block_is_never_behind_rejection() -> None:
    rng = np.random.default_rng(3)
    texts = [Traced(p=rng.uniform(0.2, 1, 40), q=rng.uniform(0, 1, 40), hit=np.ones(40)) for _ in range(5)]
    found = predict.rank({"d": texts}, {"d": curve(1.5)}, ks=(3,))
    speeds = {one.cell.rule: one.speedup for one in found.forecasts}
    assert set(speeds) == set(EXACT_RULES)
    assert len({round(speed, 6) for speed in speeds.values()}) == 4
    assert speeds["block"] >= speeds["rejection"]


def deep(near: Curve, far: Curve) -> Curve:
    """Measured after 0 and after 100 tokens."""
    depths = (dataclasses.replace(near, context=0), dataclasses.replace(far, context=100))
    return dataclasses.replace(near, depths=depths)


def test_a_draft_that_loses_at_long_contexts_is_priced_where_its_prompts_are() -> None:
    texts, curves = {"d": [text(np.ones(9))] * 6}, {"d": deep(curve(1.0), curve(9.0, plain_s=3.0))}
    speeds = [
        predict.rank(texts, curves, ks=(3,), rules=("match",), prompt_tokens=[tokens] * 6).forecasts[0].speedup
        for tokens in (0, 46, 1000)
    ]
    # Steps start at tokens 1 and 5; at 0 nothing is before them, at 1000 all is as after 100.
    grown = [(1.0 + 8.0 * t / 100, 1.0 + 2.0 * t / 100) for t in range(1000)]
    short = sum(grown[t][1] for t in range(1, 9)) / (grown[1][0] + grown[5][0])
    middle = sum(grown[46 + t][1] for t in range(1, 9)) / (grown[47][0] + grown[51][0])
    assert speeds == [pytest.approx(short), pytest.approx(middle), pytest.approx(4 * 3.0 / 9.0)]
    assert speeds[0] > speeds[1] > speeds[2]


def test_plain_tokens_a_second_are_those_of_plain_decoding_at_the_prompts_contexts() -> None:
    texts, curves = {"d": [text(np.ones(9))] * 3}, {"d": deep(curve(1.0), curve(5.0, plain_s=4.0))}
    found = predict.rank(texts, curves, ks=(3,), rules=("match",), prompt_tokens=[200] * 3)
    assert found.plain_tokens_per_s == pytest.approx(1 / 4.0)
    assert found.forecasts[0].tokens_per_s == pytest.approx(8 / (2 * 5.0))
    assert predict.rank(texts, curves, ks=(3,), rules=("match",)).plain_tokens_per_s == pytest.approx(1.0)


def test_a_draft_that_never_proposes_slows_no_prompt_down_whatever_its_sums_are_rounded_to() -> None:
    silent = [Copied(matched=np.zeros(total, dtype=int), proposed=np.zeros(total, dtype=int)) for total in range(5, 64)]
    own = Curve(plain=point(0, 0.1), points=(point(0, 0.1), point(8, 0.3)), context=9, measured_s=1.0)
    one = predict.rank({"d": silent}, {"d": own}, ks=(8,), rules=("match",)).forecasts[0]
    assert (one.slower_prompts, one.speedup) == (0.0, pytest.approx(1.0))


def test_answers_of_one_token_leave_no_hole_in_the_intervals_of_the_others() -> None:
    texts = [text(np.ones(9)), text(np.ones(7)), *[text(np.ones(1))] * 9]
    one = predict.rank({"d": texts}, {"d": curve(1.5)}, ks=(3,), rules=("match",)).forecasts[0]
    assert one.low is not None
    assert 0 < one.low < one.speedup
    # Two texts, although both are faster: the probability is as unsure as the interval.
    assert one.low < 1
    assert 0.5 < one.p_faster < 1
    assert one.slower_prompts == 0.0
    alone = predict.rank({"d": [text(np.ones(9)), *texts[2:]]}, {"d": curve(1.5)}, ks=(3,), rules=("match",)).forecasts[
        0
    ]
    assert (alone.low, alone.high) == (None, None)
    assert np.isnan(alone.p_faster)


def test_a_copied_step_is_paid_as_a_drafted_one_or_the_other_way_round() -> None:
    # Every second start is copied whole; a drafted step takes 3 plain steps, a copied one a half more than one.
    total, k = 21, 3
    proposed = np.where(np.arange(total) % 2 == 1, 32, 0)
    copied = Copied(matched=np.where(proposed > 0, 1, 0), proposed=proposed, elsewhere=text(np.zeros(total)))
    both = dataclasses.replace(curve(3.0), copies=curve(1.5))
    found = predict.rank({"d": [copied] * 3}, {"d": both}, ks=(k,), rules=("rejection",)).forecasts[0]
    # From token 1 on each step copies one right token and emits two, so that each begins at an odd token. The last
    # proposes nothing more than the text has left: one plain step.
    assert found.tokens_per_step == pytest.approx(2.0)
    assert found.speedup == pytest.approx((total - 1) / (10 * 1.5))
    shifted = dataclasses.replace(copied, proposed=np.roll(proposed, 1), matched=np.roll(copied.matched, 1))
    slow = predict.rank({"d": [shifted] * 3}, {"d": both}, ks=(k,), rules=("rejection",)).forecasts[0]
    # Drafted at token 1, where nothing is right; from token 2 on copied.
    assert slow.speedup < found.speedup
    parts = predict.step_parts(copied, both, k, 7)
    assert parts["verify"][:, k].tolist() == [3.0, 1.5] * 10 + [3.0]


def test_a_lookup_that_is_never_right_is_no_faster_than_plain_whatever_its_misses_were_measured_at() -> None:
    # Misses came out at half a plain step, with a wide spread; copies are proposed at every fourth start, all wrong.
    total = 40
    proposed = np.where(np.arange(total) % 4 == 0, 8, 0)
    never = Copied(matched=np.zeros(total, dtype=int), proposed=proposed)
    idle = Point(proposed=0, draft_s=0.01, verify_s=0.5, rest_s=0.0, n=3, spread=0.4)
    noisy = Curve(plain=point(0, 1.0), points=(idle, point(1, 1.1), point(8, 1.3)), context=9, measured_s=1.0)
    found = predict.rank({"d": [never] * 6}, {"d": noisy}, ks=(1, 4, 8), rules=("rejection",))
    assert found.best is None
    for one in found.forecasts:
        assert one.tokens_per_step == 1.0
        assert one.speedup < 1
    # The spread of the misses counts as well.
    calm = dataclasses.replace(noisy, points=noisy.points[1:])
    assert predict.curve_error(noisy) > predict.curve_error(calm) == 0


@pytest.mark.parametrize("k", [1, 4, 8])
def test_no_speed_up_nor_its_interval_is_above_what_is_possible(k: int) -> None:
    # Three texts of which one is all wrong: Student's t makes the interval several times as wide as the resamples.
    texts = [text(np.ones(33)), text(np.ones(33)), text(np.zeros(33))]
    own = Curve(plain=point(0, 1.0), points=(point(1, 1.2), point(8, 1.6)), context=9, measured_s=1.0)
    one = predict.rank({"d": texts}, {"d": own}, ks=(k,), rules=("match",)).forecasts[0]
    assert one.low is not None
    assert one.high is not None
    assert 1 / own.break_even(k) - 1e-9 <= one.low < one.speedup < one.high <= own.ceiling(k) + 1e-9
    # The probability is that of the interval: with one text of three against it, nothing is sure.
    assert (one.p_faster < 0.98) == (one.low < 1)


def test_limits_are_the_dearest_step_all_wrong_and_the_best_step_all_right() -> None:
    seconds = np.array([[1.0, 1.5, 4.0], [2.0, 2.0, 8.0]])
    found = predict.limits([(seconds, np.array([1.0, 2.0]))], error=0.0)
    assert found[0].tolist() == [1.0, 1.0]
    assert found[1].tolist() == [pytest.approx(1 / 1.5), pytest.approx(2.0)]
    # Two proposals lose even when right; a step may propose fewer.
    assert found[2].tolist() == [pytest.approx(0.25), pytest.approx(2.0)]


def test_passes_that_were_measured_once_part_drafts_that_are_off_by_them_together() -> None:
    """Two drafts alike: the target's passes blur the speed-up of each, and not which of them is faster."""
    rng = np.random.default_rng(5)
    texts = [text((rng.random(33) < 0.6).astype(float)) for _ in range(12)]
    found = []
    for own in (curve(1.6), dataclasses.replace(curve(1.6), passes_error=0.1), curve(1.6, spread=0.2)):
        ranked = predict.rank({"a": texts, "b": texts}, {"a": own, "b": own}, ks=(4,), rules=("rejection",))
        found.append(ranked.of(Cell(draft="a", k=4, rule="rejection")))
    ends = [(one.low or 0.0, one.high or 0.0) for one in found]
    for low, high in ends[1:]:
        assert 0 < low < ends[0][0] < ends[0][1] < high
    # Only what each curve is off by itself may make the other draft the better one.
    assert found[0].regret == found[1].regret == 0
    assert found[2].regret > 0.01


def test_a_pass_counts_as_much_as_it_has_of_a_step() -> None:
    half = [dataclasses.replace(one, draft_s=one.verify_s) for one in curve(1.0).points]
    own = dataclasses.replace(curve(1.0), points=tuple(half), passes_error=0.06)
    assert predict.curve_error(own) == pytest.approx(0.03)
