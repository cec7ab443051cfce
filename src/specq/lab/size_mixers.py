"""Layers that keep a constant state instead of a cache: how large it is, and how many weights they have.

The sizes follow transformers' layers: MambaMixer, Mamba2Mixer, Qwen3NextGatedDeltaNet, KimiLinearDeltaAttention,
Lfm2ShortConv, RecurrentGemmaRecurrentBlock and MiniMaxLightningAttention. A convolution's last inputs count as state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from specq.models.layers import LayerKind, first

_MAMBA = ("mamba", "falcon_mamba", "jamba")
_MAMBA2 = ("mamba2", "bamba", "granitemoehybrid", "falcon_h1", "nemotron_h", "zamba2")
_DELTA = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
_CONV = ("lfm2", "lfm2_moe")
# Here each layer with attention has a state too.
_BOTH = ("falcon_h1",)
_BOTH_SHARED = ("zamba2",)


class Mixer(NamedTuple):
    """One layer's constant state and its weights, in elements; weights are None where they are not counted here."""

    state: int
    weights: int | None


def layers_with_state(config: Mapping[str, Any], kinds: Sequence[LayerKind]) -> int:
    """How many layers keep a constant state."""
    kind = config.get("model_type")
    if kind in _BOTH or kind in _BOTH_SHARED:
        return len(kinds)
    return sum(one in ("linear", "recurrent", "conv") for one in kinds)


def state_elements(config: Mapping[str, Any]) -> int | None:
    """Elements that one such layer keeps of a sequence; None where this kind of model is not known here."""
    found = mixer(config)
    return None if found is None else found.state


def mixer(config: Mapping[str, Any]) -> Mixer | None:
    """State and weights of one layer with a constant state; None where the kind of model or a size is not known."""
    kind = str(config.get("model_type"))
    try:
        if kind in _MAMBA:
            return _mamba(config, kind)
        if kind in _MAMBA2:
            return _mamba2(config, kind)
        if kind in _DELTA:
            return _delta(config)
        if kind in _CONV:
            return _short_convolution(config)
        if kind == "recurrent_gemma":
            width = int(first(config, "lru_width", "hidden_size"))
            return Mixer(width * (1 + int(config["conv1d_width"])), None)
        if kind == "kimi_linear":
            linear = config["linear_attn_config"]
            heads, dim = int(linear["num_heads"]), int(linear["head_dim"])
            return Mixer(heads * dim * dim + 3 * heads * dim * int(linear["short_conv_kernel_size"]), None)
        if kind == "minimax":
            heads = int(config["num_attention_heads"])
            dim = int(first(config, "head_dim") or config["hidden_size"] // heads)
            return Mixer(heads * dim * dim, None)
    except (KeyError, TypeError, ValueError):
        return None
    return None


def _mamba(config: Mapping[str, Any], kind: str) -> Mixer:
    hidden = int(config["hidden_size"])
    prefix = "mamba_" if kind == "jamba" else ""
    inner = int(first(config, f"{prefix}expand") or 2) * hidden
    if kind != "jamba" and config.get("intermediate_size"):
        inner = int(config["intermediate_size"])
    state = int(first(config, "mamba_d_state", "state_size"))
    kernel = int(first(config, "mamba_d_conv", "conv_kernel"))
    rank = first(config, "mamba_dt_rank", "time_step_rank")
    rank = math.ceil(hidden / 16) if rank in (None, "auto") else int(rank)
    weights = inner * (2 * hidden + kernel + rank + 2 * state + rank + 1 + state + 1 + hidden)
    if _flag(config, True, "mamba_conv_bias", "use_conv_bias"):
        weights += inner
    if _flag(config, False, "mamba_proj_bias", "use_bias"):
        weights += 2 * inner + hidden
    if kind == "jamba":
        weights += rank + 2 * state  # its three norms
    return Mixer(inner * (state + kernel), weights)


def _mamba2(config: Mapping[str, Any], kind: str) -> Mixer:
    hidden = int(config["hidden_size"])
    heads = int(first(config, "mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads"))
    dim = first(config, "mamba_d_head", "mamba_head_dim", "mamba_headdim")
    dim = first(config, "head_dim") if dim is None and kind == "mamba2" else dim
    expand = first(config, "mamba_expand", "expand") or 2
    dim = int(expand * hidden) // heads if dim in (None, "auto") else int(dim)
    inner = int(first(config, "mamba_d_ssm") or heads * dim)
    groups = int(first(config, "mamba_n_groups", "mamba_ngroups", "n_groups") or 1)
    state = int(first(config, "mamba_d_state", "ssm_state_size", "state_size"))
    kernel = int(first(config, "mamba_d_conv", "conv_kernel") or 4)
    convolved = inner + 2 * groups * state
    weights = hidden * (inner + convolved + heads) + convolved * kernel + 3 * heads + inner * hidden
    if _flag(config, True, "mamba_conv_bias", "use_conv_bias"):
        weights += convolved
    if _flag(config, False, "mamba_proj_bias", "use_bias"):
        weights += inner + convolved + heads
    if _flag(config, False, *(("projectors_bias",) if kind == "falcon_h1" else ("mamba_proj_bias", "use_bias"))):
        weights += hidden
    if kind != "falcon_h1" or config.get("mamba_rms_norm"):
        weights += inner
    return Mixer(heads * dim * state + convolved * kernel, weights)


def _delta(config: Mapping[str, Any]) -> Mixer:
    hidden = int(config["hidden_size"])
    heads, value_dim = int(config["linear_num_value_heads"]), int(config["linear_value_head_dim"])
    key_dim = int(config["linear_key_head_dim"])
    keys, values = int(config["linear_num_key_heads"]) * key_dim, heads * value_dim
    convolved = (2 * keys + values) * int(config["linear_conv_kernel_dim"])
    weights = hidden * (2 * keys + 2 * values + 2 * heads) + convolved + 2 * heads + value_dim + values * hidden
    return Mixer(heads * key_dim * value_dim + convolved, weights)


def _short_convolution(config: Mapping[str, Any]) -> Mixer:
    hidden, kernel = int(config["hidden_size"]), int(config["conv_L_cache"])
    weights = 4 * hidden * hidden + hidden * kernel
    if config.get("conv_bias"):
        weights += 5 * hidden
    return Mixer(hidden * kernel, weights)


def _flag(config: Mapping[str, Any], default: bool, *keys: str) -> bool:
    value = first(config, *keys)
    return default if value is None else bool(value)
