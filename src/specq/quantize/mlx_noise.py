"""Weights of an mlx-lm model perturbed by a known amount."""

from __future__ import annotations

from typing import Any


def add_noise(model: Any, share: float, seed: int = 0) -> int:
    """As noise.add_noise, on the linear layers of an mlx-lm model that are in floats, the head kept."""
    import mlx.core as mx
    import mlx.nn as nn

    changed = 0
    for number, (name, module) in enumerate(model.named_modules()):
        if type(module) is not nn.Linear or name.endswith("lm_head"):
            continue
        weight = module.weight.astype(mx.float32)
        noise = mx.random.normal(weight.shape, key=mx.random.key(seed + number))
        spread = mx.std(weight, axis=1, keepdims=True)
        module.weight = (weight + share * spread * noise).astype(module.weight.dtype)
        changed += 1
    mx.eval(model.parameters())
    return changed
