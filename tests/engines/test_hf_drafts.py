"""What may stand beside what: tokens, padded vocabularies, exit layers, caches that cannot roll back."""

from __future__ import annotations

import numpy as np
import pytest

import tiny_models as tiny
from specq.core.errors import NonFiniteLogits, TokenizerMismatch, Unsupported
from specq.core.types import EXACT_RULES, DraftSpec, Sampling
from specq.engines.hf import HFEngine

PROMPT = tiny.prompt("abc abc, abd abc")
NEW = 24


def test_a_draft_with_other_tokens_of_the_same_number_is_accepted(target_of, tmp_path):
    pieces = list(tiny.PIECES)
    pieces[20], pieces[30] = pieces[30], pieces[20]
    other = tiny.save(tmp_path / "other", tiny.make("llama"), pieces=pieces)
    with pytest.raises(TokenizerMismatch, match=rf"id 20 is {tiny.PIECES[20]!r} in the target"):
        target_of("llama").decoder(DraftSpec(method="model", model=str(other), k=2))


@pytest.mark.parametrize("rule", EXACT_RULES)
@pytest.mark.parametrize(("wide", "narrow"), [(True, False), (False, True)], ids=["wide-draft", "wide-target"])
def test_padded_vocabularies_crash_or_change_the_tokens(folder_of, target_of, rule, wide, narrow):
    rows = tiny.V + 16
    target = target_of("llama", vocab_size=rows if narrow else tiny.V)
    draft = str(folder_of("llama", seed=0, noise=0.2, vocab_size=rows if wide else tiny.V))
    plain = target.decoder(None)
    decoder = target.decoder(DraftSpec(method="model", model=draft, k=4, rule=rule))
    want = plain.generate([PROMPT], tiny.greedy(NEW))[0]
    got = decoder.generate([PROMPT], tiny.greedy(NEW))[0]
    assert got.ids == want.ids
    assert decoder.generate([PROMPT, PROMPT], tiny.greedy(NEW), batch_size=2)[1].ids == want.ids
    for seed in range(4):
        warm = Sampling(temperature=0.9, max_new_tokens=NEW, ignore_eos=True, seed=seed)
        answer = decoder.generate([PROMPT], warm, logprobs=True)[0]
        assert len(answer.ids) == NEW
        assert np.isfinite(answer.logprobs).all()
        assert max(answer.ids) < target.vocabulary


@pytest.mark.parametrize("layers", [None, -1, 0, tiny.LAYERS, tiny.LAYERS + 5])
def test_an_exit_layer_out_of_range_is_run(target_of, layers):
    for kind in ("llama", "gpt2"):
        with pytest.raises(Unsupported, match="allowed is 1 to 2"):
            target_of(kind).decoder(DraftSpec(method="early_exit", layers=layers, k=2))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", [*tiny.DENSE, "window"])
def test_every_exit_layer_gives_the_plain_tokens(target_of, kind, layers):
    target = target_of(kind)
    want = target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0]
    got = target.decoder(DraftSpec(method="early_exit", layers=layers, k=3)).generate([PROMPT], tiny.greedy(NEW))[0]
    assert got.ids == want.ids


def test_an_early_exit_leaves_the_target_changed(target_of):
    """The view shares weights only: configs, layers and later plain decoding stay as they were."""
    target = target_of("window")
    before = target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0]
    target.decoder(DraftSpec(method="early_exit", layers=1, k=3)).generate([PROMPT], tiny.greedy(NEW))
    assert target.model.config.num_hidden_layers == len(target.model.model.layers) == tiny.LAYERS
    assert target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0].ids == before.ids


DRAFTS_ON_A_HYBRID = {
    "ngram": DraftSpec(method="lookup", k=3),
    "early_exit": DraftSpec(method="early_exit", layers=2, k=3),
    "self": DraftSpec(method="model", model="self", k=3),
}


@pytest.mark.parametrize("name", DRAFTS_ON_A_HYBRID)
def test_a_recurrent_target_is_rolled_back(target_of, name):
    with pytest.raises(Unsupported, match=r"^Qwen3NextForCausalLM keeps a recurrent state .*: run it without a draft"):
        target_of("hybrid").decoder(DRAFTS_ON_A_HYBRID[name])


