"""The MLX engine against the reference engine: tokens, counts, ends and clocks; and caches."""

from __future__ import annotations

import numpy as np
import pytest
from mlx_specs import NEW, PROMPTS, spec

import tiny_models as tiny
from specq.core import clock
from specq.core.errors import Unsupported
from specq.core.records import LoadedModel
from specq.core.types import Sampling
from specq.engines.mlx import MLXEngine

WIDE = {"hidden_size": 128, "intermediate_size": 64, "num_hidden_layers": 2}
"""Heads of 32 columns, which a quantized cache can group."""
REQUESTS = {
    "plain": tiny.greedy(NEW),
    "penalty": tiny.greedy(NEW, repetition_penalty=1.4),
    "least": tiny.greedy(NEW, ignore_eos=False, eos_ids=tuple(range(4, 20)), min_new_tokens=9),
    "eos": tiny.greedy(NEW, ignore_eos=False, eos_ids=tuple(range(4, 12))),
    "stop": tiny.greedy(NEW, stop=("a", "e", "1", "z", ".", "m")),
    "one": tiny.greedy(1),
    "two": tiny.greedy(2),
}


@pytest.mark.parametrize("kind", ["llama", "qwen2", "mistral"])
@pytest.mark.parametrize("name", REQUESTS)
def test_tokens_or_ends_are_not_those_of_the_reference_engine(target_of, open_mlx, folder_of, kind, name):
    sampling = REQUESTS[name]
    wanted = target_of(kind).decoder(None).generate(PROMPTS, sampling)
    draft = spec(folder_of(kind, noise=0.2))
    drafted = target_of(kind).decoder(draft).generate(PROMPTS, sampling)
    plain = open_mlx(kind).decoder(None).generate(PROMPTS, sampling)
    mine = open_mlx(kind).decoder(draft).generate(PROMPTS, sampling)
    for want, same, other, reference in zip(wanted, plain, mine, drafted, strict=True):
        for got in (same, other):
            assert (got.ids, got.text, got.finish, got.prompt_id) == (want.ids, want.text, want.finish, want.prompt_id)
        assert tiny.counts(same) == tiny.counts(want)
        assert [(s.context, s.emitted) for s in other.steps] == [(s.context, s.emitted) for s in reference.steps]
        # But for the last block, where mlx-lm proposes one token more.
        whole = [s for s in zip(other.steps, reference.steps, strict=True) if s[0].proposed == s[1].proposed]
        assert [s.accepted for s, _ in whole] == [r.accepted for _, r in whole]
        for s in other.steps:
            assert 0 <= s.accepted <= s.proposed <= 3
            assert 1 <= s.emitted <= s.accepted + 1
        assert sum(s.emitted for s in other.steps) + 1 == len(other.ids)


def test_every_draft_is_refused_or_every_one_taken(open_mlx, folder_of):
    """The model as its own draft: all is accepted; a noisy copy is right some of the time."""
    target = open_mlx("llama")
    (own,) = target.decoder(spec("self", k=4)).generate(PROMPTS[:1], tiny.greedy(21))
    assert [(s.proposed, s.accepted, s.emitted) for s in own.steps] == [(4, 4, 5)] * 4
    (noisy,) = target.decoder(spec(folder_of("llama", noise=0.2), k=4)).generate(PROMPTS[:1], tiny.greedy(NEW))
    assert 0 < sum(s.accepted for s in noisy.steps) < sum(s.proposed for s in noisy.steps)


@pytest.mark.parametrize("warm", [False, True])
def test_a_prompt_leaves_something_behind_for_the_next(open_mlx, folder_of, warm):
    sampling = (
        Sampling(temperature=0.8, top_p=0.9, max_new_tokens=12, ignore_eos=True, seed=5) if warm else tiny.greedy(12)
    )
    for draft in (None, spec(folder_of("llama", noise=0.2))):
        decoder = open_mlx("llama").decoder(draft)
        first = {g.prompt_id: (g.ids, tiny.counts(g)) for g in decoder.generate(PROMPTS, sampling)}
        for got in decoder.generate([*PROMPTS[::-1], PROMPTS[0]], sampling):
            assert (got.ids, tiny.counts(got)) == first[got.prompt_id]


