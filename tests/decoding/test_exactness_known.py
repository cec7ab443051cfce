"""Known answers at temperature 0, ends inside a block, and drafts that are the target."""

from __future__ import annotations

import pytest
import toy
import toy_known as known

from specq.core.types import EXACT_RULES, Rule, Sampling
from specq.decoding.drafters.chain import ModelDrafter
from specq.decoding.drafters.lookup import LookupDrafter, NgramIndex


def test_five_proposed_and_the_fifth_replaced_counts_4_accepted_5_emitted_6_rows() -> None:
    known.fifth_of_five_replaced()


def test_full_acceptance_emits_the_bonus_token() -> None:
    known.full_acceptance_emits_one_more()


@pytest.mark.parametrize("place", range(6))
def test_eos_at_each_place_of_a_block_cuts_what_was_emitted_and_accepted(place: int) -> None:
    known.eos_inside_a_block(place)


def test_eos_that_only_the_draft_says_ends_nothing() -> None:
    one, _ = known.decoded(known.counting(), Sampling(max_new_tokens=8), known.Scripted([2, 11, 4]), 3, eos=[11])
    assert one.finish == "length"
    assert one.new_ids == list(range(1, 9))
    assert one.steps[0].accepted == 1


def test_tied_logits_give_the_lowest_id() -> None:
    known.ties_go_to_the_lowest_id()


def test_a_draft_that_is_the_target_recovers_from_refusals() -> None:
    known.accepts_itself_after_refusals(toy.ToySession)


@pytest.mark.parametrize("k", range(1, 17))
def test_self_draft_accepts_everything_at_every_k(k: int) -> None:
    pair = toy.toy(12)
    for temperature in (0.0, 1.0):
        drafter = ModelDrafter(toy.ToySession(pair.target), sampled=True, vocabulary=12)  # type: ignore[arg-type]
        sampling = Sampling(temperature=temperature, max_new_tokens=40)
        one, session = known.decoded(pair, sampling, drafter, k)
        assert [step.accepted for step in one.steps] == [step.proposed for step in one.steps]
        assert len(one.steps) == -(-39 // (k + 1))
        assert session.held == one.ids[:-1]


@pytest.mark.parametrize("rule", EXACT_RULES)
@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_greedy_text_does_not_depend_on_draft_rule_or_k(rule: Rule, k: int) -> None:
    sampling = Sampling(temperature=0.0, max_new_tokens=40, repetition_penalty=1.3, min_new_tokens=9)
    pair = toy.toy(5, apart=0.7)
    plain, _ = known.decoded(pair, sampling, None, 0, eos=[3])
    for drafter in (toy.model_drafter(pair, rule), LookupDrafter(NgramIndex(3, 1))):
        one, session = known.decoded(pair, sampling, drafter, k, eos=[3])
        assert one.new_ids == plain.new_ids
        assert session.held == one.ids[:-1]
        assert one.finish == plain.finish


@pytest.mark.parametrize("tokens", [1, 2, 3, 4])
def test_max_new_tokens_is_never_passed(tokens: int) -> None:
    one, _ = known.decoded(known.counting(), Sampling(max_new_tokens=tokens), known.Scripted([2, 3, 4, 5]), 4)
    assert one.new_ids == list(range(1, tokens + 1))
    assert one.finish == "length"
    assert sum(step.emitted for step in one.steps) + 1 == tokens
    # Nothing was proposed that could not be emitted together with the target's own token.
    assert all(step.proposed + 1 <= tokens - (step.context - len(toy.PROMPT)) for step in one.steps)


def test_ignored_eos_runs_on_and_min_new_tokens_holds_it_back() -> None:
    ignoring = Sampling(max_new_tokens=8, ignore_eos=True)
    one, _ = known.decoded(known.counting(), ignoring, known.Scripted([2, 3, 4, 5]), 4, eos=[3])
    assert one.new_ids == list(range(1, 9))
    # Token 3 may not come among the first four: the next best is the lowest id.
    held = Sampling(max_new_tokens=8, min_new_tokens=4)
    one, _ = known.decoded(known.counting(), held, known.Scripted([2, 3, 4, 5]), 4, eos=[3])
    assert one.new_ids == [1, 2, 0, 1, 2, 3]
    assert one.finish == "eos"
