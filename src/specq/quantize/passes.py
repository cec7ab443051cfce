"""Models opened for one forward pass and a look at their weights, each through the library that reads its folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specq.core.errors import ModelError
from specq.models.quiet import quiet
from specq.quantize.contents import Contents

_LIBRARY = "transformers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A model in memory.

    `logits` maps token ids [T] to logits [T, V] float32; `weight` a layer's name to its weights [rows, columns]
    float32, dequantized, None where it has no layer of that name; `words` say how it computes.
    """

    logits: Callable[[Sequence[int]], np.ndarray]
    weight: Callable[[str], np.ndarray | None]
    words: str


def opened(contents: Contents) -> Opened:
    """The model of a folder in float32, or in what fits the memory.

    Raises:
        ModelError: weights are missing, or nothing here reads the format. Libraries raise what they like.
    """
    if contents.declared.format.startswith("mlx"):
        return _by_mlx(contents)
    exact = _fits_float32(contents)
    name = "float32" if exact else "bfloat16"
    with quiet():
        model, reader = _quantized(contents, name) if contents.declared.format else (_plain(contents, name), _LIBRARY)
    return _by_torch(model, f"in {'float32' if exact else 'bfloat16 (memory)'} through {reader}")


def _fits_float32(contents: Contents) -> bool:
    import psutil

    return 5 * contents.elements < psutil.virtual_memory().available


def _quantized(contents: Contents, dtype: str) -> tuple[Any, str]:
    """All weights dequantized, every float in `dtype`, and what read them: read late, some are in another one."""
    import torch

    from specq.decoding.runnable import load_config, model_class
    from specq.quantize import load

    lacks = not getattr(model_class(load_config(contents.folder)), "_supports_sdpa", True)
    attention = "eager" if lacks else "sdpa"
    if load.without_kernels(contents.folder):
        return load.load_quantized(contents.folder, dtype=dtype, attention=attention).model, _LIBRARY
    return load.load_dense(contents.folder, dtype=getattr(torch, dtype), attention=attention), "specq's own reader"


def _plain(contents: Contents, dtype: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    found: Any = AutoModelForCausalLM.from_pretrained(
        contents.folder,
        dtype=getattr(torch, dtype),
        local_files_only=True,
        trust_remote_code=False,
        output_loading_info=True,
    )
    model, loaded = found
    # transformers draws at random what it does not find, and says so in a warning only.
    if absent := sorted(map(str, [*loaded["missing_keys"], *loaded["mismatched_keys"]])):
        raise ModelError(
            f"transformers finds no weights for {len(absent)} tensors in {contents.folder}, such as {absent[0]}, and "
            "would draw them at random"
        )
    return model.eval()


def _by_torch(model: Any, words: str) -> Opened:
    import torch

    @torch.no_grad()
    def logits(ids: Sequence[int]) -> np.ndarray:
        with quiet():
            found: np.ndarray = model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0].float().numpy()
            return found

    def weight(name: str) -> np.ndarray | None:
        try:
            layer = model.get_submodule(name)
        except AttributeError:
            return None
        return layer.weight.detach().float().numpy() if isinstance(layer, torch.nn.Linear) else None

    return Opened(logits=logits, weight=weight, words=words)


def _by_mlx(contents: Contents) -> Opened:
    import mlx.core as mx
    from mlx.utils import tree_map
    from mlx_lm.utils import load_model

    from specq.quantize.mlx_methods import leaves

    model: Any
    with quiet():
        model, _ = load_model(contents.folder)
    exact = _fits_float32(contents)
    if exact:
        # Scales in float32 give the stored numbers unrounded.
        model.update(
            tree_map(lambda v: v.astype(mx.float32) if mx.issubdtype(v.dtype, mx.floating) else v, model.parameters())
        )

    def logits(ids: Sequence[int]) -> np.ndarray:
        return np.array(model(mx.array([list(ids)]))[0].astype(mx.float32))

    def weight(name: str) -> np.ndarray | None:
        layer = dict(leaves(model)).get(name)
        if layer is None or getattr(layer, "weight", None) is None or layer.weight.ndim != 2:
            return None
        if not hasattr(layer, "bits"):
            return np.array(layer.weight.astype(mx.float32))
        how = {"group_size": layer.group_size, "bits": layer.bits, "mode": layer.mode}
        dense = mx.dequantize(layer.weight, layer.scales, layer.get("biases"), **how)
        return np.array(dense.astype(mx.float32))

    words = f"in {'float32' if exact else 'its own dtype (memory)'} through mlx-lm"
    return Opened(logits=logits, weight=weight, words=words)