def test_another_seed_gives_the_same_text_or_the_same_seed_another(open_mlx):
    decoder = open_mlx("llama").decoder(None)
    texts = [
        decoder.generate(PROMPTS[:1], Sampling(temperature=1.0, max_new_tokens=12, seed=s))[0].ids for s in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("drafts", [False, True])
def test_time_is_lost_between_steps(open_mlx, folder_of, monkeypatch, drafts):
    """On a clock that ticks once a reading, the parts add up to the whole but for the two ends."""
    ticks = iter(range(10**6))
    decoder = open_mlx("llama").decoder(spec(folder_of("llama", noise=0.2)) if drafts else None)
    heard = []
    monkeypatch.setattr(clock, "now", lambda: float(next(ticks)))
    (got,) = decoder.generate(PROMPTS[:1], tiny.greedy(NEW), on_step=heard.append)
    assert heard == list(got.steps)
    inside = sum(s.verify_s + s.rest_s for s in got.steps)
    assert 0 <= got.e2e_s - got.ttft_s - inside <= 1
    assert got.ttft_s > 0
    assert all(min(s.verify_s, s.rest_s) > 0 for s in got.steps)
    assert all(s.draft_s == s.sample_s == 0 for s in got.steps)


def test_a_quantized_cache_is_quantized_only_after_thousands_of_tokens(open_mlx, folder_of):
    from mlx_lm.models.cache import KVCache, QuantizedKVCache

    target = open_mlx("llama", **WIDE)
    quantized = target.with_cache("q4")
    for one, kind in ((target, KVCache), (quantized, QuantizedKVCache)):
        cache = one.kv.new()
        one.kv.prefill(cache, PROMPTS[0].ids)
        assert {type(part) for part in cache} == {kind}
    plain = [one.decoder(None).generate(PROMPTS, tiny.greedy(NEW)) for one in (target, quantized)]
    assert [g.ids for g in plain[0]] != [g.ids for g in plain[1]]
    assert target.with_cache(None) is quantized.with_cache(None) is target
    assert target.with_cache("q4") is quantized
    # The prompt of 16 less its last token in one pass, that token, then one pass for each of 23 tokens.
    reads = [len(PROMPTS[0].ids) - 1, *(len(PROMPTS[0].ids) + i for i in range(NEW))]
    assert plain[1][0].cache_share == pytest.approx(1 - reads[0] / sum(reads))
    assert plain[0][0].cache_share is None
    sizes = [one.describe()["cache_bytes_per_token"] for one in (target, quantized, target.with_cache("q8"))]
    elements = 2 * 2 * 2 * 32
    assert sizes == [4 * elements, round(elements * (0.5 + 8 / 32)), round(elements * (1 + 8 / 32))]


@pytest.mark.parametrize("kind", ["q4", "q8"])
def test_drafts_change_the_text_of_a_quantized_cache(open_mlx, folder_of, kind):
    target = open_mlx("llama", **WIDE).with_cache(kind)
    draft = spec(folder_of("llama", **WIDE, noise=0.2))
    (plain,) = target.decoder(None).generate(PROMPTS[:1], tiny.greedy(NEW))
    (mine,) = target.decoder(draft).generate(PROMPTS[:1], tiny.greedy(NEW))
    assert mine.ids == plain.ids
    assert len({s.accepted for s in mine.steps}) > 1


def test_a_rounded_self_draft_is_the_target_or_changes_its_text(open_mlx):
    target = open_mlx("llama", **WIDE)
    (plain,) = target.decoder(None).generate(PROMPTS[:1], tiny.greedy(NEW))
    for head in ("keep", "quantize"):
        draft = spec("self", bits=4, group_size=64, head=head)
        assert target.draft_model(draft).kv.model is not target.kv.model
        (mine,) = target.decoder(draft).generate(PROMPTS[:1], tiny.greedy(NEW))
        assert mine.ids == plain.ids
        assert hasattr(target.draft_model(draft).kv.model.lm_head, "bits") == (head == "quantize")
        assert target.draft_model(draft).kv.model is target.draft_model(draft).kv.model
        assert "4-bit" in target.decoder(draft).notes[0]
    assert sum(s.accepted for s in mine.steps) < sum(s.proposed for s in mine.steps)
    # 0, all that an experiment allows at 8 bits, is mlx's own group.
    assert "8-bit, groups of 64" in target.decoder(spec("self", bits=8)).notes[0]
    with pytest.raises(Unsupported, match="bits = 4 with group_size = 48: the mlx engine has no such groups"):
        target.decoder(spec("self", bits=4, group_size=48))


def test_a_description_lacks_what_a_record_needs(open_mlx):
    told = open_mlx("llama").describe()
    record = LoadedModel(process=0, role="target", **told)
    assert record.dtype == "float32"
    assert record.weight_bytes == 4 * record.parameters
    assert any("verify_s" in note for note in record.notes)


def test_a_cast_leaves_the_weights_as_they_are(mlx_engine, folder_of):
    target = MLXEngine(device="cpu", dtype="bfloat16").open(str(folder_of("llama")))
    assert target.describe()["dtype"] == "bfloat16"
    assert target.weight_bytes == 2 * target.facts.parameters


def test_bfloat16_logarithms_make_ties():
    """Two near logits under a large sum: mlx-lm's own subtraction makes them equal, and the lower id would win."""
    import mlx.core as mx

    from specq.engines.mlx_decoder import make_processors, make_sampler

    row = np.full(20000, 3.0, dtype=np.float32)
    row[7], row[9] = 4.0, 4.03125
    logits = mx.array(row[None]).astype(mx.bfloat16)
    planted = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    assert int(mx.argmax(planted).item()) == 7
    for processor in make_processors(Sampling(), (1,), ()):
        logits = processor(mx.array([1]), logits)
    right = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    assert int(make_sampler(Sampling(), len(row))(right).item()) == 9


@pytest.mark.real_model
def test_the_built_in_model_says_something_else_than_in_the_reference_engine(one_thread):
    """Eight tokens in bfloat16: at the first difference, if there is one, the two were nearly tied."""
    from specq.engines.hf import HFEngine

    mine, reference = MLXEngine(device="cpu"), HFEngine(device="cpu", dtype="bfloat16")
    with mine.open("builtin:smollm2-135m") as target, reference.open("builtin:smollm2-135m") as other:
        prompt = other.encode([{"role": "user", "content": "Name three planets."}])
        (got,) = target.decoder(None).generate([prompt], tiny.greedy(8))
        (want,) = other.decoder(None).generate([prompt], tiny.greedy(8))
        found = other.audit_greedy("mlx", prompt, got.ids, want.ids)
        assert all(gap < 0.5 for _, gap in found.gaps)
        assert len(found.gaps) <= 2
        assert target.describe()["dtype"] == "bfloat16"
