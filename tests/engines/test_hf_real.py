"""The built-in model: the same promises, on weights that mean something."""

from __future__ import annotations

import pytest
import torch

import tiny_models as tiny
from specq.core.types import DraftSpec, Sampling
from specq.engines.hf import HFEngine

pytestmark = pytest.mark.real_model
NEW = 16
QUESTIONS = (
    "Repeat this line three times: the quick brown fox jumps over the lazy dog",
    "Name three planets and say one thing about each.",
)


@pytest.fixture(scope="module")
def target():
    threads = torch.get_num_threads()
    # One thread: two that wait for each other on a busy machine take many times as long.
    with HFEngine(device="cpu", dtype="float32", threads=1).open("builtin:smollm2-135m") as target:
        yield target
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def prompts(target):
    return [target.encode([{"role": "user", "content": text}], id=text[:6]) for text in QUESTIONS]


@pytest.fixture(scope="module")
def plain(target, prompts):
    return target.decoder(None).generate(prompts, tiny.greedy(NEW))


def test_plain_decoding_differs_from_transformers_generate(target, prompts, plain):
    ids = torch.tensor([prompts[1].ids])
    peer = target.model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW, eos_token_id=10**6
    )
    assert peer[0, ids.shape[1] :].tolist() == list(plain[1].ids)


# Each drafter sees both prompts, and each rule two drafters: tiny models see every rule with every drafter.
CELLS = [
    ("rejection", "ngram", 0),
    ("match", "ngram", 1),
    ("greedy_draft", "suffix", 0),
    ("block", "suffix", 1),
    ("match", "early_exit", 0),
    ("greedy_draft", "early_exit", 1),
    ("block", "self", 0),
    ("rejection", "self", 1),
]


@pytest.mark.parametrize(("rule", "name", "which"), CELLS)
def test_a_rule_or_a_drafter_changes_the_greedy_tokens(target, prompts, plain, rule, name, which):
    spec = {
        "ngram": DraftSpec(method="lookup", k=4, rule=rule),
        "suffix": DraftSpec(method="lookup", match="suffix", k=4, rule=rule),
        "early_exit": DraftSpec(method="early_exit", layers=25, k=2, rule=rule),
        "self": DraftSpec(method="model", model="self", k=5, rule=rule),
    }[name]
    got = target.decoder(spec).generate([prompts[which]], tiny.greedy(NEW))[0]
    assert got.ids == plain[which].ids
    if name == "self":
        assert all(s.accepted == s.proposed for s in got.steps)
    elif which == 0:
        # The first prompt asks for a repetition, which any draft must profit from.
        assert len(got.steps) < NEW - 1


def test_the_converted_model_does_not_stop_at_the_end_of_its_turn(target):
    end = target.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert target.eos_ids == (end,)
    prompt = target.encode([{"role": "user", "content": "What is the capital of France? One word."}])
    for spec in (None, DraftSpec(method="early_exit", layers=25, k=4)):
        got = target.decoder(spec).generate([prompt], Sampling(max_new_tokens=40))[0]
        assert got.finish == "eos"
        assert got.ids[-1] == end
        assert got.ids.count(end) == 1
        assert "Paris" in got.text
