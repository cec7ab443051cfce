"""What each layer of a model keeps from token to token, read from config.json alone.

The names of the keys are those that transformers' configuration classes write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from specq.core.errors import ModelError


class BadSize(ModelError):
    """A size in a config is no whole number above 0; `said` is the message without the file."""

    def __init__(self, said: str) -> None:
        super().__init__(f"config.json: {said}")
        self.said = said


LayerKind = Literal["attention", "sliding", "linear", "recurrent", "conv", "none"]

_NAMED: dict[str, LayerKind] = {
    "full_attention": "attention",
    "attention": "attention",
    "*": "attention",
    "sliding_attention": "sliding",
    "chunked_attention": "sliding",
    "hybrid_sliding": "sliding",
    "linear_attention": "linear",
    "conv": "conv",
    "moe": "none",
    "mlp": "none",
}
_RECURRENT_MODELS = ("mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm")
# One layer in so many is a full one, where config.json of older versions does not say so.
_FULL_EVERY = {"gemma2": 2, "gemma3_text": 6, "cohere2": 4}


def first(config: Mapping[str, Any], *keys: str) -> Any:
    """The first value that is set (not None) among several names of one quantity; None when none is."""
    return next((config[key] for key in keys if config.get(key) is not None), None)


def size(config: Mapping[str, Any], *keys: str) -> int:
    """The first whole number that is set among several names of one size; 0 when none is.

    Raises:
        BadSize: it is no whole number, or not above 0.
    """
    for key in keys:
        if (value := config.get(key)) is not None:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadSize(
                    f"{key} = {json.dumps(value)}: allowed is a whole number above 0; "
                    "get the config that belongs to the weights"
                )
            return value
    return 0


def count(config: Mapping[str, Any]) -> int:
    """The number of decoder layers; 0 when config.json does not say.

    Raises:
        ModelError: it says no whole number above 0.
    """
    return size(config, "num_hidden_layers", "n_layer", "num_layers", "n_layers")


def window(config: Mapping[str, Any]) -> int | None:
    """The sliding window in tokens, or None where no layer slides."""
    size = first(config, "sliding_window", "attention_chunk_size")
    return int(size) if size and "sliding" in kinds(config) else None


def kinds(config: Mapping[str, Any]) -> tuple[LayerKind, ...]:
    """What each layer keeps: a growing cache, a windowed one, a recurrent state, a convolution's inputs, or nothing.

    "linear" is the state of linear attention, "recurrent" any other. `layer_types` decides where it is given;
    else the older keys of each family do.
    """
    layers = count(config)
    listed = first(config, "layer_types", "layers_block_type", "block_types")
    if isinstance(listed, (list, tuple)) and listed:
        # A short list is a pattern that repeats.
        return tuple(_kind(str(listed[i % len(listed)])) for i in range(layers))
    model = str(config.get("model_type"))
    if model in _RECURRENT_MODELS:
        return _mixed(layers, lambda i: False, "recurrent")
    if interval := int(config.get("full_attention_interval") or (4 if model == "qwen3_next" else 0)):
        return _mixed(layers, lambda i: (i + 1) % interval == 0, "linear")
    if period := config.get("attn_layer_period"):
        offset = config.get("attn_layer_offset") or 0
        return _mixed(layers, lambda i: i % period == offset, "recurrent")
    chosen = first(config, "attn_layer_indices", "full_attn_idxs")
    if isinstance(chosen, (list, tuple)):
        return _mixed(layers, lambda i: i in chosen, "recurrent")
    if not config.get("sliding_window") or config.get("use_sliding_window") is False:
        return _mixed(layers, lambda i: True, "sliding")
    if every := config.get("sliding_window_pattern") or _FULL_EVERY.get(model):
        return _mixed(layers, lambda i: (i + 1) % every == 0, "sliding")
    full = int(config.get("max_window_layers") or 0) if "use_sliding_window" in config else 0
    return _mixed(layers, lambda i: i < full, "sliding")


def _kind(name: str) -> LayerKind:
    return _NAMED.get(name, "attention" if name.endswith("_attention") else "recurrent")


def _mixed(layers: int, is_full: Callable[[int], bool], other: LayerKind) -> tuple[LayerKind, ...]:
    return tuple("attention" if is_full(i) else other for i in range(layers))
