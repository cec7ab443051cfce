"""A quantized cache is measured as decoding reads it: token by token, each from the cache."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tiny_models as tiny
from specq.core.types import Sampling
from specq.decoding import audit
from specq.decoding.quantized_cache import QuantizedLayer
from specq.decoding.sampling import Warper
from specq.decoding.session import Session
from specq.engines import assembled

WIDE = {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
PROMPT = tiny.prompt("abc abc, abd abc, abc ab")
NEW = 40


def recorded(target, monkeypatch):
    """The answer of plain decoding, and the logits [T, V] that it chose its tokens from."""
    kept, honest = [], Session.forward

    def forward(self, ids, *, last_only=False):
        logits = honest(self, ids, last_only=last_only)
        kept.append(logits[-1].float().numpy().copy())
        return logits

    with monkeypatch.context() as patched:
        patched.setattr(Session, "forward", forward)
        ids = target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0].ids
    return ids, np.stack(kept[:NEW])


@pytest.fixture
def as_computed(monkeypatch):
    """A planted cache: a pass reads its own tokens as they were computed, those before it from the cache."""
    honest = QuantizedLayer.update

    def update(self, key_states, value_states, *args, **kwargs):
        read = honest(self, key_states, value_states, *args, **kwargs)
        for got, states in zip(read, (key_states, value_states), strict=True):
            got[..., got.shape[-2] - states.shape[-2] :, :] = states
        return read

    monkeypatch.setattr(QuantizedLayer, "update", update)


def kl_of(base, other):
    p, q = (torch.from_numpy(logits).double().log_softmax(-1) for logits in (base, other))
    return (p.exp() * (p - q)).sum(-1).numpy()


def test_what_is_measured_on_a_quantized_cache_is_not_what_decoding_read(target_of, as_computed, monkeypatch):
    """Slow twin: the logits that decoding itself chose from, the plain target's along the same text."""
    target = target_of("llama", **WIDE)
    cached = target.with_cache("q4")
    ids, decoded = recorded(cached, monkeypatch)
    blocks = np.stack(list(assembled.logits(cached.session("nothing"), PROMPT, ids, audit.SCORE_ROWS)))
    assert abs(blocks - decoded).max() > 0.1, "the planted cache changes nothing, so this test could not fail"

    measured = np.stack(list(cached.logits(PROMPT, ids)))
    assert measured == pytest.approx(decoded, abs=1e-5)
    base = np.stack(list(target.logits(PROMPT, ids)))
    for baseline in (target, base):
        found = cached.divergence("q4", PROMPT, ids, baseline)
        assert found.kl == pytest.approx(kl_of(base, decoded), rel=2e-3, abs=1e-5)
        assert found.kl_sum == pytest.approx(kl_of(base, decoded).sum(), rel=1e-4)
        assert found.kl_sum != pytest.approx(kl_of(base, blocks).sum(), rel=0.05)
    (scores,) = cached.score(PROMPT.ids, [ids])
    wanted = torch.from_numpy(decoded).double().log_softmax(-1).numpy()[np.arange(NEW), list(ids)]
    assert scores.logprobs == pytest.approx(wanted, abs=1e-4)
    assert found.logprobs == pytest.approx(wanted, abs=1e-4)


def test_a_sampled_text_on_a_quantized_cache_is_held_to_another_law(target_of, as_computed):
    cached = target_of("llama", **WIDE).with_cache("q4")
    sampling = Sampling(temperature=0.8, max_new_tokens=NEW, ignore_eos=True)
    (answer,) = cached.decoder(None).generate([PROMPT], sampling)
    warper = Warper(sampling, prompt_tokens=len(PROMPT.ids), eos_ids=cached.ends(sampling))

    def surprise(rows):
        law = audit.text_law(cached.session("nothing"), warper, PROMPT.ids, answer.ids, rows, tiny.V)
        return assembled.sampled("q4", PROMPT, 0, answer, law, None).surprise

    assert surprise(NEW) != pytest.approx(surprise(1), abs=1e-2)
    assert cached.audit_sampled("q4", PROMPT, 0, answer, None, sampling).surprise == pytest.approx(surprise(1))


def test_an_unquantized_cache_is_read_token_by_token_or_the_noise_of_a_quantized_one_in_one_row(target_of, monkeypatch):
    """Blocks are many times as fast where they change nothing, and the noise is that of blocks by design."""
    fed, honest = [], Session.forward

    def forward(self, ids, *, last_only=False):
        fed.append(0 if last_only else len(ids))
        return honest(self, ids, last_only=last_only)

    monkeypatch.setattr(Session, "forward", forward)
    target = target_of("llama", **WIDE)
    ids = target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0].ids
    fed.clear()
    target.divergence("w", PROMPT, ids, target)
    assert fed == [0, 0, NEW - 1, NEW - 1]
    fed.clear()
    target.with_cache("q4").divergence("q4", PROMPT, ids, target)
    assert max(fed) == 1, "a baseline in blocks would round otherwise than the arm in single rows"
    fed.clear()
    noise = target.with_cache("q4").gap_noise(PROMPT, ids, 4)
    assert max(fed) == noise.rows == 4


def test_a_block_reading_of_the_honest_cache_differs_by_more_than_rounding(target_of):
    """The honest cache packs a pass's own tokens first: in float32 blocks and single rows read the same."""
    cached = target_of("llama", **WIDE).with_cache("q4")
    ids = cached.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0].ids
    single, blocks = (np.stack(list(assembled.logits(cached.session("nothing"), PROMPT, ids, n))) for n in (1, 64))
    assert blocks == pytest.approx(single, abs=1e-3)


def test_a_record_differs_between_a_baseline_in_memory_and_one_kept(target_of):
    target, other = target_of("llama", **WIDE), target_of("llama", noise=0.2, **WIDE)
    ids = target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0].ids
    beside = other.divergence("w", PROMPT, ids, target)
    assert beside == other.divergence("w", PROMPT, ids, np.stack(list(target.logits(PROMPT, ids))))
    assert beside.prompt_tokens == len(PROMPT.ids)
    assert beside.positions == NEW == len(beside.kl)
    own = target.divergence("w", PROMPT, ids, target)
    assert own.base_logprobs == own.logprobs
