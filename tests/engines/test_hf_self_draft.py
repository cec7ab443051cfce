"""A draft that is the target must be right every time; anything less is a cache or a q that is off."""

from __future__ import annotations

import pytest

import tiny_models as tiny
from specq.core.types import DraftSpec, Sampling

PROMPT = tiny.prompt("the cat, the dog. ")
NEW = 40


def full(steps, k):
    """Every proposal stood, and every step but the last proposed k."""
    assert all(s.accepted == s.proposed for s in steps)
    assert all(s.proposed == k and s.emitted == k + 1 for s in steps[:-1])


@pytest.mark.parametrize("copy", [False, True], ids=["self", "copy"])
@pytest.mark.parametrize("kind", ["llama", "gpt2", "window"])
def test_a_self_draft_is_refused_at_some_k(target_of, folder_of, kind, copy):
    target = target_of(kind)
    model = str(folder_of(kind)) if copy else "self"
    plain = target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0]
    for k in range(1, 17):
        got = target.decoder(DraftSpec(method="model", model=model, k=k)).generate([PROMPT], tiny.greedy(NEW))[0]
        full(got.steps, k)
        assert got.ids == plain.ids


@pytest.mark.parametrize("rule", ["rejection", "block"])
@pytest.mark.parametrize("kind", ["llama", "window"])
def test_a_sampled_self_draft_is_refused_at_some_k(target_of, kind, rule):
    target = target_of(kind)
    for k in range(1, 17):
        decoder = target.decoder(DraftSpec(method="model", model="self", k=k, rule=rule))
        sampling = Sampling(temperature=0.8, top_p=0.9, max_new_tokens=NEW, ignore_eos=True, seed=k)
        full(decoder.generate([PROMPT], sampling)[0].steps, k)


def test_acceptance_of_a_self_draft_decays_with_position(target_of):
    """A cache trimmed by a little too much is right at first and worse with every step."""
    target = target_of("qwen2")
    spec = DraftSpec(method="model", model="self", k=5)
    steps = target.decoder(spec).generate([PROMPT], tiny.greedy(150))[0].steps
    assert [s.accepted for s in steps[:-1]] == [5] * (len(steps) - 1)


@pytest.mark.parametrize("rule", ["rejection", "block", "match", "greedy_draft"])
def test_greedy_self_draft_depends_on_the_rule(target_of, rule):
    spec = DraftSpec(method="model", model="self", k=4, rule=rule)
    full(target_of("mistral").decoder(spec).generate([PROMPT], tiny.greedy(NEW))[0].steps, 4)


def test_penalties_reach_the_target_but_not_the_draft(target_of):
    """With penalties in force the draft is the target only if both are warped alike."""
    sampling = tiny.greedy(NEW, repetition_penalty=1.7, min_new_tokens=12, eos_ids=(5, 9, 14))
    spec = DraftSpec(method="model", model="self", k=6)
    full(target_of("llama").decoder(spec).generate([PROMPT], sampling)[0].steps, 6)
    warm = Sampling(temperature=0.8, top_k=9, repetition_penalty=1.5, max_new_tokens=NEW, ignore_eos=True)
    full(target_of("llama").decoder(spec).generate([PROMPT], warm)[0].steps, 6)
