"""The cache that transformers really keeps of tiny models, beside the one that sizing counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from specq.lab.size import size_models

TOKENS = 12


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt2", "conv", "hybrid"])
def test_transformers_keeps_more_or_less_than_is_counted(folder_of: Callable[..., Path], kind: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    folder = folder_of(kind)
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    with torch.inference_mode():
        kept = model(input_ids=torch.arange(4, 4 + TOKENS)[None], use_cache=True).past_key_values
    pairs = [(getattr(layer, "keys", None), getattr(layer, "values", None)) for layer in kept.layers]
    cache = sum(one.numel() for pair in pairs for one in pair if one is not None)
    states = [getattr(layer, name, None) or {} for layer in kept.layers for name in ("conv_states", "recurrent_states")]
    state = sum(one.numel() for found in states for one in found.values() if one is not None)

    (sized,) = size_models(str(folder)).models
    shape = sized.model.shape
    assert shape.cache_bytes(TOKENS, "fp16") == 2 * cache
    assert shape.state_elements == state
    weights = sized.model.weights
    assert (weights.origin, weights.parameters) == ("stored", sum(one.numel() for one in model.parameters()))
    assert weights.bytes == 4 * (weights.parameters or 0)
