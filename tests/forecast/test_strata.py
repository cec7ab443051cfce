"""Parts of a forecast: prompts and tokens are in the right one, parts add up to the whole, and losers are named."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from specq.core.types import EXACT_RULES, Prompt, Rule
from specq.forecast import predict
from specq.forecast.cost import Curve, Point
from specq.forecast.predict import Cell, Forecast
from specq.forecast.replay import Copied, Traced
from specq.forecast.strata import FEWEST, Strata, Stratum, said, strata


def point(proposed: int, step_s: float, spread: float = 0.0) -> Point:
    return Point(proposed=proposed, draft_s=0.0, verify_s=step_s, rest_s=0.0, n=20, spread=spread)


def curve(step_s: float, plain_s: float = 1.0) -> Curve:
    return Curve(plain=point(0, plain_s), points=(point(1, step_s), point(8, step_s)), context=10, measured_s=1.0)


def text(hits: Sequence[float]) -> Traced:
    return Traced(p=np.ones(len(hits)), q=np.array(hits, dtype=float), hit=np.array(hits, dtype=float))


RIGHT, WRONG = text([1.0] * 13), text([0.0] * 13)


def prompt(place: int, *tags: str, tokens: int = 10) -> Prompt:
    return Prompt(id=str(place), ids=tuple(range(tokens)), tags=tags)


def parted(
    texts: Sequence[Traced | Copied],
    prompts: Sequence[Prompt],
    entropy: Sequence[float] | None = None,
    *,
    k: int = 2,
    rule: Rule = "match",
    priced: Curve | None = None,
) -> Strata:
    own = curve(1.5) if priced is None else priced
    tokens = [len(one.ids) for one in prompts]
    ranked = predict.rank({"d": texts}, {"d": own}, ks=(k,), rules=(rule,), prompt_tokens=tokens)
    whole = ranked.of(Cell(draft="d", k=k, rule=rule))
    return strata(whole, texts, own, prompts, [1.0] * len(texts) if entropy is None else entropy, resamples=200)


def by(found: Strata, kind: str) -> dict[str, Stratum]:
    return {one.name: one for one in found.parts if one.by == kind}


def test_each_tag_has_the_forecast_of_its_own_prompts_and_the_loser_is_named() -> None:
    texts = [RIGHT] * 6 + [WRONG] * 5
    prompts = [prompt(place, "copy") for place in range(6)] + [prompt(place, "write", "odd") for place in range(6, 11)]
    found = parted(texts, prompts)
    tags = by(found, "tag")
    assert {name: one.n for name, one in tags.items()} == {"copy": 6, "write": 5, "odd": 5}
    assert tags["copy"].speedup == pytest.approx(3 / 1.5)
    assert tags["copy"].tokens_per_step == pytest.approx(3.0)
    assert tags["write"].speedup == pytest.approx(12 / (11 * 1.5 + 1))
    assert (tags["copy"].p_faster, tags["write"].p_faster) == (1.0, 0.0)
    assert tags["copy"].low is not None
    assert "but slower on tag write (0.69, 0.69 to 0.69), tag odd" in found.said[0]
    assert any("depends on the tag: tag copy (2.00" in one for one in found.said)


def test_too_few_prompts_give_no_interval_and_no_probability_and_only_a_maybe() -> None:
    few = FEWEST - 1
    texts = [RIGHT] * 20 + [WRONG] * few
    prompts = [prompt(place, "copy" if place < 20 else "write") for place in range(20 + few)]
    found = parted(texts, prompts)
    lost = by(found, "tag")["write"]
    assert (lost.n, lost.low, lost.high, lost.p_faster) == (few, None, None, None)
    assert "may be slower on tag write (0.69)" in found.said[0]


def test_prompts_without_a_tag_among_tagged_ones_are_a_part_and_one_tag_for_all_is_none() -> None:
    mixed = parted([RIGHT] * 3, [prompt(0, "copy"), prompt(1), prompt(2)])
    assert {name: one.n for name, one in by(mixed, "tag").items()} == {"no tag": 2, "copy": 1}
    assert by(parted([RIGHT] * 3, [prompt(place, "copy") for place in range(3)]), "tag") == {}
    assert by(parted([RIGHT] * 3, [prompt(place) for place in range(3)]), "tag") == {}


def test_thirds_by_entropy_hold_the_surest_texts_first_and_equal_ones_together() -> None:
    entropy = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    texts = [RIGHT, RIGHT, WRONG, WRONG, WRONG, WRONG]
    found = by(parted(texts, [prompt(place) for place in range(6)], entropy), "entropy")
    assert list(found) == ["up to 0.2 nats", "0.2 to 0.4 nats", "above 0.4 nats"]
    assert [one.n for one in found.values()] == [2, 2, 2]
    assert found["up to 0.2 nats"].speedup == pytest.approx(2.0)
    assert found["above 0.4 nats"].speedup < 1
    tied = by(parted(texts, [prompt(place) for place in range(6)], [0.1] * 4 + [0.2, 0.2]), "entropy")
    assert {name: one.n for name, one in tied.items()} == {"up to 0.1 nats": 4, "above 0.1 nats": 2}
    assert by(parted(texts, [prompt(place) for place in range(6)], [0.0] * 6), "entropy") == {}


def test_parts_by_context_count_prompt_and_text_and_few_prompts_make_halves() -> None:
    prompts = [prompt(place, tokens=tokens) for place, tokens in enumerate((10, 20, 30, 40))]
    found = by(parted([RIGHT, RIGHT, WRONG, WRONG], prompts), "context")
    assert {name: one.n for name, one in found.items()} == {"up to 33 tokens": 2, "above 33 tokens": 2}
    assert found["up to 33 tokens"].speedup > 1 > found["above 33 tokens"].speedup


def test_a_draft_that_only_knows_the_beginning_wins_in_the_first_third_alone() -> None:
    some = text([1.0] * 5 + [0.0] * 8)
    found = by(parted([some] * 6, [prompt(place) for place in range(6)]), "position")
    assert [one.n for one in found.values()] == [24, 24, 24]
    # Steps at 1 (3 tokens) and 4 (1 token right, 2 emitted); then one token a step, the last of them without proposals.
    assert found["first third"].tokens_per_step == pytest.approx(5 / 2)
    assert found["first third"].speedup == pytest.approx(5 / 3.0)
    assert found["middle third"].tokens_per_step == pytest.approx(1.0)
    assert found["last third"].speedup == pytest.approx(4 / (3 * 1.5 + 1.0))


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_a_part_is_what_its_prompts_alone_would_be_forecast_at_every_context(rule: Rule) -> None:
    rng = np.random.default_rng(8)
    texts = [
        Traced(p=rng.uniform(0.2, 1, n), q=rng.uniform(0, 1, n), hit=rng.choice([0.0, 0.5, 1.0], n))
        for n in (17, 30, 2, 1, 9)
    ]
    prompts = [prompt(place, "a" if place % 2 else "b", tokens=5 * place + 1) for place in range(5)]
    far = dataclasses.replace(curve(3.0, 1.7), context=40)
    priced = dataclasses.replace(curve(1.5), depths=(dataclasses.replace(curve(1.5), context=5), far))
    found = parted(texts, prompts, k=4, rule=rule, priced=priced)
    # The slow way: the whole forecast, by the recursion that counts backwards, of the prompts of each part alone.
    for tag, one in by(found, "tag").items():
        own = [place for place, each in enumerate(prompts) if tag in each.tags]
        alone = predict.rank(
            {"d": [texts[place] for place in own]},
            {"d": priced},
            ks=(4,),
            rules=(rule,),
            prompt_tokens=[len(prompts[place].ids) for place in own],
        ).forecasts[0]
        assert one.speedup == pytest.approx(alone.speedup)
        assert one.tokens_per_step == pytest.approx(alone.tokens_per_step)
    # A text that ended with its first token has no steps, and is in no part.
    assert {name: one.n for name, one in by(found, "tag").items()} == {"b": 3, "a": 1}
    assert sum(one.n for one in by(found, "position").values()) == sum(len(one) - 1 for one in texts)


def test_the_places_of_one_text_share_its_steps_and_its_seconds() -> None:
    copied = Copied(matched=np.array([0, 2, 0, 0, 9, 9, 9]), proposed=np.array([0, 3, 0, 0, 9, 9, 9]))
    found = by(parted([copied] * 2, [prompt(0), prompt(1)], k=8), "position")
    # Of 6 tokens steps start at 1 (3 tokens) and 4 (the last 3); the middle third has none of them.
    assert {name: (one.n, one.tokens_per_step) for name, one in found.items()} == {
        "first third": (4, 3.0),
        "middle third": (4, 3.0),
    }
    assert found["first third"].speedup == pytest.approx(3 / 1.5)


def whole(speedup: float) -> Forecast:
    return Forecast(
        cell=Cell(draft="d", k=1, rule="match"),
        tokens_per_step=1.0,
        steps_sd=0.0,
        speedup=speedup,
        low=None,
        high=None,
        tokens_per_s=1.0,
        p_faster=0.5,
        slower_prompts=0.0,
        regret=0.0,
        draft_s=0.0,
        verify_s=1.0,
        rest_s=0.0,
    )


def part(name: str, speedup: float, low: float | None = None, high: float | None = None) -> Stratum:
    return Stratum(by="tag", name=name, n=9, tokens_per_step=1.0, speedup=speedup, low=low, high=high, p_faster=None)


def test_a_draft_that_loses_on_the_whole_but_wins_somewhere_is_told() -> None:
    (one,) = said(whole(0.9), [part("copy", 1.4, 1.2, 1.6), part("write", 0.8)])
    assert (
        one
        == "d is not faster than plain decoding over all prompts (0.90), but faster on tag copy (1.40, 1.20 to 1.60)."
    )


def test_parts_that_agree_with_the_whole_are_no_news() -> None:
    assert said(whole(1.3), [part("copy", 1.4, 1.1, 1.7), part("write", 1.2, 1.0, 1.4)]) == []


def test_an_interval_around_one_is_a_maybe_and_overlapping_parts_do_not_differ() -> None:
    (one,) = said(whole(1.3), [part("copy", 1.4, 1.0, 1.9), part("write", 0.97, 0.9, 1.05)])
    assert "but may be slower on tag write (0.97, 0.90 to 1.05)" in one
