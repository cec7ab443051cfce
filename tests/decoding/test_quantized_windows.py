"""Quantized caches of models with sliding windows: each text is that of a twin which reads all of it anew each time."""

from __future__ import annotations

import pytest
import torch
import transformers

import tiny_models as tiny
from specq.core.types import DraftSpec
from specq.decoding.quantized_cache import QuantizedCache, QuantizedLayer
from specq.engines.hf import HFEngine

pytestmark = pytest.mark.usefixtures("one_thread")
WINDOW = 7
SIZES = {
    "vocab_size": tiny.V,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": tiny.CONTEXT,
    "sliding_window": WINDOW,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 3,
}
ALTERNATE = ["sliding_attention", "full_attention", "sliding_attention"]
MODELS = {
    "MistralConfig": {},
    "Gemma2Config": {"query_pre_attn_scalar": 32, "layer_types": ALTERNATE},
    "Gemma3TextConfig": {"query_pre_attn_scalar": 32, "layer_types": ALTERNATE},
}
DRAFTS = {
    "plain": None,
    "lookup": DraftSpec(method="lookup", k=3, rule="greedy_draft", min_ngram=1),
    "early exit": DraftSpec(method="early_exit", layers=2, k=3),
}
PROMPT, TOKENS = tiny.prompt("the cat and the cat and "), 40


@pytest.fixture(scope="module")
def target_of(tmp_path_factory):
    """The opened target of a config, float32 on the CPU."""
    opened = {}

    def target(name):
        if name not in opened:
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(tiny.CONFIGS, name, (name, {**SIZES, **MODELS[name]}))
                folder = tiny.save(tmp_path_factory.mktemp("windows") / name, tiny.make(name))
            opened[name] = HFEngine(device="cpu").open(str(folder))
        return opened[name]

    return target


@torch.inference_mode()
def slow(model, kind):
    """The greedy text where every token is a prefill of all before it, on a cache that drops nothing."""
    ids = list(PROMPT.ids)
    for _ in range(TOKENS):
        cache = QuantizedCache(model.config, kind, windowed=False)
        logits = model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True).logits
        ids.append(int(logits[0, -1].argmax()))
    return tuple(ids[len(PROMPT.ids) :])


def text(target, kind, draft):
    (answer,) = target.with_cache(kind).decoder(draft).generate([PROMPT], tiny.greedy(TOKENS))
    assert answer.cache_share == 1.0
    return answer.ids


@pytest.mark.parametrize("kind", ["q8", "q4"])
@pytest.mark.parametrize("name", MODELS)
def test_a_window_on_a_quantized_cache_gives_another_text(target_of, name, kind):
    target = target_of(name)
    cache = QuantizedCache(target.model.config, kind, windowed=True)
    assert WINDOW in {layer.window for layer in cache.layers}
    want = slow(target.model, kind)
    assert len(set(want)) > 3
    assert {draft: text(target, kind, spec) for draft, spec in DRAFTS.items()} == dict.fromkeys(DRAFTS, want)


@pytest.mark.parametrize("name", MODELS)
def test_a_window_that_is_one_token_short_goes_unseen(target_of, name, monkeypatch):
    """The planted bug that the texts above must catch."""
    target, honest = target_of(name), QuantizedLayer.__init__
    monkeypatch.setattr(QuantizedLayer, "__init__", lambda self, f, window=None: honest(self, f, window and window - 1))
    assert text(target, "q8", None) != slow(target.model, "q8")


def test_the_window_of_these_models_hides_nothing(target_of):
    """Else the texts above would be right with any window."""
    for name in MODELS:
        target = HFEngine(device="cpu", packed=False).open(str(target_of(name).resolved.folder))
        wide = transformers.AutoConfig.from_pretrained(target.resolved.folder, sliding_window=tiny.CONTEXT)
        model = type(target.model)(wide).eval()
        model.load_state_dict(target.model.state_dict())
        assert slow(model, "q8") != slow(target.model, "q8")
