"""Weights perturbed by a known amount: what an eval must notice before "no loss found" means something."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import Conv1D

from specq.core.errors import Unsupported

# From this share of the weights on, what noise does not reach (routers, short convolutions) is not worth a word.
ENOUGH = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How many of a model's weights noise is put on, of how many.

    Embeddings and the output head are not counted: they stay as they are, as quantizers keep them. Neither are norms
    and biases.
    """

    noisy: int
    all: int

    @property
    def lacks(self) -> str:
        """That noise reaches too little of the model to stand for it, in words; "" where it reaches enough."""
        if self.noisy >= ENOUGH * self.all:
            return ""
        return (
            f"noise reaches {100 * self.noisy / self.all:.0f} % of the weights, for the others are in no linear layer"
        )


@torch.inference_mode()
def add_noise(model: nn.Module, share: float, seed: int = 0) -> Reach:
    """Add Gaussian noise to a model's linear layers in place, stacked experts too, and say how far it reached.

    Each row gets noise of `share` times its own standard deviation: at 4 bits in groups of 64, rounding moves weights
    by about a tenth of it.

    Raises:
        Unsupported: a weight lies outside of memory.
    """
    draws = torch.Generator().manual_seed(seed)
    for weight, columns in _noisy(model):
        if weight.is_meta:
            raise Unsupported("a weight lies outside of memory, where no noise can be put on it")
        # Matrix by matrix: a mixture's tensor in float32 may be larger than the model.
        for matrix in weight if weight.dim() == 3 else weight[None]:
            noise = torch.randn(matrix.shape, generator=draws).to(matrix.device)
            spread = matrix.float().std(dim=columns - weight.dim() + 2, keepdim=True)
            matrix.copy_((matrix.float() + share * spread * noise).to(matrix.dtype))
    return reach(model)


def reach(model: nn.Module) -> Reach:
    """What `add_noise` would reach; a model without memory for its weights will do."""
    noisy = {id(weight): weight.numel() for weight, _ in _noisy(model)}
    kept = _ends(model)
    whole = {
        id(weight): weight.numel()
        for module in model.modules()
        for name, weight in module._parameters.items()
        if weight is not None and weight.dim() >= 2 and not name.endswith("bias")
        if id(weight) not in kept and not isinstance(module, nn.Embedding)
    }
    return Reach(noisy=sum(noisy.values()), all=sum((whole | noisy).values()))


def _noisy(model: nn.Module) -> Iterator[tuple[Tensor, int]]:
    """Each weight that takes noise, with the dimension that its columns (inputs) go along."""
    kept = _ends(model)
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is None or id(weight) in kept or not weight.is_floating_point():
                continue
            if isinstance(module, nn.Linear | Conv1D):
                # A Conv1D keeps a linear layer's weight turned over.
                if name == "weight" and weight.dim() == 2:
                    yield weight, 0 if isinstance(module, Conv1D) else 1
            elif weight.dim() == 3 and not name.endswith("bias") and not isinstance(module, nn.modules.conv._ConvNd):
                # Experts [experts, outputs, inputs]; some families say that theirs are turned over.
                yield weight, 1 if getattr(module, "is_transposed", False) else 2


def _ends(model: nn.Module) -> set[int]:
    ends = (getattr(model, name, lambda: None)() for name in ("get_input_embeddings", "get_output_embeddings"))
    return {id(end.weight) for end in ends if end is not None}
