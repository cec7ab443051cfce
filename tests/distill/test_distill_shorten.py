from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

import tiny_models
from specq.core.errors import Unsupported
from specq.distill import shorten
from tiny_models import DENSE, LAYERS

IDS = torch.tensor([[1, 7, 30, 12, 9, 25, 7, 7, 41, 5]])


@torch.inference_mode()
def by_hand(model: transformers.PreTrainedModel, keep: tuple[int, ...]) -> torch.Tensor:
    """Logits of a Llama's layers, called one after another without any config of fewer layers."""
    inner: Any = model.model
    hidden = inner.embed_tokens(IDS)
    positions = torch.arange(IDS.shape[1])[None]
    rotary = inner.rotary_emb(hidden, position_ids=positions)
    mask = torch.full((1, 1, IDS.shape[1], IDS.shape[1]), -torch.inf).triu(1)
    for i in keep:
        hidden = inner.layers[i](
            hidden, attention_mask=mask, position_embeddings=rotary, position_ids=positions, past_key_values=None
        )
    logits: torch.Tensor = model.lm_head(inner.norm(hidden))
    return logits


@pytest.mark.parametrize("keep", [(0,), (2,), (0, 2), (1, 2)])
def test_the_layers_are_others_than_the_targets(one_thread: None, keep: tuple[int, ...]) -> None:
    target = tiny_models.make("llama")
    model = shorten.build(target, keep)
    shorten.check(target, model, keep)
    assert model.config.num_hidden_layers == len(keep)
    torch.testing.assert_close(model(input_ids=IDS).logits, by_hand(target, keep), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [*DENSE, "window", "conv"])
@pytest.mark.parametrize("tied", [False, True])
def test_all_layers_are_not_the_target(one_thread: None, kind: str, tied: bool) -> None:
    target = tiny_models.make(kind, tie_word_embeddings=tied)
    whole = tuple(range(LAYERS))
    model = shorten.build(target, whole)
    shorten.check(target, model, whole)
    assert torch.equal(model(input_ids=IDS).logits, target(input_ids=IDS).logits)
    shared = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert shared is tied
    own = {p.data_ptr() for p in target.parameters()}
    assert not own & {p.data_ptr() for p in model.parameters()}


@pytest.mark.parametrize("kind", [*DENSE, "window", "conv"])
def test_a_family_cannot_be_shortened(one_thread: None, kind: str) -> None:
    target = tiny_models.make(kind)
    model = shorten.build(target, (0, 2))
    before = target(input_ids=IDS).logits
    shorten.check(target, model, (0, 2))
    # The target is whole again after the check.
    assert torch.equal(target(input_ids=IDS).logits, before)


@pytest.mark.parametrize("wrong", [(0, 1), (1, 2)])
def test_layers_of_another_place_pass_the_check(one_thread: None, wrong: tuple[int, ...]) -> None:
    target = tiny_models.make("qwen2")
    with pytest.raises(Unsupported, match=r"cannot be shortened here"):
        shorten.check(target, shorten.build(target, wrong), (0, 2))


def test_kinds_of_layers_change_places(one_thread: None) -> None:
    kinds = ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]
    config = transformers.Qwen2Config(
        num_hidden_layers=4, layer_types=kinds, sliding_window=64, use_sliding_window=True, max_window_layers=0
    )
    assert shorten.shortened(config, (0, 3)).layer_types == ["full_attention", "sliding_attention"]
    assert shorten.shortened(config, (1, 3)).layer_types == ["sliding_attention"] * 2


def test_a_kind_that_follows_from_the_place_is_lost(one_thread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ["full_attention", "sliding_attention", "full_attention"]
    config = transformers.Qwen2Config(
        num_hidden_layers=3, layer_types=kinds, sliding_window=64, use_sliding_window=True
    )
    # A config class that made its kinds anew would put the first layers' in the place of those kept.
    monkeypatch.setattr(
        shorten, "_of_layers", lambda key, value, keep, total: value if key != "layer_types" else kinds[:2]
    )
    with pytest.raises(Unsupported, match="does not carry over"):
        shorten.shortened(config, (0, 2))


def test_logits_that_are_more_than_the_heads_are_learned_wrongly(one_thread: None) -> None:
    config = transformers.Gemma2Config(
        vocab_size=tiny_models.V,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        final_logit_softcapping=0.5,
    )
    torch.manual_seed(0)
    target = transformers.AutoModelForCausalLM.from_config(config).eval()
    for p in target.parameters():
        p.data.normal_(0, 0.3)
    with pytest.raises(Unsupported, match="a cap or a scale"):
        shorten.check(target, shorten.build(target, (0, 2)), (0, 2))


def test_layers_that_overflow_are_blamed_on_the_architecture(one_thread: None) -> None:
    target = tiny_models.make("llama")
    model = shorten.build(target, (0, 2))
    for one in (target, model):
        one.get_output_embeddings().register_forward_hook(lambda module, given, made: made * float("inf"))
    with pytest.raises(Unsupported, match=r"the logits of layers 0, 2 alone are not finite in float32, though the w"):
        shorten.check(target, model, (0, 2))
