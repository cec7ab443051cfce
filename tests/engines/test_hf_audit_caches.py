"""Audits of targets whose cache is quantized or whose passes are compiled."""

from __future__ import annotations

import pytest

import tiny_models as tiny
from specq.core.types import DraftSpec, Sampling
from specq.decoding import audit
from specq.decoding.compiled import CompiledSession
from specq.decoding.sampling import Warper
from specq.decoding.session import Session, shallow
from specq.engines import hf_target
from specq.engines.hf import HFEngine

WIDE = {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
"""Heads of 32 values: one block."""
PROMPT = tiny.prompt("abc abc, abd abc, abc ab")
EARLY = DraftSpec(method="early_exit", layers=2, k=3)


def test_an_early_exit_is_expected_to_read_an_unquantized_cache(target_of):
    target = target_of("llama", **WIDE).with_cache("q4")
    sampling = Sampling(temperature=0.8, max_new_tokens=32, ignore_eos=True)
    (answer,) = target.decoder(EARLY).generate([PROMPT], sampling)
    warper = Warper(sampling, prompt_tokens=len(PROMPT.ids), eos_ids=())

    def steps(kv_cache):
        law, drafted = (
            audit.text_law(Session(model, keep="nothing", kv_cache=kind), warper, PROMPT.ids, answer.ids, 32, tiny.V)
            for model, kind in ((target.model, "q4"), (shallow(target.model, 2), kv_cache))
        )
        return audit.expected_steps(EARLY, law, drafted)[0]

    found = target.audit_sampled("a", PROMPT, 0, answer, EARLY, sampling).steps_mean
    assert found == pytest.approx(steps("q4"))
    assert steps(None) != pytest.approx(steps("q4"), abs=1e-3)


def test_a_batch_on_a_quantized_cache_says_nothing_of_its_share(target_of):
    target = target_of("llama", **WIDE)
    prompts = [PROMPT, tiny.prompt("abd abd ab", id="b"), tiny.prompt("cab", id="c")]

    def shares(cache, draft):
        made = target.with_cache(cache).decoder(draft).generate(prompts, tiny.greedy(6), batch_size=2)
        return [answer.cache_share for answer in made]

    assert shares("q8", None) == shares("q8", EARLY) == [1.0] * 3
    assert shares(None, None) == [None] * 3


def test_the_noise_of_a_compiled_target_is_that_of_uncompiled_passes(folder_of, monkeypatch):
    """One-row passes on both sides: uncompiled ones would differ by nothing at all."""
    made = []

    class Traced(CompiledSession):
        def __init__(self, model, rows):
            super().__init__(model, rows, backend="eager")
            made.append(self.rows)

    monkeypatch.setattr(hf_target, "CompiledSession", Traced)
    plain = HFEngine(device="cpu").open(str(folder_of("llama")))
    ids = plain.decoder(None).generate([PROMPT], tiny.greedy(12))[0].ids
    assert max(plain.gap_noise(PROMPT, ids, 1).moves) == 0.0
    target = HFEngine(device="cpu", compile=True).open(str(folder_of("llama")))
    noise = [target.gap_noise(PROMPT, ids, 1) for _ in range(2)]
    assert 0.0 < max(noise[0].moves) < 1e-3
    assert noise[0] == noise[1]
    assert made == [(1,)], "what is compiled serves all prompts"
    target.gap_noise(PROMPT, ids, 4)
    assert made == [(1,), (4,)]
