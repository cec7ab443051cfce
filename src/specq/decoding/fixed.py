"""What a compiled pass runs on: a cache of fixed length, and a twin of the model that a compiler can read.

Shapes: R rows, C cache slots, H query heads, h key-value heads, D values a head.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from types import MethodType
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn
from transformers import Cache, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from specq.core.errors import Unsupported

ATTENTION = "specq_fixed"
"""The name under which transformers finds `attend`."""
SUMMED = 600_000
"""Up to so many products of a query's and a key's values in a layer, attention on a CPU is written as sums.

Measured on two cores, 3 to 72 query rows a key-value head: sums took a quarter to all of the matrix products' time
below, and up to five times as long above.
"""


class FixedCache(Cache):
    """Keys and values in C slots a layer, zero at first; a pass writes to the slots that `slots` [R] names."""

    def __init__(self, capacity: int) -> None:
        super().__init__(layers=[])
        self.capacity = capacity
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self.slots = torch.zeros(0, dtype=torch.long)

    def take(self, pairs: Iterable[tuple[Tensor, Tensor]], tokens: int) -> None:
        """Copy the first `tokens` tokens of another cache's keys and values [1, h, T, D]; allocates on first use."""
        pairs = list(pairs)
        if not self.keys:
            # Outside inference mode, whose tensors a compiler cannot take as inputs that change.
            with torch.inference_mode(False):
                for new, old in ((self.keys, [k for k, _ in pairs]), (self.values, [v for _, v in pairs])):
                    new += [t.new_zeros(*t.shape[:2], self.capacity, t.shape[-1]) for t in old]
        for (key, value), mine, other in zip(pairs, self.keys, self.values, strict=True):
            mine[:, :, :tokens].copy_(key[:, :, :tokens])
            other[:, :, :tokens].copy_(value[:, :, :tokens])

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any) -> Any:
        """Write the pass's keys and values to its slots; return all C slots, which the mask sorts out."""
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        keys.index_copy_(2, self.slots, key_states)
        values.index_copy_(2, self.slots, value_states)
        return keys, values


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    scaling: float | None = None,
    dropout: float = 0.0,
    **more: Any,
) -> tuple[Tensor, None]:
    """Attention of few rows over all slots, its softmax in float32: softmax(q k / scale + mask) v.

    The fused kernels unpack all keys at every call and take longer for few rows. Where there is little to multiply,
    products and sums become loops of the compiler's own, in float32, which cost less than calling two matrix
    products. Passes of one row and of several may so round differently, as they do in the linear layers.

    Returns:
        [1, R, H, D], and no weights.

    Raises:
        Unsupported: the model's attention does more than that.
    """
    if other := sorted(name for name in ("softcap", "s_aux", "position_bias") if more.get(name) is not None):
        raise Unsupported(f"compile = true: {type(module).__name__} uses {', '.join(other)}: leave compile out")
    batch, heads, rows, size = query.shape
    groups = key.shape[1]
    grouped = query.reshape(batch, groups, heads // groups * rows, size)
    by_sums = key.is_cpu and heads * rows * key.shape[2] * size <= SUMMED
    if by_sums:
        scores = (grouped[:, :, :, None].float() * key[:, :, None].float()).sum(-1)
    else:
        scores = (grouped @ key.transpose(-1, -2)).float()
    scores = scores * (size**-0.5 if scaling is None else scaling)
    weights = (scores.unflatten(2, (-1, rows)) + mask[:, :, None]).softmax(dim=-1).flatten(2, 3)
    if by_sums:
        out = (weights[..., None] * value[:, :, None].float()).sum(-2).to(value.dtype)
    else:
        out = weights.to(value.dtype) @ value
    return out.view(batch, heads, rows, -1).transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS.register(ATTENTION, attend)


_HELD: WeakValueDictionary[int, nn.Module] = WeakValueDictionary()
_OPS = torch.library.Library("specq", "DEF")
_OPS.define("held(Tensor x, int key, int out) -> Tensor")
_OPS.impl("held", lambda x, key, out: _HELD[key](x), "CPU")
torch.library.register_fake("specq::held", lambda x, key, out: x.new_empty((*x.shape[:-1], out)), lib=_OPS)


class Held(nn.Module):
    """A linear layer whose packed weights a compiler cannot read, as one opaque operator."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.linear, self.key, self.out = linear, id(linear), int(linear.out_features)
        _HELD[self.key] = linear

    def forward(self, x: Tensor) -> Tensor:
        """X [..., in_features] to [..., out_features]."""
        return torch.ops.specq.held(x, self.key, self.out)


def twin(model: PreTrainedModel) -> PreTrainedModel:
    """A copy of the model's modules on the same tensors, with `attend` as attention and layers compiled but once.

    Linear layers that hold oneDNN's packed tensors become Held.
    """
    memo: dict[int, Any] = {}
    for module in model.modules():
        for tensor in (*module._parameters.values(), *module._buffers.values(), *vars(module).values()):
            if isinstance(tensor, Tensor):
                memo[id(tensor)] = tensor
    view = copy.deepcopy(model, memo)
    view.config._attn_implementation = ATTENTION
    for parent in list(view.modules()):
        for name, child in list(parent.named_children()):
            if any(isinstance(value, Tensor) and value.is_mkldnn for value in vars(child).values()):
                setattr(parent, name, Held(child))
    layers = model.config.get_text_config(decoder=True).num_hidden_layers
    for found in view.modules():
        if isinstance(found, nn.ModuleList) and len(found) == layers:
            for layer in found:
                # One graph for all layers: traced each, compiled once.
                region = torch.compiler.nested_compile_region(type(layer).forward)
                layer.forward = MethodType(region, layer)
    return view
