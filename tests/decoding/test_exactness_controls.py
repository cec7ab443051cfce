"""Negative controls: each planted bug must fail the check that the right code passes.

A control calls the same check that judges the code, with one piece swapped for its wrong twin.
"""

from __future__ import annotations

from typing import Any

import pytest
import toy
import toy_known as known
import toy_planted as planted
from toy_checks import ALARM, CONTROL, drawn_accepted, drawn_law, loop_accepted, loop_law
from toy_enumeration import by_code, text_law

from specq.core.types import Rule, Sampling
from specq.decoding import rules
from specq.decoding.drafters.chain import ModelDrafter

one_thread = pytest.fixture(autouse=True, scope="module")(toy.one_thread)

PAIR = toy.toy(4)
SHARP = toy.toy(4, spread=2.5, apart=0.8)
PLAIN, TOP_K = toy.SAMPLINGS["T=1.0 none"], toy.SAMPLINGS["T=1.0 top-k"]
AT = toy.tree(PAIR, PLAIN, 3)


def drafting(session: Any) -> ModelDrafter:
    return ModelDrafter(session, sampled=True, vocabulary=PAIR.words)


def test_planted_unwarped_q_is_caught() -> None:
    at = toy.tree(PAIR, TOP_K, 3)
    raw = planted.softmax_tables(PAIR, at, TOP_K)
    assert drawn_law(at, "rejection", propose=planted.scoring(raw)) < CONTROL
    assert drawn_law(at, "block", propose=planted.scoring(raw)) < CONTROL


def test_planted_temperature_left_out_of_q_is_caught() -> None:
    hot = toy.SAMPLINGS["T=1.5 none"]
    at = toy.tree(PAIR, hot, 3)
    assert drawn_law(at, "rejection", propose=planted.scoring(planted.softmax_tables(PAIR, at, PLAIN))) < CONTROL
    # The twin with the right temperature is the code itself.
    assert drawn_law(at, "rejection", propose=planted.scoring(planted.softmax_tables(PAIR, at, hot))) > ALARM


def test_planted_softmax_q_for_an_argmax_draft_is_caught() -> None:
    assert drawn_law(AT, "rejection", propose=planted.best_scored_with_softmax) < CONTROL


@pytest.mark.parametrize("rule", ["rejection", "greedy_draft", "block"])
def test_planted_skipped_residual_is_caught(rule: Rule) -> None:
    wrong = planted.verify_from_p_after_refusal
    assert drawn_law(AT, rule, verify=wrong) < CONTROL
    assert text_law(AT, by_code(AT, rule, verify=wrong), 2, 3) != pytest.approx(AT.law(3), abs=1e-3)


def test_planted_acceptance_after_a_refusal_is_caught() -> None:
    assert drawn_law(AT, "rejection", verify=planted.verify_counting_past_refusals) < CONTROL
    at = toy.tree(PAIR, PLAIN, 4)
    assert drawn_accepted(at, "rejection", 3, verify=planted.verify_counting_past_refusals) < CONTROL


@pytest.mark.parametrize("rule", ["rejection", "match", "block"])
def test_planted_one_stream_for_all_draws_is_caught(rule: Rule) -> None:
    at = toy.tree(PAIR, PLAIN, 4)
    assert drawn_accepted(at, rule, 3, uniforms=planted.one_uniform_for_all) < CONTROL
    drafter = toy.model_drafter(PAIR, rule)
    assert loop_law(PAIR, rule, PLAIN, drafter=drafter, count=1000, fresh=True, streams=planted.OneStream) < CONTROL


@pytest.mark.parametrize(("inner", "weight"), [(False, True), (True, False)], ids=["h-is-a", "residual-without-a"])
def test_planted_block_twins_are_caught(inner: bool, weight: bool) -> None:
    at = toy.tree(PAIR, PLAIN, 4)
    right, wrong = planted.block_with(inner=True, weight=True), planted.block_with(inner=inner, weight=weight)
    assert text_law(at, by_code(at, "block", verify=right), 3, 4) == pytest.approx(at.law(4), abs=1e-6)
    assert text_law(at, by_code(at, "block", verify=wrong), 3, 4) != pytest.approx(at.law(4), abs=1e-3)
    assert drawn_law(at, "block", k=3, length=4, verify=right) > ALARM
    assert drawn_law(at, "block", k=3, length=4, verify=wrong) < CONTROL


def test_planted_token_wise_criterion_in_block_is_caught() -> None:
    # The text stays right: only the law of the accepted length tells the two rules apart.
    at = toy.tree(PAIR, PLAIN, 4)

    def token_wise(rule: Rule, *args: Any) -> rules.Verified:
        return rules.verify("rejection", *args)

    assert drawn_accepted(at, "block", 3, verify=token_wise) < CONTROL


@pytest.mark.parametrize("session", [planted.TrimsTooMany, planted.TrimsTooFew])
def test_planted_wrong_trim_of_the_drafts_cache_is_caught(session: Any) -> None:
    # What is written stays right, whatever the draft's cache holds: the accepted lengths do not.
    accepted, _ = loop_accepted(SHARP, "rejection", PLAIN, 3, count=200, drafter=drafting(session(SHARP.draft)))
    assert accepted < CONTROL
    with pytest.raises(AssertionError):
        known.accepts_itself_after_refusals(session)


@pytest.mark.parametrize("session", [planted.TrimsTooMany, planted.TrimsTooFew])
def test_planted_wrong_trim_of_the_targets_cache_is_caught(session: Any) -> None:
    drafter = toy.model_drafter(SHARP, "rejection")
    assert loop_law(SHARP, "rejection", PLAIN, count=1000, drafter=drafter, target=session(SHARP.target)) < CONTROL


def test_planted_dropped_bonus_is_caught() -> None:
    with pytest.raises(AssertionError):
        known.full_acceptance_emits_one_more(make=planted.DropsBonus)
    with pytest.raises(AssertionError):
        loop_accepted(PAIR, "rejection", PLAIN, 3, make=planted.DropsBonus)


@pytest.mark.parametrize("place", range(4))
def test_planted_count_past_the_eos_is_caught(place: int) -> None:
    with pytest.raises(AssertionError):
        known.eos_inside_a_block(place, make=planted.CountsPastTheEnd)


def test_planted_count_past_the_eos_is_caught_in_sampled_text() -> None:
    with pytest.raises(AssertionError):
        loop_accepted(PAIR, "rejection", PLAIN, 6, eos=(2,), make=planted.CountsPastTheEnd)


def test_planted_half_precision_is_caught() -> None:
    with pytest.raises(AssertionError):
        known.tiny_probabilities_keep_their_ratio(planted.verify_in_half_precision)


def test_planted_acceptance_at_equality_is_caught() -> None:
    with pytest.raises(AssertionError):
        known.impossible_tokens_are_refused(planted.verify_accepting_at_equality)


def test_planted_last_wins_ties_are_caught() -> None:
    with pytest.raises(AssertionError):
        known.ties_go_to_the_lowest_id(make=planted.LastWins)


def test_planted_penalty_for_tokens_to_come_is_caught() -> None:
    drafter = toy.model_drafter(SHARP, "rejection")
    strong = Sampling(temperature=1.0, repetition_penalty=2.5)
    assert loop_law(SHARP, "rejection", strong, drafter=drafter, count=900, warper=planted.PenalisesRefused) < CONTROL
    assert loop_law(SHARP, "rejection", strong, count=900, drafter=drafter) > ALARM
