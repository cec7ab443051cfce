"""Why a model's logits are not finite: its weights, or a dtype that they are computed in."""

from __future__ import annotations

import torch
from torch import nn

WEIGHTS = "holds values that are not finite: fetch the model again, or make it anew"
"""What is wrong with a tensor, after its name."""


def advice(dtype: str) -> str:
    """What to try where logits of a dtype are not finite and nothing else is known."""
    return "check the weights" if dtype == "float32" else "try dtype float32, or check the weights"


@torch.inference_mode()
def broken(model: nn.Module) -> str | None:
    """The name of a tensor of a model that has NaN or infinite values, None where all are finite.

    Only parameters and what is stored beside them are read; a mask that a model makes for itself may hold -inf.
    """
    for name, tensor in model.state_dict().items():
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            return name
    return None
