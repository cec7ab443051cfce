"""What a GGUF file's header says of a model's layers, under the names that config.json has for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specq.core.errors import ModelError
from specq.lab.size_config import MOST_LAYERS
from specq.models.gguf_header import Gguf

# One layer in so many sees all of the context, where a file does not say which (llama.cpp, set_swa_pattern).
_FULL_EVERY = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "cohere2": 4,
    "gpt-oss": 2,
    "llama4": 4,
    "olmo2": 4,
    "exaone4": 4,
}
# What transformers calls those of llama.cpp's architectures that have layers with a state.
_KINDS = {"mamba": "mamba", "mamba2": "mamba2", "jamba": "jamba", "granitehybrid": "granitemoehybrid",
          "falcon-h1": "falcon_h1", "nemotron_h": "nemotron_h", "lfm2": "lfm2", "lfm2moe": "lfm2_moe",
          "qwen3next": "qwen3_next"}  # fmt: skip


def as_config(path: Path, found: Gguf) -> dict[str, Any]:
    """What the file says of its layers, under the names that config.json has for it.

    Raises:
        ModelError: it says nothing of its layers.
    """
    architecture = found.values["general.architecture"]

    def value(key: str) -> Any:
        return found.values.get(f"{architecture}.{key}")

    layers, heads = value("block_count"), value("attention.head_count")
    if not isinstance(layers, int) or not 1 <= layers <= MOST_LAYERS:
        raise ModelError(
            f"{path}: {architecture}.block_count (the number of layers) is {layers}; allowed are 1 to {MOST_LAYERS:,}: "
            "convert the model anew"
        )
    kv_heads = value("attention.head_count_kv")
    config: dict[str, Any] = {
        "model_type": _KINDS.get(architecture, architecture),
        "num_hidden_layers": layers,
        "hidden_size": value("embedding_length"),
        "num_attention_heads": max(heads) if isinstance(heads, list) else heads or None,
        "num_key_value_heads": kv_heads if kv_heads else heads or None,
        "head_dim": value("attention.key_length"),
        "v_head_dim": value("attention.value_length"),
        "max_position_embeddings": value("context_length"),
        "num_experts": value("expert_count") or None,
        "num_experts_per_tok": value("expert_used_count"),
        "conv_L_cache": value("shortconv.l_cache"),
    }
    if rank := value("attention.kv_lora_rank"):
        rope = value("rope.dimension_count") or 0
        key = value("attention.key_length_mla") or value("attention.key_length") or 0
        config |= {"kv_lora_rank": rank, "qk_rope_head_dim": rope, "qk_nope_head_dim": key - rope, "head_dim": None}
        config |= {"v_head_dim": value("attention.value_length_mla") or value("attention.value_length")}
        config |= {"num_key_value_heads": config["num_attention_heads"]}
    config |= _kinds(architecture, layers, kv_heads, found.values)
    config |= _state(config, value)
    return {key: one for key, one in config.items() if one is not None}


def _kinds(architecture: str, layers: int, kv_heads: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Which layers see a window, and which keep a state instead of a cache (no KV heads)."""
    if isinstance(kv_heads, list) and not all(kv_heads):
        return {"layer_types": ["full_attention" if one else "conv" if "lfm2" in architecture else "mamba"
                                for one in kv_heads]}  # fmt: skip
    if architecture in ("mamba", "mamba2"):
        return {"layer_types": ["mamba"] * layers}
    if every := values.get(f"{architecture}.full_attention_interval"):
        return {"full_attention_interval": every}
    window = values.get(f"{architecture}.attention.sliding_window")
    pattern = values.get(f"{architecture}.attention.sliding_window_pattern")
    if not window:
        return {}
    if isinstance(pattern, list):
        kinds = ["sliding_attention" if one else "full_attention" for one in pattern]
    elif every := pattern if isinstance(pattern, int) else _FULL_EVERY.get(architecture, 0):
        kinds = ["sliding_attention" if (i + 1) % every else "full_attention" for i in range(layers)]
    else:
        return {}
    return {"layer_types": kinds, "sliding_window": window}


def _state(config: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """The sizes of a state, under the names that the layers of its model_type read."""
    inner, state, kernel = value("ssm.inner_size"), value("ssm.state_size"), value("ssm.conv_kernel")
    if not (inner and state and kernel):
        return {}
    rank, groups = value("ssm.time_step_rank"), value("ssm.group_count")
    if config["model_type"] in ("mamba", "jamba"):
        return {"intermediate_size": inner, "state_size": state, "conv_kernel": kernel, "time_step_rank": rank,
                "mamba_expand": inner / config["hidden_size"]}  # fmt: skip
    if config["model_type"] == "qwen3_next":
        return {"linear_num_value_heads": rank, "linear_value_head_dim": inner // rank, "linear_key_head_dim": state,
                "linear_num_key_heads": groups, "linear_conv_kernel_dim": kernel}  # fmt: skip
    return {"mamba_n_heads": rank, "mamba_d_head": inner // rank, "mamba_n_groups": groups, "mamba_d_state": state,
            "mamba_d_conv": kernel}  # fmt: skip


def notes(found: Gguf) -> list[str]:
    """What of the header is left open."""
    architecture = found.values["general.architecture"]
    window = found.values.get(f"{architecture}.attention.sliding_window")
    if window and not _kinds(architecture, 1, None, found.values):
        return [f"the file states a window of {window:,} tokens, not for which layers: all are counted without it"]
    return []
