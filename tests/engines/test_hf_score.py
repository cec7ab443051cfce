"""Given tokens under a model: their log-probabilities, and the audit of a target that takes one at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tiny_models as tiny
from specq.core.errors import PromptError
from specq.core.types import Sampling
from specq.decoding import audit
from specq.decoding.session import Session
from specq.stats.counts import g_test

NEW = 32
# Heads that a quantized cache takes.
WIDE = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
WARM = Sampling(temperature=0.8, top_p=0.9, max_new_tokens=NEW, ignore_eos=True)
PROMPT = tiny.prompt("abc abc, abd abc, abc ab")


@pytest.mark.parametrize("kind", [*tiny.DENSE, "window", "conv", "hybrid"])
@pytest.mark.parametrize("new", [1, 2, 70])
def test_scores_of_given_tokens_are_those_of_another_position_or_chunk(target_of, kind, new):
    target = target_of(kind)
    text = np.random.default_rng(3).integers(4, tiny.V, size=new).tolist()
    (found,) = target.score(PROMPT.ids, [text])
    with torch.inference_mode():
        logits = target.model(input_ids=torch.tensor([[*PROMPT.ids, *text]]), use_cache=False).logits[0]
    rows = logits[len(PROMPT.ids) - 1 : -1].double()
    want = rows.log_softmax(dim=-1)[torch.arange(new), text]
    assert (found.logprobs.dtype, found.argmax.dtype) == (np.float64, np.int64)
    assert found.logprobs == pytest.approx(want.numpy(), abs=1e-3)
    assert found.argmax.tolist() == rows.argmax(dim=-1).tolist()


def test_scores_hold_the_logits_of_a_whole_text(target_of, monkeypatch):
    target, fed = target_of("llama"), []
    honest = Session.forward

    def forward(self, ids, *, last_only=False):
        fed.append(1 if last_only else len(ids))
        return honest(self, ids, last_only=last_only)

    monkeypatch.setattr(Session, "forward", forward)
    target.score(PROMPT.ids, [[5] * 150])
    assert max(fed) == audit.SCORE_ROWS


@pytest.mark.parametrize("kind", ["llama", "window", "conv", "hybrid"])
@pytest.mark.parametrize("kv_cache", [None, "q8"])
def test_a_continuation_is_scored_after_the_one_before_it(target_of, kind, kv_cache):
    if kv_cache and kind != "llama":
        pytest.skip("one kind is enough")
    target = target_of(kind, **(WIDE if kv_cache else {})).with_cache(kv_cache)
    several = [[5, 6, 7], [9], [], [4, 4, 4, 4, 4], list(range(4, 40)) * 2, [5, 6, 8]]
    together = target.score(PROMPT.ids, several)
    for ids, found in zip(several, together, strict=True):
        (alone,) = target.score(PROMPT.ids, [ids])
        assert found.logprobs == pytest.approx(alone.logprobs, abs=1e-5)
        assert found.argmax.tolist() == alone.argmax.tolist()
        logprobs, argmax = audit.score(
            target.session("nothing"), PROMPT.ids, ids, audit.SCORE_ROWS if kind not in ("conv", "hybrid") else 1
        )
        assert found.logprobs == pytest.approx(logprobs, abs=1e-5)
        assert found.argmax.tolist() == argmax.tolist()


def test_scores_of_no_prompt_or_no_tokens(target_of):
    target = target_of("llama")
    assert target.score((4,), ()) == []
    assert target.score((4,), ((),))[0].logprobs.shape == (0,)
    with pytest.raises(PromptError, match="the prompt is empty"):
        target.score((), ((4,),))


@pytest.mark.parametrize("sampling", [tiny.greedy(NEW), WARM])
def test_a_recurrent_target_fails_its_own_audit(target_of, sampling):
    """A block pass is another function of a recurrent state, so its text is scored token by token."""
    target = target_of("hybrid")
    answer = target.decoder(None).generate([PROMPT], sampling)[0]
    if sampling.temperature == 0:
        noise = target.gap_noise(PROMPT, answer.ids, 5)
        assert (noise.rows, noise.ties, max(noise.moves)) == (1, 0, 0.0)
    else:
        record = target.audit_sampled("a", PROMPT, 0, answer, None, sampling)
        assert record.outside == 0
        assert abs(record.surprise) < 4 * record.surprise_variance**0.5
        first = target.first_tokens("a", PROMPT, None, sampling, 240)
        assert g_test(first.counts, first.expected) > 1e-3


def test_a_baseline_that_decodes_another_way_is_not_scored_at_all(target_of):
    llama = target_of("llama")
    prompt = tiny.prompt("abc abd abc")
    answer = llama.decoder(None).generate([prompt], tiny.greedy(12))[0]
    clean = llama.audit_greedy("baseline#1", prompt, answer.ids, None)
    assert (clean.first_difference, clean.gaps, clean.positions) == (None, (), 12)
    wrong = (*answer.ids[:5], (answer.ids[5] + 1) % 50, *answer.ids[6:])
    found = llama.audit_greedy("baseline#1", prompt, wrong, None)
    assert found.first_difference == 5
    assert found.gaps[0][1] > 0
