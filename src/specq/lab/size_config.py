"""config.json as sizing reads it: the part that is the language model, its window and what each layer is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specq.core.errors import ModelError
from specq.models import headers, layers
from specq.models.layers import LayerKind, first, size

# Where configs of models that see or hear keep the language model.
_INNER = ("text_config", "llm_config", "language_config", "thinker_config")
# What stands beside that part and is meant for it too.
_SHARED = ("tie_word_embeddings", "torch_dtype", "dtype", "vocab_size", "quantization_config", "quantization")
_DECODERS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForConditionalGenerationWithMTP")
# What saved text parts of Gemma 3 leave out, since it is the default (transformers, Gemma3TextConfig).
_DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma3_text": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262_208,
        "max_position_embeddings": 131_072,
        "tie_word_embeddings": True,
    }
}
_PATTERN = {"M": "mamba", "*": "full_attention", "-": "mlp", "E": "moe"}
_LETTERS = {"L": "sliding_attention", "G": "full_attention"}
# One layer in so many sees all of the context, where configs on the hub do not say which.
_FULL_EVERY = {"llama4_text": 4, "gemma3n_text": 5, "gemma4_text": 6, "olmo3": 4, "gpt_oss": 2}
# No model has so many; layers are listed one by one, and a wrong number would fill the memory.
MOST_LAYERS = 10_000
_FIX = "get the config.json that belongs to the model"


def read(path: Path) -> dict[str, Any]:
    """The config.json at `path`, checked to be one of a language model that writes.

    Raises:
        ModelError: it is missing, broken, an encoder, or names no model_type.
    """
    config = headers.read_json(path)
    if config.get("is_encoder_decoder"):
        raise ModelError(f"{path} is of an encoder-decoder model; allowed is a causal language model")
    named = config.get("architectures")
    if isinstance(named, list) and named and not any(str(one).endswith(_DECODERS) for one in named):
        raise ModelError(
            f"{path} is not of a causal language model: its architecture is {', '.join(map(str, named))}; allowed is "
            "one that ends in ForCausalLM, LMHeadModel or ForConditionalGeneration"
        )
    if not isinstance(config.get("model_type"), str):
        raise ModelError(f"{path} lacks model_type, so that nothing tells which model it is: {_FIX}")
    return config


def text_part(config: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The language model's part of a config, and whether there is more beside it (a part that sees or hears)."""
    found, inside = dict(config), False
    while inner := next((found[key] for key in _INNER if isinstance(found.get(key), dict)), None):
        found = {**{key: found[key] for key in _SHARED if found.get(key) is not None}, **inner}
        inside = True
    kind = found.get("model_type")
    if kind == "gemma3":
        kind = "gemma3_text"
    defaults = _DEFAULTS.get(str(kind), {}) if inside else {}
    # What transformers saves of a Nemotron-H lists its layers and does not count them.
    listed = first(found, "layer_types", "layers_block_type", "hybrid_override_pattern")
    if not layers.count(found) and isinstance(listed, (list, str)) and listed:
        defaults = {**defaults, "num_hidden_layers": len(listed)}
    return {**defaults, **found, "model_type": kind}, inside


def need(place: str, config: Mapping[str, Any], what: str, *keys: str) -> int:
    """A size that must be there.

    Raises:
        ModelError: none of the keys is there, or it is no whole number above 0.
    """
    if value := size(config, *keys):
        return value
    kind = config.get("model_type")
    raise ModelError(f"{place} lacks {keys[0]} ({what}; model_type {kind!r}): {_FIX}")


def context(config: Mapping[str, Any]) -> int | None:
    """The window in tokens, stretched where the config says that YaRN does so; None where nothing states it."""
    stated = size(
        config, "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_seq_length", "n_ctx"
    )
    scaling = first(config, "rope_scaling", "rope_parameters")
    if isinstance(scaling, dict) and "yarn" in (scaling.get("rope_type"), scaling.get("type")):
        original, factor = scaling.get("original_max_position_embeddings"), scaling.get("factor")
        if isinstance(original, int) and isinstance(factor, (int, float)):
            stated = max(stated, round(original * factor))
    return stated or None


def layer_kinds(place: str, config: Mapping[str, Any]) -> tuple[LayerKind, ...]:
    """What each layer keeps, also where configs on the hub say it in words that transformers rewrites.

    Raises:
        ModelError: a list of layers or a pattern is no such thing.
    """
    try:
        kinds = layers.kinds(_plain(config))
    except (TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise ModelError(f"{place} does not say what its layers are ({error}): {_FIX}") from error
    if size(config, "attention_window_size"):
        kinds = tuple("sliding" if kind == "attention" else kind for kind in kinds)
    return kinds


def layer_names(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The layers by the names that config.json has for them; none where it does not list them."""
    return tuple(map(str, first(_plain(config), "layer_types", "layers_block_type") or ()))


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the layers spelled out as transformers spells them."""
    found, count = dict(config), layers.count(config)
    if found.get("layer_types"):
        return found
    kind = str(found.get("model_type"))
    linear = found.get("linear_attn_config")
    if isinstance(pattern := found.get("hybrid_override_pattern"), str):
        found["layer_types"] = [_PATTERN.get(letter, letter) for letter in pattern]
    elif isinstance(pattern := found.get("sliding_window_pattern"), str):
        found["layer_types"] = [_LETTERS.get(letter, letter) for letter in pattern]
    elif isinstance(linear, dict) and isinstance(linear.get("full_attn_layers"), list):
        full = linear["full_attn_layers"]  # counted from 1
        found["layer_types"] = ["full_attention" if i + 1 in full else "linear_attention" for i in range(count)]
    elif isinstance(found.get("attn_type_list"), list):
        found["layer_types"] = ["full_attention" if one == 1 else "linear_attention" for one in found["attn_type_list"]]
    elif kind.startswith("zamba") and isinstance(found.get("layers_block_type"), list):
        found["layer_types"] = ["full_attention" if one == "hybrid" else "mamba" for one in found["layers_block_type"]]
    elif kind in _FULL_EVERY and first(found, "sliding_window", "attention_chunk_size"):
        every = _FULL_EVERY[kind]
        found["layer_types"] = ["sliding_attention" if (i + 1) % every else "full_attention" for i in range(count)]
    return found
