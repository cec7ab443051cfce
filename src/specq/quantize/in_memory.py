"""A dense model's own quantized twin, made in memory: the draft of a float target that drafts for itself."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import nn
from transformers import PreTrainedModel

from specq.core.errors import ConfigError, Unsupported
from specq.core.types import Prefill
from specq.quantize.crossovers import Crossovers
from specq.quantize.dense import PackedLinear
from specq.quantize.kernels import KernelLinear
from specq.quantize.layers import is_gate
from specq.quantize.packed import round_to_nearest
from specq.quantize.recipes import ROW
from specq.quantize.replace import Quantized, Swap, weight_of

BITS = (8, 4)
GROUP = 32
"""Columns a scale at 4 bits, unless asked otherwise: the finest group that the kernel takes."""
M = TypeVar("M", bound=nn.Module)


def quantize_in_memory(
    model: PreTrainedModel,
    *,
    bits: int,
    group_size: int | None = None,
    symmetric: bool | None = None,
    head: bool = False,
    prefill: Prefill = "dense",
    crossovers: Crossovers | None = None,
) -> Quantized:
    """A view of a dense model whose linear layers are rounded to nearest.

    8 bits take one scale a row on a symmetric grid, 4 bits groups of `group_size` columns (32 unless told), each
    from its smallest weight to its largest unless `symmetric`: the 4-bit kernel takes offsets at no cost.
    Embeddings, norms and whatever else stays in floats are the model's own; so is the head, unless `head` is set.
    Layers that choose experts are kept. `bytes_held` counts the shared weights too.

    Raises:
        ConfigError: the bits are unknown, or the group does not divide a layer's columns.
        Unsupported: the model is quantized already, or has no linear layers.
    """
    if bits not in BITS:
        raise ConfigError(f"bits = {bits}: a draft that is its own target takes 8 or 4")
    size = ROW if bits == 8 and group_size is None else GROUP if group_size is None else group_size
    symmetric = bits != 4 if symmetric is None else symmetric
    view = _copied(model)
    top = model.get_output_embeddings()
    chosen: dict[str, nn.Linear | PackedLinear] = {}
    for name, module in model.named_modules():
        if isinstance(module, KernelLinear):
            raise Unsupported("this model is quantized already: name a model in floats, or draft with another one")
        kept = is_gate(name) or (module is top and not head)
        if isinstance(module, nn.Linear | PackedLinear) and not kept:
            chosen[name] = module
    if not chosen:
        raise Unsupported(f"{type(model).__name__} has no linear layers to quantize: draft with another model")
    if wrong := [name for name, module in chosen.items() if size and module.in_features % size]:
        columns = sorted({chosen[name].in_features for name in wrong})
        raise ConfigError(
            f"group_size = {size} does not divide {', '.join(map(str, columns))} columns of {len(wrong)} layers "
            f"(first: {wrong[0]}): allowed is a divisor, 32 or 64 first"
        )
    swap = Swap(view, prefill, {}, crossovers)
    for name, module in chosen.items():
        swap.put(name, round_to_nearest(weight_of(module), bits, size, symmetric=symmetric))
    return swap.result("in memory")


def _copied(module: M) -> M:
    """The tree of modules anew, all weights and buffers shared."""
    view = copy.copy(module)
    for name in ("forward", "_old_forward", "_hf_hook"):
        # accelerate bound the original's forward to it; the view must run its own.
        view.__dict__.pop(name, None)
    view._parameters, view._buffers = dict(module._parameters), dict(module._buffers)
    view._modules = {name: None if child is None else _copied(child) for name, child in module._modules.items()}
    return view
