"""A small random copy of a model's architecture, made from its config alone.

Widths, vocabularies, experts and the list of layers shrink together, so that what hangs together in the
config still does: lists with an entry a layer, indexes of layers, shared key-value layers, head sizes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

VOCABULARY = 64
FIRST_TOKEN = 4
"""Ids below it are left to padding, begin, end and media tokens, which some models treat apart."""
LIMIT = 30_000_000
"""Parameters that a copy may have: a copy that is larger would take the memory that plan only counts."""

_HEAD_DIM, _HEADS = 16, 4
# The first pattern that a key matches as a whole says how large its value may be.
_SIZES: tuple[tuple[str, int], ...] = (
    (r"vocab_size(_.*)?|.*_vocab_size(_base)?|make_ngram_vocab.*", VOCABULARY),
    (r"hidden_size|n_embd|d_model|dim|embed_dim|embedding_size|word_embed_proj_dim|lru_width|ple_embed_dim", 64),
    (r"(.*_)?intermediate_size(_.*)?|(.*_)?ffn_dim|(.*_)?ffn_hidden_size|n_inner|router_hidden_size", 48),
    (r"num_attention_heads|n_heads?|num_heads|swa_num_attention_heads|linear_num_(value_)?heads", _HEADS),
    (r"(swa_)?num_key_value_heads|num_kv_heads|kv_n_heads|linear_num_key_heads", 2),
    (r"sliding_window(_size)?|attention_chunk_size|attention_window_size", 6),
    (r"(.*_)?head_dim", _HEAD_DIM),
    (
        r"hidden_size_per_layer_input|(.*_)?(lora_)?rank|rotary_dim|index_n_heads|hc_lowrank|(.*_)?chunk_size|(.*_)?state_size|mamba_d_state",
        8,
    ),
    (r"(moe_)?num_experts|num_local_experts|n_routed_experts", 4),
    (r"num_experts_per_tok(en)?|moe_(top_?)?k|top_k_experts|zero_expert_num|num_shared_experts|n_shared_experts", 2),
    (r"n_group|num_expert_group|topk_group|o_groups|num_nextn_predict_layers|split_ngram_parts", 1),
    (r".*_token_(id|index)", FIRST_TOKEN - 1),
)
# What stands for a value that a config may leave open, where the model's code does not allow that.
_OPEN = {"head_dim": _HEAD_DIM, "num_key_value_heads": _HEADS, "n_routed_experts": 4, "n_shared_experts": 1}
_OPEN["num_experts_per_tok"] = 2
_KINDS = ("layer_types", "layers_block_type", "block_types")
_LAYER_INDEXES = re.compile(r".*(layer|attn).*_(ids|idxs|indices)")
_PARTS = ("attn_config", "ffn_config")


def tiny(config: PreTrainedConfig, *, seed: int = 0) -> PreTrainedModel:
    """A small random model with the same kinds of layers, float32 on the CPU.

    Raises:
        ValueError: the copy would still be large. Whatever transformers raises passes through, for a
            config may be one that it cannot build.
    """
    small = shrink(config)
    with torch.device("meta"):
        size = sum(p.numel() for p in AutoModelForCausalLM.from_config(small).parameters())
    if size > LIMIT:
        raise ValueError(f"its small copy still has {size} parameters")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(small, dtype=torch.float32, trust_remote_code=False)
        generator = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            # The usual initial weights are so small that a wrong cache would hardly show.
            if parameter.dim() >= 2:
                parameter.data.normal_(0.0, parameter.shape[-1] ** -0.5, generator=generator)
    return model.eval().requires_grad_(False)


def shrink(config: PreTrainedConfig) -> PreTrainedConfig:
    """A copy of a config with small widths and few layers, two at most of each kind of layer.

    Of a model that also sees or hears, the text part alone, where that is a model of its own.
    """
    text = config.get_text_config(decoder=True)
    if type(text) in MODEL_FOR_CAUSAL_LM_MAPPING:
        config = text
    values = config.to_dict()
    for key in ("quantization_config", "auto_map", "dtype", "transformers_version"):
        values.pop(key, None)
    part = values["text_config"] if config is not text and "text_config" in values else values
    depth = _depth_key(text, part)
    keep, values_of_depth = _layers(text, part, int(part[depth]))
    for key, value in list(part.items()):
        part[key] = _of_layers(key, value, keep, int(part[depth])) if key != depth else value
    part.update(values_of_depth)
    part[depth] = len(keep)
    if part.get("num_layers") and depth != "num_layers":
        # Two attention blocks a layer are two entries of the cache.
        part["num_layers"] = max(1, len(keep) // 2)
    _shrink_values(part)
    return type(config).from_dict(values)


def _depth_key(text: PreTrainedConfig, part: dict[str, Any]) -> str:
    mapped = type(text).attribute_map.get("num_hidden_layers", "num_hidden_layers")
    if mapped not in part:
        # A number of layers that follows from a list of them.
        part[mapped] = text.num_hidden_layers
    return mapped


def _layers(text: PreTrainedConfig, part: dict[str, Any], depth: int) -> tuple[list[int], dict[str, int]]:
    """Which layers to keep, and the counts of leading or trailing layers that follow from it."""
    kinds = next((list(found) for name in _KINDS if (found := getattr(text, name, None))), [])
    settable = any(part.get(name) for name in _KINDS)
    dense, shared = (int(part.get(key) or 0) for key in ("first_k_dense_replace", "num_kv_shared_layers"))
    leading = dense or int(part.get("num_dense_layers") or 0)
    mlps = part.get("mlp_layer_types") or []
    special = {int(i) for i in part.get("per_layer_config") or ()}
    marks = [
        (
            kinds[i % len(kinds)] if kinds else "",
            mlps[i] if i < len(mlps) else "",
            i < leading,
            shared > 0 and i >= depth - shared,
            i in special,
        )
        for i in range(depth)
    ]
    if kinds and not settable:
        # The kinds follow from periods and offsets: only the first layers can be kept.
        last = max(marks.index(mark) for mark in set(marks))
        keep = list(range(max(2, last + 1)))[:depth]
    else:
        keep = _two_of_each(marks)
    counts = {
        key: sum(i < int(part[key]) for i in keep)
        for key in ("first_k_dense_replace", "num_dense_layers")
        if part.get(key)
    }
    if shared:
        counts["num_kv_shared_layers"] = sum(i >= depth - shared for i in keep)
    return keep, counts


def _two_of_each(marks: Sequence[Any]) -> list[int]:
    """Indexes of the first two layers of each kind, in order."""
    seen: dict[Any, int] = {}
    keep = []
    for i, mark in enumerate(marks):
        seen[mark] = seen.get(mark, 0) + 1
        if seen[mark] <= 2:
            keep.append(i)
    return keep


def _of_layers(key: str, value: Any, keep: list[int], depth: int) -> Any:
    """A value that speaks of single layers, made to speak of those that are kept."""
    if key == "per_layer_config" and isinstance(value, dict):
        return {keep.index(int(i)): dict(own) for i, own in value.items() if int(i) in keep}
    if not isinstance(value, list | tuple):
        return value
    if _LAYER_INDEXES.fullmatch(key):
        return [keep.index(i) for i in value if i in keep]
    if len(value) == depth or key in _KINDS:
        return [value[i % len(value)] for i in keep] if value else value
    return value


def _shrink_values(part: dict[str, Any]) -> None:
    heads = next(
        (part[key] for key in ("num_attention_heads", "n_head", "n_heads", "num_heads") if part.get(key)), None
    )
    shared = PreTrainedConfig().to_dict()
    longest = part.get("max_position_embeddings") or 0
    grouped = part.get("num_key_value_heads") not in (None, heads)
    for key, value in list(part.items()):
        # A window that no text outgrows is none; some models then keep their cache as if it were.
        if not ("window" in key and isinstance(value, int) and value >= longest > 0):
            part[key] = _smaller(key, value)
        if key in _PARTS and isinstance(value, dict):
            # Such a part takes no setting that all configs share.
            part[key] = {name: _smaller(name, inner) for name, inner in value.items() if name not in shared}
        if value is None and key in _OPEN:
            part[key] = _OPEN[key]
    if not grouped and "num_key_value_heads" in part:
        part["num_key_value_heads"] = _HEADS
    if part.get("kv_lora_rank"):
        # Latent attention: the rotary part is the head that rotary tables know.
        part["head_dim"] = part["qk_rope_head_dim"]
        part["qk_head_dim"] = part["qk_nope_head_dim"] + part["qk_rope_head_dim"]
    for own in (part.get("per_layer_config") or {}).values():
        for key, value in own.items():
            own[key] = _smaller(key, value) * (2 if key.endswith("head_dim") else 1)
    for rope in _ropes(part.get("rope_parameters")):
        pairs = (
            int(
                (part.get("head_dim") or _HEAD_DIM)
                * (rope.get("partial_rotary_factor") or part.get("partial_rotary_factor") or 1)
            )
            // 2
        )
        if rope.get("mrope_section"):
            rope["mrope_section"] = [pairs - 2 * (pairs // 3), pairs // 3, pairs // 3]
        for key in ("long_factor", "short_factor"):
            if rope.get(key):
                rope[key] = rope[key][:pairs]


def _ropes(given: Any) -> list[dict[str, Any]]:
    """The rotary settings of a config: one, or one for each kind of layer."""
    if not isinstance(given, dict):
        return []
    inner = [value for value in given.values() if isinstance(value, dict)]
    return inner or [given]


def _smaller(key: str, value: Any) -> Any:
    """The value, no larger than its key may be in a small copy; lists of sizes entry by entry."""
    limit = next((size for pattern, size in _SIZES if re.fullmatch(pattern, key)), None)
    if limit is None or isinstance(value, bool):
        return value
    if isinstance(value, list | tuple):
        return [_smaller(key, entry) for entry in value]
    if not isinstance(value, int):
        return value
    # The probe's text uses the whole of a small vocabulary, so a smaller one grows.
    return limit if limit == VOCABULARY and "vocab" in key else min(value, limit)
