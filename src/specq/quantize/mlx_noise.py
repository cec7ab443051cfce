"""Weights of an mlx-lm model perturbed by a known amount."""

from __future__ import annotations

from typing import Any


def add_noise(model: Any, share: float, seed: int = 0) -> int:
    """As noise.add_noise, on the linear layers and experts of an mlx-lm model, the head kept; returns their count.

    Layers in few bits are made floats first: the grid of their integers would swallow the noise.
    """
    import mlx.core as mx
    import mlx.nn as nn
    from mlx_lm.models.switch_layers import SwitchLinear
    from mlx_lm.utils import dequantize_model

    dequantize_model(model)
    changed = 0
    for number, (name, module) in enumerate(model.named_modules()):
        if type(module) not in (nn.Linear, SwitchLinear) or name.endswith("lm_head"):
            continue
        weight = module.weight.astype(mx.float32)
        noise = mx.random.normal(weight.shape, key=mx.random.key(seed + number))
        # Columns go along the last dimension; experts [experts, outputs, inputs] have one more before.
        spread = mx.std(weight, axis=-1, keepdims=True)
        module.weight = (weight + share * spread * noise).astype(module.weight.dtype)
        changed += 1
    mx.eval(model.parameters())
    return changed
