"""Forecasts against studies whose truth is known, and what few prompts, ties and hopeless drafts make of them."""

from __future__ import annotations

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
