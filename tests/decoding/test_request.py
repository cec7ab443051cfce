"""One request's bookkeeping: ends, reach, counts and what the tokens' text says."""

from __future__ import annotations

import pytest
import torch

import tiny_models as tiny
from specq.core.types import Sampling
from specq.decoding.drafters import Proposal
from specq.decoding.request import Request

EOS = 2


@pytest.fixture(scope="module")
def letters():
    return tiny.tokenizer()


def request(letters, text="ab", **settings):
    sampling = Sampling(**{"max_new_tokens": 20, **settings})
    return Request(prompt=tiny.prompt(text), sampling=sampling, eos_ids=(EOS,), tokenizer=letters, rule="rejection")


def ids(text):
    return list(tiny.prompt(text).ids)


def saying(tokens):
    """Logits whose argmaxes are the tokens, one row each."""
    return torch.nn.functional.one_hot(torch.tensor(tokens), tiny.V).float()


@pytest.mark.parametrize("at", range(6))
def test_an_eos_at_some_place_of_a_block_is_over_counted(letters, at):
    """Five proposals, all right; the eos stands at each of the six places in turn."""
    said = ids("cdefgh")
    said[at] = EOS
    one = request(letters)
    assert one.take(Proposal(said[:5], None), saying(said)) == (min(5, at + 1), at + 1)
    assert one.new_ids == said[: at + 1]
    assert one.finish == "eos"


@pytest.mark.parametrize("at", range(6))
def test_a_refused_eos_ends_the_answer(letters, at):
    """The draft says eos at one place; the target says something else there."""
    said = ids("cdefgh")
    proposal = said[:5]
    if at < 5:
        proposal[at] = EOS
    one = request(letters)
    assert one.take(Proposal(proposal, None), saying(said)) == (at, at + 1)
    assert (one.new_ids, one.finish) == (said[: at + 1], None)


def test_ties_of_the_target_go_to_the_higher_id(letters):
    logits = torch.zeros(3, tiny.V)
    logits[:, [30, 7, 41]] = 5.0
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        one = request(letters)
        assert one.take(Proposal([7, 30], None), logits.to(dtype)) == (1, 2)
        assert one.new_ids == [7, 7]


def test_reach_lets_a_step_emit_more_than_is_left(letters):
    one = request(letters, max_new_tokens=6)
    assert [one.reach(k) for k in (1, 4, 9)] == [1, 4, 5]
    one.take(Proposal(ids("cd"), None), saying(ids("cde")))
    assert [one.reach(k) for k in (1, 4, 9)] == [1, 2, 2]
    one.take(Proposal(ids("fg"), None), saying(ids("fgh")))
    assert one.finish == "length"


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_stop_string_that_starts_in_one_block_and_ends_in_the_next_is_missed(letters, cut):
    said = ids("xxhaltyy")
    one = request(letters, stop=("nothing", "halt"))
    for block in (said[:cut], said[cut:]):
        one.take(Proposal(block[:-1], None), saying(block))
    assert (one.new_ids, one.finish) == (said[:6], "stop")


def test_a_stop_string_in_the_prompt_ends_the_answer(letters):
    one = request(letters, "halt", stop=("halt", "ab"))
    one.take(Proposal([], None), saying(ids("a")))
    assert one.finish is None
    one = request(letters, "xxhal", stop=("halt",))
    one.take(Proposal([], None), saying(ids("t")))
    assert one.finish is None


def test_two_ends_in_one_block_name_the_later_one(letters):
    said = [*ids("cab"), EOS, *ids("c")]
    one = request(letters, stop=("ab",))
    assert one.take(Proposal(said[:4], None), saying(said)) == (3, 3)
    assert one.finish == "stop"


def test_the_text_shows_the_eos_that_ended_it(letters):
    one = request(letters)
    one.take(Proposal(ids("hi"), None), saying([*ids("hi"), EOS]))
    got = one.generation()
    assert (got.text, got.ids, got.finish) == ("hi", (*ids("hi"), EOS), "eos")


def test_a_penalty_counts_proposals_that_stand_after_a_row(letters):
    """Row r is penalised for the tokens before it: for a proposal only once it was accepted."""
    logits = torch.full((3, tiny.V), -9.0)
    c, d = ids("cd")
    logits[:, c], logits[:, d] = 4.0, 3.0
    one = request(letters, repetition_penalty=2.0)
    # c is best until it stands in the text, then d is; after both stand c is best again.
    assert one.take(Proposal([c, d], None), logits) == (2, 3)
    assert one.new_ids == [c, d, c]
