"""What a model's class says before its weights load: can it decode here at all, and with which attention?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, DynamicCache, PreTrainedConfig
from transformers.cache_utils import LinearAttentionCacheLayerMixin

from specq.core.errors import Unsupported
from specq.decoding.session import CACHES, cache_name, no_cache
from specq.models import layers
from specq.models.configs import load_config as load_config
from specq.models.configs import reason as reason


def model_class(config: PreTrainedConfig) -> Any:
    """The causal language model class that a config names, else the first that transformers has for it, or None."""
    found = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    classes = found if isinstance(found, tuple) else (found,)
    named = config.architectures or []
    return next((kind for kind in classes if kind is not None and kind.__name__ in named), classes[0])


def named(config: PreTrainedConfig) -> str:
    """The name of a model's architecture."""
    return str((config.architectures or [type(config).__name__])[0])


def check_class(folder: Path, attention: str | None = None) -> None:
    """Refuse a model that cannot decode, or not with this attention implementation; loads no weights.

    Raises:
        Unsupported: it keeps no state between passes, reads the text in both directions, or its class lacks
            the attention implementation.
        ModelError: transformers does not accept config.json.
    """
    config = load_config(folder)
    kind = model_class(config)
    if kind is None:
        raise Unsupported(
            f"transformers has no causal language model of the model_type {config.model_type!r}: give another model"
        )
    if cache_name(kind) is None:
        raise Unsupported(no_cache(kind.__name__))
    # Only families that began as encoders have these two settings, and a default that is no decoder.
    if hasattr(config, "add_cross_attention") and getattr(config, "is_decoder", None) is False:
        raise Unsupported(
            f"{kind.__name__} is an encoder by its config (is_decoder is not true) and reads text in both directions: "
            "allowed is a causal language model, or is_decoder = true in config.json if it was trained as one"
        )
    lacks = {
        "sdpa": "_supports_sdpa",
        "flex_attention": "_supports_flex_attn",
        "flash_attention_2": "_supports_flash_attn",
    }
    # A model without attention has no implementation of it to choose.
    if cache_name(kind) == CACHES[0] and attention in lacks and not getattr(kind, lacks[attention]):
        raise Unsupported(
            f'{kind.__name__} has no attention = "{attention}" in transformers: type --set engine.attention=eager'
        )


def has_attention(folder: Path) -> bool:
    """Whether the model of a folder keeps keys and values, and so has an attention implementation to choose."""
    kind = model_class(load_config(folder))
    return kind is not None and cache_name(kind) == CACHES[0]


def is_recurrent(config: PreTrainedConfig) -> bool:
    """Whether some layers keep a state that each token overwrites."""
    text = config.get_text_config(decoder=True)
    kinds = layers.kinds(text.to_dict())
    if "linear" in kinds or "recurrent" in kinds:
        return True
    if "conv" in kinds or not hasattr(text, "num_hidden_layers"):
        return False
    return any(isinstance(layer, LinearAttentionCacheLayerMixin) for layer in DynamicCache(config=config).layers)


def layer_kinds(config: PreTrainedConfig) -> str:
    """The kinds of a model's layers with their counts, as its config names them; "" where it names none."""
    text = config.get_text_config(decoder=True)
    listed = getattr(text, "layer_types", None) or getattr(text, "layers_block_type", None) or ()
    return ", ".join(f"{n} {kind}" for kind, n in Counter(map(str, listed)).items())
