"""The built-in model: the same promises, on weights that mean something."""

from __future__ import annotations

import os

import pytest
import torch

import tiny_models as tiny
from specq.core.types import RULES, DraftSpec, Sampling
from specq.engines.hf import HFEngine

pytestmark = pytest.mark.real_model
NEW = 24
QUESTIONS = (
    "Repeat this line three times: the quick brown fox jumps over the lazy dog",
    "Name three planets and say one thing about each.",
)


@pytest.fixture(scope="module")
def target():
    threads = torch.get_num_threads()
    with HFEngine(device="cpu", dtype="float32", threads=min(2, os.cpu_count() or 1)).open(
        "builtin:smollm2-135m"
    ) as target:
        yield target
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def prompts(target):
    return [target.encode([{"role": "user", "content": text}], id=text[:6]) for text in QUESTIONS]


@pytest.fixture(scope="module")
def plain(target, prompts):
    return target.decoder(None).generate(prompts, tiny.greedy(NEW))


def same(target, prompts, plain, spec):
    got = target.decoder(spec).generate(prompts, tiny.greedy(NEW))
    assert [g.ids for g in got] == [g.ids for g in plain]
    return got


def test_plain_decoding_differs_from_transformers_generate(target, prompts, plain):
    for prompt, got in zip(prompts, plain, strict=True):
        ids = torch.tensor([prompt.ids])
        peer = target.model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW, eos_token_id=10**6
        )
        assert peer[0, len(prompt.ids) :].tolist() == list(got.ids)


@pytest.mark.parametrize("match", ["ngram", "suffix"])
@pytest.mark.parametrize("rule", RULES)
def test_lookup_changes_the_tokens(target, prompts, plain, rule, match):
    got = same(target, prompts, plain, DraftSpec(method="lookup", match=match, k=4, rule=rule))
    # The first prompt asks for a repetition, which lookup must profit from.
    assert len(got[0].steps) < NEW - 1


@pytest.mark.parametrize("rule", RULES)
def test_early_exit_changes_the_tokens(target, prompts, plain, rule):
    got = same(target, prompts, plain, DraftSpec(method="early_exit", layers=25, k=2, rule=rule))
    assert sum(s.accepted for g in got for s in g.steps) > 0


@pytest.mark.parametrize("rule", RULES)
def test_self_draft_is_refused(target, prompts, plain, rule):
    got = same(target, prompts, plain, DraftSpec(method="model", model="self", k=5, rule=rule))
    assert all(s.accepted == s.proposed for g in got for s in g.steps)


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
