"""One model with its cache: feed tokens, take logits, roll back what was refused.

Rolling back goes through transformers' own `crop` with a negative count. A sliding-window layer
keeps what a rollback needs only between a forward and the `crop` after it, so every forward that
may be rolled back must be followed by `rollback`, zero tokens included. Plain decoding rolls nothing
back, so its cache is never cropped and may be of any kind.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from transformers import Cache, DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import (
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
)

from specq.core.errors import Unsupported
from specq.core.types import CacheType
from specq.decoding.quantized_cache import QuantizedCache

Keep = Literal["nothing", "window", "everything"]
CACHES = ("past_key_values", "cache_params", "state")
"""Under which names a forward takes what it left behind: keys and values, or a recurrent state."""


class Session:
    """A model, a cache and how many tokens it holds; batch of one.

    keep = "nothing": the cache that transformers' `generate` would use, and no rollback. keep = "window":
    sliding-window layers hold their window, and each forward is followed by one rollback. keep =
    "everything": all layers hold all tokens (the model's mask still applies the window), so that several
    forwards can be rolled back at once, as a draft needs. `kv_cache` "q8" or "q4" keeps keys and values in
    that many bits.
    """

    def __init__(self, model: PreTrainedModel, *, keep: Keep = "window", kv_cache: CacheType | None = None) -> None:
        name = cache_name(model)
        if name is None or (keep != "nothing" and name != CACHES[0]):
            raise Unsupported(no_cache(type(model).__name__))
        self._argument: str = name
        self.model = model
        self.keep, self.kv_cache = keep, kv_cache
        weight = embedding(model)
        self.device, self._rows = weight.device, weight.shape[0]
        self._last_only = {"logits_to_keep": 1} if takes(model, "logits_to_keep") else {}
        self.restart()

    def restart(self) -> None:
        """Forget everything; the next forward is a prefill."""
        self.cache: Any = new_cache(self.model, self.keep, self.kv_cache)
        self.length = 0

    def forward(self, ids: Sequence[int], *, last_only: bool = False) -> Tensor:
        """Feed tokens after those that the cache holds.

        An id beyond the model's rows is read as its last row: a draft with a less padded vocabulary
        than the target's may be fed such a one, and stays exact whatever it makes of it.

        Returns:
            logits [R, V] in the model's dtype; R is 1 with last_only, else the number of tokens.
        """
        batch = torch.tensor([ids], dtype=torch.long, device=self.device).clamp_(max=self._rows - 1)
        extra: dict[str, Any] = {self._argument: self.cache, **(self._last_only if last_only else {})}
        out = self.model(input_ids=batch, use_cache=True, **extra)
        if not isinstance(self.cache, DynamicCache):
            # A model with a cache of its own kind makes it itself and hands it back.
            self.cache = getattr(out, self._argument)
        logits = out.logits[0]
        self.length += len(ids)
        return logits[-1:] if last_only else logits

    def rollback(self, tokens: int) -> None:
        """Remove the last `tokens` tokens (0 included) from the cache."""
        if tokens and self.keep == "nothing":
            raise ValueError(f"rollback of {tokens} tokens in a session that keeps nothing for it")
        if tokens or self.keep == "window":
            self.cache.crop(-tokens)
        self.length -= tokens


def new_cache(model: PreTrainedModel, keep: Keep, kv_cache: CacheType | None = None) -> Cache | None:
    """An empty cache for the model, ready to be rolled back; None where the model makes its own."""
    if kv_cache is not None:
        quantized = QuantizedCache(model.config, kv_cache, windowed=keep != "everything")
        if keep != "nothing":
            quantized.activate_past_recording()
        return quantized
    if keep == "nothing" and not cast(Any, model)._supports_default_dynamic_cache():
        return None
    cache = DynamicCache(config=model.config)
    if keep == "everything":
        # In place of a window, a layer that forgets nothing; others than these are kept as they are.
        for i, layer in enumerate(cache.layers):
            if type(layer) is DynamicSlidingWindowLayer:
                cache.layers[i] = DynamicLayer()
            elif type(layer) is LinearAttentionAndSlidingWindowAttentionLayer:
                cache.layers[i] = LinearAttentionAndFullAttentionLayer(number_of_states=layer.number_of_states)
    if keep != "nothing":
        cache.activate_past_recording()
    return cache


def cache_name(model: PreTrainedModel | type[PreTrainedModel]) -> str | None:
    """The argument of CACHES that the model's forward takes its cache or state in, or None."""
    return next((name for name in CACHES if takes(model, name)), None)


def embedding(model: PreTrainedModel) -> Tensor:
    """The input embedding's weight; token ids are fed to its device, also under a device map."""
    weight = model.get_input_embeddings().weight
    assert isinstance(weight, Tensor)
    return weight


def no_cache(name: str) -> str:
    """Why a model whose forward takes no key-value cache cannot be rolled back, or run at all."""
    return (
        f"{name} keeps no key-value cache that specq could roll back: use a model with attention, "
        "or run a recurrent one without a draft"
    )


def takes(model: PreTrainedModel | type[PreTrainedModel], argument: str) -> bool:
    """Whether the model's forward has an argument of that name."""
    return argument in inspect.signature(model.forward).parameters


def shallow(model: PreTrainedModel, layers: int) -> PreTrainedModel:
    """A view of the model that runs its first `layers` decoder layers, then its own norm and head.

    All weights are shared with the model; only the config and the list of layers are new.

    Raises:
        Unsupported: the layer count is out of range, or the list of layers was not found.
    """
    total = model.config.get_text_config(decoder=True).num_hidden_layers
    if not 1 <= layers < total:
        raise Unsupported(f"early exit at layer {layers}: this model has {total} layers, allowed is 1 to {total - 1}")
    config = copy.deepcopy(model.config)
    text = config.get_text_config(decoder=True)
    text.num_hidden_layers = layers
    if getattr(text, "layer_types", None):
        text.layer_types = list(text.layer_types)[:layers]
    found: list[str] = []
    view = cast(PreTrainedModel, _copy_path(model, config, total, layers, found))
    if len(found) != 1:
        raise Unsupported(
            f"early exit: {type(model).__name__} has {len(found)} lists of {total} layers, expected one; "
            "use a draft of method 'lookup' or 'model' instead"
        )
    return view


def _copy_path(module: nn.Module, config: PreTrainedConfig, total: int, layers: int, found: list[str]) -> nn.Module:
    """Copy the modules that lie on the way to the layer list; everything else stays shared."""
    view = copy.copy(module)
    if "_old_forward" in view.__dict__:
        # accelerate bound the original's forward to it; the view must run its own. Its parts keep their hooks.
        for name in ("forward", "_old_forward", "_hf_hook"):
            view.__dict__.pop(name, None)
    view._modules = dict(module._modules)
    if hasattr(module, "config"):
        view.__dict__["config"] = config
    for name, child in module.named_children():
        if isinstance(child, nn.ModuleList) and len(child) == total:
            found.append(name)
            view._modules[name] = nn.ModuleList(list(child)[:layers])
        elif any(isinstance(m, nn.ModuleList) and len(m) == total for m in child.modules()):
            view._modules[name] = _copy_path(child, config, total, layers, found)
    return view
