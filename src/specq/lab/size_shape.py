"""What a model keeps of a context: its cache, layer by layer, read from config.json alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from specq.core.errors import ModelError
from specq.lab import size_mixers
from specq.lab.size_config import MOST_LAYERS, context, layer_kinds, need
from specq.models.layers import LayerKind, first, size

KV_ALIASES = {"bf16": "fp16", "q8": "q8_0", "q4": "q4_0"}


class Packing(NamedTuple):
    """How a cache type is stored: `bytes` for each block of `values`, its scale included."""

    values: int
    bytes: int


# q8_0 and q4_0 are ggml's blocks: 32 values and one 16-bit scale (ggml-common.h, block_q8_0 and block_q4_0).
KV_TYPES = {"fp16": Packing(1, 2), "fp8": Packing(1, 1), "q8_0": Packing(32, 34), "q4_0": Packing(32, 18)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayer:
    """One layer with attention: how many elements it keeps of a token, keys and values together.

    `ungrouped` is the same with as many KV heads as there are query heads, and without latent compression. Beyond
    `window` tokens (None: all of the context) it grows no further. `row` is what a block of a cache type must divide.
    """

    kept: int
    ungrouped: int
    row: int
    window: int | None = None

    def elements(self, tokens: int, *, ungrouped: bool = False) -> int:
        """Elements kept of a context of so many tokens."""
        seen = tokens if self.window is None else min(tokens, self.window)
        return (self.ungrouped if ungrouped else self.kept) * seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model as its cache sees it.

    `kv_heads` and `head_dim` are those of most layers (0 without attention); `context` is the window in tokens, None
    where nothing states it. `state_elements` is what layers without a cache keep of a sequence, however long it is;
    None where that is not known for this kind of model. `grouped` says why the cache is smaller than with one KV head
    a query head: "grouped queries", "latent attention" or "".
    """

    name: str
    model_type: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int | None
    cache: tuple[CacheLayer, ...]
    grouped: str
    state_layers: int = 0
    state_elements: int | None = 0
    notes: tuple[str, ...] = ()

    def cache_bytes(self, tokens: int, kv: str, *, ungrouped: bool = False) -> int:
        """Bytes that one sequence of so many tokens keeps in a cache of this type, without the constant state."""
        packing = KV_TYPES[kv]
        elements = sum(layer.elements(tokens, ungrouped=ungrouped) for layer in self.cache)
        return -(-elements * packing.bytes // packing.values)

    @property
    def state_bytes(self) -> int:
        """Bytes of the constant state of a sequence, in float32."""
        return 4 * (self.state_elements or 0)

    @property
    def state_known(self) -> bool:
        """Whether `sequence_bytes` counts all of a sequence; else it is the least that one takes."""
        return self.state_elements is not None

    def sequence_bytes(self, tokens: int, kv: str) -> int:
        """Bytes that one sequence takes: its cache and its constant state, where the size of that is known."""
        return self.cache_bytes(tokens, kv) + self.state_bytes

    @property
    def windows(self) -> dict[int, int]:
        """How many layers see a window of how many tokens."""
        found: dict[int, int] = {}
        for layer in self.cache:
            if layer.window is not None:
                found[layer.window] = found.get(layer.window, 0) + 1
        return found

    def unblocked(self, kv: str) -> int | None:
        """A row length that the blocks of this cache type do not divide, or None."""
        return next((one.row for one in self.cache if one.row % KV_TYPES[kv].values), None)


def from_config(name: str, place: str, config: Mapping[str, Any]) -> Shape:
    """The shape of a model; `config` is the part of config.json that is the language model (`text_part`).

    Raises:
        ModelError: a size is missing or impossible; `place` is named with the key.
    """
    count = need(place, config, "the number of layers", "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    if count > MOST_LAYERS:
        raise ModelError(
            f"{place}: {count:,} layers; allowed are up to {MOST_LAYERS:,}: get the config.json that belongs to the "
            "model"
        )
    kinds = layer_kinds(place, config)
    attending = [kind for kind in kinds if kind in ("attention", "sliding")]
    found = [_layer(place, config, i, kind) for i, kind in enumerate(kinds) if kind in ("attention", "sliding")]
    cache = _shared(config, found)
    mixers = size_mixers.layers_with_state(config, kinds)
    each = size_mixers.state_elements(config) if mixers else 0
    heads, kv_heads, head_dim = heads_of(place, config, "attention") if attending else (0, 0, 0)
    shape = Shape(
        name=name,
        model_type=str(config.get("model_type")),
        layers=count,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        context=context(config),
        cache=tuple(cache),
        grouped=_grouped(config, cache),
        state_layers=mixers,
        state_elements=None if each is None else mixers * each,
    )
    return replace(shape, notes=tuple(_notes(config, shape, len(found))))


def heads_of(place: str, config: Mapping[str, Any], kind: LayerKind) -> tuple[int, int, int]:
    """Query heads, KV heads and head size of a layer of this kind; some models give each kind its own."""
    heads = need(
        place, config, "the number of attention heads", "num_attention_heads", "n_head", "num_heads", "n_heads"
    )
    nested = config.get("attn_config")
    inner: Mapping[str, Any] = nested if isinstance(nested, dict) else {}
    kv_heads = _one(config, "num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
    kv_heads = kv_heads or size(inner, "kv_n_heads") or heads
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        kv_heads = 1
    head_dim = size(config, "head_dim", "kv_channels", "attention_head_dim")
    if kind == "sliding":
        kv_heads = size(config, "swa_num_key_value_heads") or kv_heads
        head_dim = size(config, "swa_head_dim") or head_dim
    elif config.get("layer_types"):
        kv_heads = size(config, "num_global_key_value_heads") or kv_heads
        head_dim = size(config, "global_head_dim") or head_dim
    if not head_dim:
        hidden = need(place, config, "the hidden size", "hidden_size", "n_embd", "d_model", "dim")
        if hidden % heads:
            raise ModelError(
                f"{place} lacks head_dim, and {heads} heads do not divide the hidden size {hidden}: "
                "get the config.json that belongs to the model"
            )
        head_dim = hidden // heads
    if kv_heads > heads or heads % kv_heads:
        raise ModelError(
            f"{place}: {kv_heads} KV heads do not divide {heads} heads: get the config.json that belongs to the model"
        )
    return heads, kv_heads, head_dim


def _one(config: Mapping[str, Any], *keys: str) -> int:
    """A size, or the largest of a list of one a layer; 0 when none is set."""
    value = first(config, *keys)
    if isinstance(value, list) and value:
        return max((size({keys[0]: one}, keys[0]) for one in value if one), default=0)
    return size(config, *keys)


def _layer(place: str, config: Mapping[str, Any], index: int, kind: LayerKind) -> CacheLayer:
    window = None
    if kind == "sliding":
        window = need(
            place, config, "the window of its sliding layers", "sliding_window", "attention_chunk_size",
            "attention_window_size",
        )  # fmt: skip
    heads, kv_heads, head_dim = heads_of(place, config, kind)
    if latent := size(config, "kv_lora_rank"):
        # Engines that serve latent attention keep its latent and the rotary key, shared by all heads
        # (DeepSeek-V2, arXiv 2405.04434, section 2.1), and the sparse kind keys for its indexer too.
        rope = need(place, config, "the rotary part of its keys", "qk_rope_head_dim")
        nope = need(place, config, "the plain part of its keys", "qk_nope_head_dim")
        value = need(place, config, "the size of its values", "v_head_dim")
        indexed = size(config, "index_head_dim")
        return CacheLayer(
            kept=latent + rope + indexed,
            ungrouped=heads * (nope + rope + value) + indexed,
            row=latent + rope,
            window=window,
        )
    value_dim = size(config, "swa_v_head_dim", "v_head_dim") if kind == "sliding" else size(config, "v_head_dim")
    both = head_dim + (value_dim or head_dim)
    kv_heads = _of_layer(config, index, kv_heads, heads)
    return CacheLayer(kept=kv_heads * both, ungrouped=heads * both, row=head_dim, window=window)


def _of_layer(config: Mapping[str, Any], index: int, kv_heads: int, heads: int) -> int:
    """KV heads of one layer where config.json lists them layer by layer; 0 for a layer without attention."""
    listed = first(config, "num_key_value_heads", "num_kv_heads")
    if isinstance(listed, list) and index < len(listed):
        return int(listed[index] or 0)
    blocks = config.get("block_configs")
    if isinstance(blocks, list) and index < len(blocks):
        attention = blocks[index].get("attention") or {}
        if attention.get("no_op") or attention.get("replace_with_linear"):
            return 0
        return heads // int(attention.get("n_heads_in_group") or heads // kv_heads)
    return kv_heads


def _shared(config: Mapping[str, Any], cache: list[CacheLayer]) -> list[CacheLayer]:
    """Without the last layers where these read the cache of earlier ones, and without layers that keep nothing."""
    shared = int(config.get("num_kv_shared_layers") or 0)
    return [layer for layer in cache[: len(cache) - shared] if layer.kept]


def _grouped(config: Mapping[str, Any], cache: list[CacheLayer]) -> str:
    if all(layer.kept == layer.ungrouped for layer in cache):
        return ""
    return "latent attention" if config.get("kv_lora_rank") else "grouped queries"


def _notes(config: Mapping[str, Any], shape: Shape, attending: int) -> list[str]:
    notes = []
    if not shape.cache:
        notes.append("no layer keeps a cache that grows with the context")
    elif attending < shape.layers:
        notes.append(f"{attending} of {shape.layers} layers have attention and keep a cache")
    if shared := attending - len(shape.cache):
        notes.append(f"{shared} layers with attention keep no cache of their own")
    for window, count in shape.windows.items():
        notes.append(
            f"{count} of {shape.layers} layers keep only the last {window:,} tokens, in engines that drop the rest"
        )
    if shape.state_layers and shape.state_elements is None:
        notes.append(
            f"{shape.state_layers} layers keep a constant state, which is not counted: its size is not known here for "
            f"model_type {shape.model_type!r}"
        )
    if shape.grouped == "latent attention":
        notes.append(
            "the cache is the latent that vLLM, SGLang and llama.cpp keep; transformers keeps full heads, the figure "
            "without latent attention"
        )
    grouping = ("num_key_value_heads", "num_kv_heads", "multi_query", "n_head_kv", "attn_config", "kv_lora_rank")
    if shape.cache and "num_attention_heads" in config and not any(key in config for key in grouping):
        notes.append("config.json names no num_key_value_heads: counted with one KV head a query head")
    return notes
