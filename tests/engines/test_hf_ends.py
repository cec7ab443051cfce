"""Where an answer ends, and what may stand in it, is the same with a draft and without."""

from __future__ import annotations

import pytest
import torch

import tiny_models as tiny
from specq.core.types import DraftSpec, Sampling

PROMPT = tiny.prompt("abc abc, abd abc")
NEW = 30
DRAFTERS = ("self", "near", "ngram", "suffix", "early_exit")


@pytest.fixture(scope="module")
def decoders(target_of, folder_of):
    """A Llama target's decoders by drafter, k = 5."""
    target = target_of("llama")
    near = tiny.drafts("rejection", 5, str(folder_of("llama", noise=0.2)))
    specs = {"self": DraftSpec(method="model", model="self", k=5), "near": near.pop("model"), **near}
    return {"plain": target.decoder(None)} | {name: target.decoder(spec) for name, spec in specs.items()}


@pytest.fixture(scope="module")
def plain(decoders):
    return decoders["plain"].generate([PROMPT], tiny.greedy(NEW))[0]


def check_counts(got):
    assert sum(s.emitted for s in got.steps) + 1 == len(got.ids)
    for step in got.steps:
        assert 0 <= step.accepted <= min(step.proposed, step.emitted)
        assert step.emitted <= step.accepted + 1


@pytest.mark.parametrize("name", DRAFTERS)
def test_tokens_follow_an_eos_that_stands_inside_a_block(decoders, plain, name):
    """Each emitted token in turn is declared the eos: the answer must be the plain one up to it."""
    for token in dict.fromkeys(plain.ids):
        sampling = Sampling(max_new_tokens=NEW, eos_ids=(token,))
        got = decoders[name].generate([PROMPT], sampling)[0]
        assert got.ids == plain.ids[: plain.ids.index(token) + 1]
        assert got.finish == "eos"
        check_counts(got)


@pytest.mark.parametrize("name", DRAFTERS)
def test_only_one_of_several_eos_ids_counts(decoders, plain, name):
    second, first = plain.ids[9], plain.ids[4]
    got = decoders[name].generate([PROMPT], Sampling(max_new_tokens=NEW, eos_ids=(second, first)))[0]
    assert got.ids == plain.ids[: min(plain.ids.index(first), plain.ids.index(second)) + 1]
    assert got.finish == "eos"


@pytest.mark.parametrize("name", DRAFTERS)
def test_an_eos_ends_an_answer_that_ignores_it(decoders, plain, name):
    sampling = tiny.greedy(NEW, eos_ids=(plain.ids[3],))
    got = decoders[name].generate([PROMPT], sampling)[0]
    assert (got.ids, got.finish) == (plain.ids, "length")


@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("at", range(6, 14))
def test_a_stop_string_that_straddles_a_block_is_missed(decoders, plain, name, at):
    stop = "".join(tiny.PIECES[i] for i in plain.ids[at : at + 3])
    got = decoders[name].generate([PROMPT], tiny.greedy(NEW, stop=("\x00", stop)))[0]
    end = next(n for n in range(1, NEW + 1) if stop in "".join(tiny.PIECES[i] for i in plain.ids[:n]))
    assert got.ids == plain.ids[:end]
    assert got.finish == "stop"
    check_counts(got)


@pytest.mark.parametrize("name", DRAFTERS)
def test_min_new_tokens_is_counted_from_the_block_and_not_from_the_answer(decoders, plain, name):
    eos = plain.ids[2]
    sampling = Sampling(max_new_tokens=NEW, min_new_tokens=15, eos_ids=(eos,))
    want = decoders["plain"].generate([PROMPT], sampling)[0]
    got = decoders[name].generate([PROMPT], sampling)[0]
    assert eos not in got.ids[:15]
    assert (got.ids, got.finish) == (want.ids, want.finish)


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_repetition_penalty_is_left_out_or_counts_refused_drafts(decoders, plain, name):
    sampling = tiny.greedy(NEW, repetition_penalty=1.4)
    want = decoders["plain"].generate([PROMPT], sampling)[0]
    assert want.ids != plain.ids
    got = decoders[name].generate([PROMPT], sampling)[0]
    assert got.ids == want.ids


@pytest.mark.parametrize(
    "settings",
    [
        {"repetition_penalty": 1.4},
        {"repetition_penalty": 0.7},
        {"min_new_tokens": 12, "eos": 2},
        {"eos": 1},
        {"repetition_penalty": 1.3, "min_new_tokens": 6, "eos": 3},
    ],
    ids=str,
)
def test_settings_mean_something_else_than_in_transformers(target_of, decoders, plain, settings):
    settings = dict(settings)
    eos = [plain.ids[n] for n in range(settings.pop("eos", 0))] or [2]
    sampling = Sampling(max_new_tokens=NEW, eos_ids=tuple(eos), **settings)
    got = decoders["plain"].generate([PROMPT], sampling)[0]
    peer = target_of("llama").model.generate(
        torch.tensor([PROMPT.ids]), do_sample=False, max_new_tokens=NEW, eos_token_id=eos, **settings
    )
    assert peer[0, len(PROMPT.ids) :].tolist() == list(got.ids)


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_step_runs_past_max_new_tokens(decoders, plain, name):
    for new in range(1, 9):
        got = decoders[name].generate([PROMPT], tiny.greedy(new))[0]
        assert (got.ids, got.finish) == (plain.ids[:new], "length")
        check_counts(got)
