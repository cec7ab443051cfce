"""What proves a run of the MLX engine: scores, gaps, laws and draws, each with a fault that it must find."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

import tiny_models as tiny
from specq.core.errors import NonFiniteLogits, Unsupported
from specq.core.types import DraftSpec, Sampling
from specq.decoding.sampling import Warper
from specq.engines import mlx_audit, mlx_decoder
from specq.engines.mlx import MLXEngine

PROMPT = tiny.prompt("abc abc, abd abc", id="a")
NEW = 24
WARM = Sampling(temperature=0.7, top_k=20, top_p=0.9, min_p=0.02, max_new_tokens=NEW, ignore_eos=True, seed=3)
DRAWS = 150


@pytest.fixture(scope="module")
def target(folder_of):
    return MLXEngine(device="cpu").open(str(folder_of("llama")))


@pytest.fixture(scope="module")
def other(folder_of):
    return MLXEngine(device="cpu").open(str(folder_of("llama", noise=0.2)))


@pytest.fixture(scope="module")
def draft(folder_of):
    return DraftSpec(method="model", model=str(folder_of("llama", noise=0.2)), k=3, rule="match")


@pytest.fixture(scope="module")
def answer(target):
    return target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0]


def test_scores_are_not_those_of_the_reference_engine(target, target_of, answer):
    mine, wanted = (one.score(PROMPT.ids, [answer.ids])[0] for one in (target, target_of("llama")))
    assert mine.logprobs == pytest.approx(wanted.logprobs, abs=1e-4)
    assert (mine.argmax == wanted.argmax).all()
    assert tuple(mine.argmax) == answer.ids


def test_plain_text_differs_from_itself_or_a_changed_token_does_not(target, answer):
    same = target.audit_greedy("x", PROMPT, answer.ids, answer.ids)
    assert (same.first_difference, same.gaps, same.positions) == (None, (), NEW)
    wrong = list(answer.ids)
    wrong[5] = (wrong[5] + 1) % tiny.V
    found = target.audit_greedy("x", PROMPT, wrong, answer.ids)
    assert found.first_difference == 5
    assert found.gaps[0][0] == 5
    assert found.gaps[0][1] > 0


def test_passes_of_one_row_and_of_many_are_not_compared(target, answer, monkeypatch):
    noise = target.gap_noise(PROMPT, answer.ids, 4)
    assert (noise.rows, noise.positions, noise.ties) == (4, NEW - 1, 0)
    assert max(noise.moves) < 1e-3

    right = type(target.kv).feed

    def planted(self, cache, ids):
        logits = right(self, cache, ids)
        return logits * 1.2 if len(ids) == 4 else logits

    monkeypatch.setattr(type(target.kv), "feed", planted)
    assert max(target.gap_noise(PROMPT, answer.ids, 4).moves) > 0.01


def test_a_session_that_rolls_back_sees_another_text(target, answer):
    """Random blocks, each in part taken back: the logits are those of a fresh pass."""
    rng = np.random.default_rng(0)
    session, ids, at = target.session(), [*PROMPT.ids, *answer.ids], 3
    session.forward(ids[:at], last_only=True)
    while at < len(ids) - 4:
        block, back = int(rng.integers(2, 5)), int(rng.integers(0, 3))
        session.forward(ids[at : at + block])
        session.rollback(min(back, block))
        at += block - min(back, block)
        assert session.length == at
        fresh = target.session()
        wanted = fresh.forward(ids[: at + 1], last_only=True)
        got = session.forward(ids[at : at + 1])
        assert float((got - wanted).abs().max()) < 1e-4
        at += 1


def chi_square(found):
    pairs = [(n, found.draws * p) for n, p in zip(found.counts, found.expected, strict=True) if p * found.draws > 1]
    return sum((n - e) ** 2 / e for n, e in pairs), len(pairs) - 1


def is_off(found):
    """Whether draws lie further from their law than chance puts one in thousands."""
    value, freedom = chi_square(found)
    return value > freedom + 4 * math.sqrt(2 * freedom) + 4


@pytest.mark.parametrize("drafts", [False, True])
def test_draws_do_not_follow_the_targets_law(target, draft, drafts, monkeypatch):
    chosen = draft if drafts else None
    found = target.first_tokens("x", PROMPT, chosen, WARM, DRAWS)
    assert found.draws == sum(found.counts) == DRAWS
    assert sum(found.expected) == pytest.approx(1.0)
    assert found.proposed == (DRAWS if drafts else 0)
    assert len(found.cells) > 3
    assert not is_off(found)

    def planted(sampling, vocabulary):
        return mlx_decoder.make_sampler(dataclasses.replace(sampling, temperature=2.5), vocabulary)

    monkeypatch.setattr(mlx_audit, "make_sampler", planted)
    assert is_off(target.first_tokens("x", PROMPT, chosen, WARM, DRAWS))


def test_the_temperature_comes_last_as_in_mlx_own_sampler(monkeypatch):
    """Truncation of the law before it is cooled is another law: 0.7 of the mass is another set of tokens."""
    import mlx.core as mx
    from mlx_lm.sample_utils import make_sampler as mlx_own

    sampling = Sampling(temperature=0.5, top_p=0.7)
    logits = torch.log(torch.tensor([[0.4, 0.25, 0.2, 0.15]]))
    kept = Warper(sampling, prompt_tokens=1, eos_ids=()).probs([1], logits)[0] > 0
    assert kept.tolist() == [True, True, False, False]
    mx.random.seed(0)
    scores = mx.array(logits.numpy())
    for sampler, wanted in ((mlx_decoder.make_sampler(sampling, 4), {0, 1}), (mlx_own(0.5, 0.7), {0, 1, 2})):
        assert {int(sampler(scores).item()) for _ in range(300)} == wanted


def z_of(found):
    return (
        sum(one.surprise for one in found) / math.sqrt(sum(one.surprise_variance for one in found)),
        (sum(one.steps for one in found) - sum(one.steps_mean for one in found))
        / math.sqrt(max(1e-9, sum(one.steps_variance for one in found))),
    )


@pytest.mark.parametrize("drafts", [False, True])
def test_sampled_text_or_its_steps_do_not_follow_their_laws(target, draft, drafts):
    chosen = draft if drafts else None
    decoder = target.decoder(chosen)
    right, hot = [], []
    for seed in range(8):
        asked = dataclasses.replace(WARM, seed=seed)
        (text,) = decoder.generate([PROMPT], asked)
        right.append(target.audit_sampled("x", PROMPT, 0, text, chosen, asked))
        (text,) = decoder.generate([PROMPT], dataclasses.replace(asked, temperature=1.2))
        hot.append(target.audit_sampled("x", PROMPT, 0, text, chosen, asked))
    surprise, steps = z_of(right)
    assert abs(surprise) < 4
    assert sum(one.outside for one in right) == 0
    assert abs(z_of(hot)[0]) > 4 or sum(one.outside for one in hot) > 10
    if drafts:
        assert abs(steps) < 4
        doubled = [dataclasses.replace(one, steps=one.steps + 3) for one in right]
        assert abs(z_of(doubled)[1]) > 4
    else:
        assert all(one.steps == one.steps_mean == NEW - 1 for one in right)


def test_a_token_without_probability_makes_a_distance_of_nothing(target, other, answer, monkeypatch):
    """Logits of minus infinity: in both models they change little, in one they are infinitely far."""
    import mlx.core as mx

    plain = other.divergence("x", PROMPT, answer.ids, target)
    unsaid = next(token for token in range(tiny.V) if token not in answer.ids)
    kv, right = type(target.kv), type(target.kv).feed
    masked = []

    def planted(self, cache, ids):
        logits = right(self, cache, ids)
        there = mx.arange(logits.shape[-1]) == unsaid
        return mx.where(there, -mx.inf, logits) if self in masked else logits

    monkeypatch.setattr(kv, "feed", planted)
    masked += [target.kv, other.kv]
    found = other.divergence("x", PROMPT, answer.ids, target)
    assert 0.5 * plain.kl_sum < found.kl_sum < 2 * plain.kl_sum
    masked.remove(target.kv)
    with pytest.raises(NonFiniteLogits):
        other.divergence("x", PROMPT, answer.ids, target)


def test_a_folder_is_as_far_from_itself_as_from_another(target, other, target_of, answer):
    own = target.divergence("x", PROMPT, answer.ids, target)
    assert (own.positions, own.kl_sum, own.kl_worst, own.agreed) == (NEW, 0.0, 0.0, NEW)
    found = other.divergence("x", PROMPT, answer.ids, target)
    text = torch.tensor([[*PROMPT.ids, *answer.ids[:-1]]])
    p, q = (
        target_of("llama", **how).model(input_ids=text).logits[0, -NEW:].double().log_softmax(-1)
        for how in ({}, {"noise": 0.2})
    )
    kl = (p.exp() * (p - q)).sum(-1)
    assert found.kl_sum == pytest.approx(float(kl.sum()), rel=1e-3)
    assert found.kl_worst == pytest.approx(float(kl.max()), rel=1e-3)
    assert found.agreed == int((p.argmax(-1) == q.argmax(-1)).sum())
    # Logits that were kept stand for a baseline that is not in memory.
    assert other.divergence("x", PROMPT, answer.ids, np.stack(list(target.logits(PROMPT, answer.ids)))) == found
    with pytest.raises(Unsupported, match="a baseline of its own"):
        target.divergence("x", PROMPT, answer.ids, target_of("llama"))