def test_short_convolutions_lose_tokens_when_they_are_taken_back(target_of):
    """They keep their last inputs, not a state, so one block and several passes can both be taken back."""
    target = target_of("conv")
    want = target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0]
    assert list(want.ids) == tiny.uncached(target.model, PROMPT.ids, NEW)
    for name, spec in tiny.drafts("rejection", 3, "self").items():
        if name == "early_exit":
            with pytest.raises(Unsupported, match="layers = 2: none of them keeps keys and values"):
                target.decoder(spec)
        else:
            assert target.decoder(spec).generate([PROMPT], tiny.greedy(NEW))[0].ids == want.ids


def test_a_recurrent_draft_is_rolled_back(target_of, folder_of, monkeypatch):
    target = target_of("llama")
    monkeypatch.setattr(HFEngine, "load", lambda *_: pytest.fail("weights were loaded before the refusal"))
    with pytest.raises(Unsupported, match="Qwen3NextForCausalLM"):
        target.decoder(DraftSpec(method="model", model=str(folder_of("hybrid")), k=3))


def test_a_recurrent_target_cannot_even_decode_plainly(target_of):
    target = target_of("hybrid")
    got = target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0]
    assert list(got.ids) == tiny.uncached(target.model, PROMPT.ids, NEW)


def test_an_unknown_dtype_or_an_absent_device_is_taken():
    with pytest.raises(Unsupported, match="dtype 'int4': allowed are auto, float32"):
        HFEngine(dtype="int4")
    with pytest.raises(Unsupported, match="device 'tpu': allowed are auto, cuda, mps, cpu"):
        HFEngine(device="tpu")


@pytest.mark.parametrize("spec", [None, DraftSpec(method="model", model="self", k=2)], ids=["plain", "draft"])
def test_logits_that_are_not_finite_name_no_model(folder_of, spec):
    target = HFEngine(device="cpu", packed=False).open(str(folder_of("llama", seed=9)))
    target.model.get_output_embeddings().weight.data.fill_(float("nan"))
    said = "draft self, k = 2, rejection" if spec else "plain decoding"
    with pytest.raises(
        NonFiniteLogits, match=rf"llama, {said}: the model returned logits .*: lm_head.weight of the target holds"
    ):
        target.decoder(spec).generate([PROMPT], tiny.greedy(4))


def test_logits_of_a_draft_that_are_not_finite_are_blamed_on_the_target(folder_of):
    target = HFEngine(device="cpu", packed=False).open(str(folder_of("llama")))
    decoder = target.decoder(DraftSpec(method="model", model=str(folder_of("llama", seed=8)), k=2))
    decoder.target.draft_model(decoder.draft).get_output_embeddings().weight.data.fill_(float("nan"))
    with pytest.raises(
        NonFiniteLogits, match=r", rejection: in the draft, the model returned .*: lm_head.weight of the draft holds"
    ):
        decoder.generate([PROMPT], tiny.greedy(4))


def test_finite_weights_are_blamed_or_float32_is_advised_in_float32(folder_of, monkeypatch):
    for dtype, says in (("float32", "check the weights"), ("bfloat16", "try dtype float32, or check the weights")):
        target = HFEngine(device="cpu", dtype=dtype, packed=False).open(str(folder_of("llama", seed=9)))
        head = target.model.get_output_embeddings()
        head.register_forward_hook(lambda module, given, made: made * float("inf"))
        with pytest.raises(NonFiniteLogits, match=rf"after \d+ tokens: {says}$"):
            target.decoder(None).generate([PROMPT], tiny.greedy(4))


def test_weights_that_are_packed_hide_those_that_are_not_finite(tmp_path):
    """A layer with such a weight is never packed, so that its name is found."""
    model = tiny.make("llama")
    model.model.layers[1].mlp.up_proj.weight.data[2, 1] = float("inf")
    target = HFEngine(device="cpu").open(str(tiny.save(tmp_path / "broken", model)))
    with pytest.raises(NonFiniteLogits, match=r"model.layers.1.mlp.up_proj.weight of the target holds values"):
        target.decoder(None).generate([PROMPT], tiny.greedy(4))
