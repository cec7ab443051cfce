"""Texts that end by themselves: what their last steps propose past the end costs, and is counted as life counts it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiny_models as tiny
from specq.core.types import EXACT_RULES, DraftSpec, Generation, Rule, Sampling
from specq.forecast import between, predict, replay, written
from specq.forecast.between import Between
from specq.forecast.cost import Curve, Point
from specq.forecast.predict import Cell
from specq.forecast.replay import Copied, Traced

PROMPTS = [tiny.prompt(f"{c}{c}ab {i} ab {i} {c}", id=c) for i, c in enumerate("bcdefg")]
DRAFTS = {
    "lookup": DraftSpec(method="lookup", k=4, rule="greedy_draft"),
    "early": DraftSpec(method="early_exit", layers=2, k=4),
    "self8": DraftSpec(method="model", model="self", bits=8, k=4),
    "early_lookup": DraftSpec(method="early_exit", layers=2, k=4, lookup_first=True, max_ngram=4, min_ngram=2),
}
GREEDY = Sampling(max_new_tokens=40)
WARM = dataclasses.replace(GREEDY, temperature=0.7, seed=5)


def stopped(target: Any, sampling: Sampling) -> Sampling:
    """The same, with a stop that ends plain texts of these prompts long before their limit."""
    one = target.decoder(None).generate(PROMPTS[:1], sampling)[0]
    return dataclasses.replace(sampling, stop=(one.text[len(one.text) // 3],))


def proposed(live: list[Generation], price: np.ndarray) -> list[float]:
    return [float(sum(price[step.proposed] for step in one.steps)) for one in live]


@pytest.mark.parametrize("name", DRAFTS)
def test_the_last_steps_of_a_text_that_ends_by_itself_propose_less_than_they_do_in_life(
    target_of: Callable[..., Any], name: str
) -> None:
    target = target_of("llama")
    sampling, row = stopped(target, GREEDY), EXACT_RULES.index(DRAFTS[name].rule)
    cut = 0
    for k in (1, 3, 8):
        live = target.decoder(dataclasses.replace(DRAFTS[name], k=k)).generate(PROMPTS, sampling)
        assert {one.finish for one in live} & {"stop", "eos"}
        texts = written.read(target, {name: DRAFTS[name]}, PROMPTS, live, sampling)[name]
        at = (slice(None), row, k - 1)
        assert replay.steps(texts, k).mean[at].tolist() == [len(one.steps) for one in live]
        # The proposals themselves, and a price that tells one wide step from two narrow ones.
        for price in (np.arange(k + 1.0), (1 + np.arange(k + 1.0)) ** 2):
            assert replay.summed(texts, price).mean[at].tolist() == proposed(live, price)
        short = [dataclasses.replace(one, room=0, **elsewhere(one)) for one in texts]
        cut += sum(replay.summed(short, np.arange(k + 1.0)).mean[at]) < sum(proposed(live, np.arange(k + 1.0)))
    assert cut


def elsewhere(one: Traced | Copied) -> dict[str, Any]:
    if isinstance(one, Traced) or one.elsewhere is None:
        return {}
    return {"elsewhere": dataclasses.replace(one.elsewhere, room=0)}


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_sampled_texts_that_end_by_themselves_propose_what_is_expected_of_them(
    target_of: Callable[..., Any], rule: Rule
) -> None:
    target, early = target_of("llama"), dataclasses.replace(DRAFTS["early"], rule=rule, k=5)
    sampling = stopped(target, WARM)
    live = target.decoder(early).generate(PROMPTS, sampling)
    assert {one.finish for one in live} & {"stop", "eos"}
    texts = written.read(target, {"early": early}, PROMPTS, live, sampling)["early"]
    price, at = np.arange(6.0), (slice(None), EXACT_RULES.index(rule), 4)
    found = replay.summed(texts, price)
    off = sum(proposed(live, price)) - found.mean[at].sum()
    assert abs(off) < 3 * np.sqrt(found.variance[at].sum()) + 1e-6


@pytest.mark.parametrize(("room", "seconds"), [(0, 1.0), (1, 10.0), (2, 100.0), (9, 1000.0)])
def test_a_step_proposes_as_many_tokens_as_the_limit_leaves(room: int, seconds: float) -> None:
    # A perfect draft of 3 on 6 tokens: the first step emits 4, the second begins with one token left.
    one = Traced(p=np.full(6, 0.5), q=np.full(6, 0.5), hit=np.ones(6), room=room)
    cost = np.array([1.0, 10.0, 100.0, 1000.0])
    found = replay.summed([one, dataclasses.replace(one, room=0)], cost).mean[:, 0, 2]
    assert found.tolist() == [1000.0 + seconds, 1001.0]
    assert replay.steps([one], 3).mean[0, 0, 2] == 2
    starts = replay.starts(one, "rejection", 3)
    assert (starts.chance * starts.proposed).sum() == 3 + min(3, room)
    assert (starts.chance * starts.emitted).sum() == pytest.approx(5)


def test_a_lookup_proposes_past_the_end_no_more_than_it_would() -> None:
    # From token 1 on 2 are copied and right; the step at token 4, with one token left, would copy 2 again.
    proposed, matched = np.array([0, 2, 2, 2, 2]), np.array([0, 2, 2, 1, 0])
    one = Copied(matched=matched, proposed=proposed, room=9)
    assert replay.summed([one], np.arange(9.0)).mean[0, :, 7].tolist() == [4.0] * 4


def test_a_room_below_nothing_is_taken() -> None:
    with pytest.raises(ValueError, match="room = -1"):
        Traced(p=np.ones(2), q=np.ones(2), hit=np.ones(2), room=-1)
    with pytest.raises(ValueError, match="room = -1"):
        Copied(matched=np.zeros(2), proposed=np.zeros(2), room=-1)


def test_short_answers_that_end_by_themselves_are_priced_at_what_their_last_step_takes() -> None:
    point = [Point(proposed=k, draft_s=0.0, verify_s=1.0 + 0.2 * k, rest_s=0.0, n=20, spread=0.0) for k in (0, 1, 8)]
    curve = Curve(plain=point[0], points=tuple(point[1:]), context=9, measured_s=1.0)
    text = Traced(p=np.ones(9), q=np.ones(9), hit=np.ones(9))
    # 8 tokens in one step: of 7 proposals where the limit ends the text, of 8 where the text ends itself.
    for room, step_s in ((0, 2.4), (30, 2.6)):
        texts = {"d": [dataclasses.replace(text, room=room)] * 4}
        found = predict.rank(texts, {"d": curve}, ks=(8,), rules=("rejection",), prompt_tokens=[5] * 4)
        assert found.of(Cell(draft="d", k=8, rule="rejection")).speedup == pytest.approx(8 / step_s)


def test_a_room_that_is_not_known_leaves_its_bounds() -> None:
    rng, size, k = np.random.default_rng(2), 9, 6
    costs = (np.arange(k + 1.0), 1 + np.array([0, 3, 1, 4, 0, 5, 9]))
    for _ in range(20):
        ratio, q, hit = rng.normal(size=size), rng.uniform(0, 1, size), rng.integers(0, 2, size).astype(float)
        p = np.clip(q / np.exp(ratio), 1e-6, 1.0)
        known = {"ratio": (np.log(q / p),) * 2, "q": (q,) * 2, "hit": (hit,) * 2}
        for cost in costs:
            least, greatest = between.summed([Between(**known, room=(1, 5))], cost)
            for room in range(1, 6):
                found = replay.summed([Traced(p=p, q=q, hit=hit, room=room)], cost).mean
                fixed = between.summed([Between(**known, room=(room, room))], cost)
                assert fixed[0] == pytest.approx(found)
                assert fixed[1] == pytest.approx(found)
                assert (least <= found + 1e-9).all()
                assert (found <= greatest + 1e-9).all()
            assert (greatest - least).max() > 0
