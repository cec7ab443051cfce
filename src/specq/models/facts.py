"""What a model is, from config.json and the safetensors headers; no weights are loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.core.errors import ModelError
from specq.models import cache, headers, kept, layers, vocabulary
from specq.models.headers import TensorInfo
from specq.models.layers import LayerKind, first, size
from specq.models.refs import Resolved

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}
_FLOATS = {"F32": "float32", "BF16": "bfloat16", "F16": "float16", "F64": "float64"}
_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight", "embeddings.weight")
_POSITIONS = ("wpe.weight", "embed_positions.weight")
_HEADS = ("lm_head.weight", "embed_out.weight")
_BUFFERS = ("rotary_emb.inv_freq", ".attn.masked_bias")
# Values of generation_config.json that change nothing.
_NEUTRAL = {
    "do_sample": (False,),
    "temperature": (1.0,),
    "top_p": (1.0,),
    "top_k": (0,),
    "min_p": (0.0,),
    "repetition_penalty": (1.0,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A model in numbers.

    `weight_bytes` and `parameters` count the tensors on disk (a tied head once); `dtype` is that of most
    of them. `context` is in tokens (None: not stated). `layer_kinds` has one entry a layer. `eos_ids` are
    those of generation_config.json, else of config.json. `adds_bos` is None where no file says it.
    `generation_defaults` are the sampling settings of generation_config.json that are not neutral: other
    engines apply them unasked.
    """

    name: str
    folder: Path
    architecture: str
    model_type: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context: int | None
    parameters: int
    weight_bytes: int
    dtype: str
    tied: bool
    sliding_window: int | None
    layer_kinds: tuple[LayerKind, ...]
    eos_ids: tuple[int, ...]
    bos_id: int | None
    adds_bos: bool | None
    has_chat_template: bool
    template_sha256: str | None
    generation_defaults: dict[str, Any]
    notes: tuple[str, ...]
    read_elements: tuple[float, int]
    cache_elements: int

    def bytes_per_token(self, dtype: str | None = None) -> int:
        """Bytes of weights that one decode step of one row reads when they are held in `dtype` (None: as on disk).

        Linears, norms and the head; an untied input embedding gives one row and is left out; of a
        mixture's experts the active ones count. Packed integers keep their size on disk.

        Raises:
            ModelError: the dtype is unknown.
        """
        floats, packed = self.read_elements
        return round(floats * _size(dtype or self.dtype)) + packed

    def weight_bytes_in(self, dtype: str | None = None) -> int:
        """Bytes of all weights when those that are stored as floats are held in `dtype` (None: as on disk).

        Raises:
            ModelError: the dtype is unknown.
        """
        if dtype is None:
            return self.weight_bytes
        stored = [info for name, info in headers.tensors(self.folder).items() if not is_buffer(name, info)]
        floats = [info for info in stored if info.dtype in _FLOATS]
        return sum(info.size for info in stored) + sum(info.elements * _size(dtype) - info.size for info in floats)

    def cache_bytes_per_token(self, dtype: str | None = None) -> int:
        """Bytes that one more token of context adds to the key-value cache held in `dtype` (None: as on disk).

        Windowed layers count (they stop growing at `sliding_window`); recurrent states do not grow.

        Raises:
            ModelError: the dtype is unknown.
        """
        return self.cache_elements * _size(dtype or self.dtype)

    @property
    def weights_sha256(self) -> str:
        """As `hash_of_weights` of its folder."""
        return hash_of_weights(self.folder)


def hash_of_weights(folder: Path) -> str:
    """Hex sha256 over the names and sha256 of a folder's weight files; slow once, then kept in the cache.

    A file that says which ids a draft keeps is one of them.

    Raises:
        ModelError: the folder's index is not readable, or names a file that is missing.
    """
    beside = kept.path(folder)
    paths = [*headers.weight_files(folder), *(() if beside is None else (beside,))]
    return hashes.of_json([[p.name, cache.file_sha256(p)] for p in paths])


def facts(resolved: Resolved) -> Facts:
    """Read a model's facts from config.json, generation_config.json, tokenizer files and safetensors headers.

    Raises:
        ModelError: a file is broken, or config.json lacks the sizes of the model.
    """
    folder = resolved.folder
    config = headers.read_json(folder / "config.json")
    generation = headers.read_json(g) if (g := folder / "generation_config.json").is_file() else {}
    tensors = {name: info for name, info in headers.tensors(folder).items() if not is_buffer(name, info)}
    hidden = size(config, "hidden_size", "n_embd", "d_model", "dim")
    vocab = size(config, "vocab_size")
    if not hidden or not vocab or not layers.count(config):
        raise ModelError(f"{folder}/config.json lacks the number of layers, the hidden size or the vocabulary")
    heads = size(config, "num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads") or 1
    kv_heads = size(config, "num_key_value_heads", "num_kv_heads") or (1 if config.get("multi_query") else heads)
    head_dim = size(config, "head_dim") or hidden // heads
    kinds = layers.kinds(config)
    tied = _tied(config, tensors)
    share, mixture_note = active_share(config)
    template = vocabulary.chat_template(folder)
    notes = [*resolved.notes, *mixture_note, *_layer_notes(config, kinds), *_eos_notes(config, generation)]
    stored: Counter[str] = Counter()
    for info in tensors.values():
        stored[info.dtype] += info.elements
    if any(kind not in _FLOATS for kind in stored):
        notes.append("parameters counts packed weights as stored")
    dtype = next((_FLOATS[kind] for kind, _ in stored.most_common() if kind in _FLOATS), "bfloat16")
    return Facts(
        name=resolved.name,
        folder=folder,
        architecture=str(config["architectures"][0]),
        model_type=str(config.get("model_type")),
        layers=layers.count(config),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab=vocab,
        context=first(config, "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_seq_length"),
        parameters=sum(info.elements for info in _once(tensors, tied).values()),
        weight_bytes=sum(info.size for info in tensors.values()),
        dtype=dtype,
        tied=tied,
        sliding_window=layers.window(config),
        layer_kinds=kinds,
        eos_ids=_ids(first(generation, "eos_token_id")) or _ids(first(config, "eos_token_id")),
        bos_id=next(iter(_ids(first(generation, "bos_token_id")) or _ids(first(config, "bos_token_id"))), None),
        adds_bos=vocabulary.adds_bos(folder),
        has_chat_template=template is not None,
        template_sha256=hashes.of_bytes(template.encode()) if template is not None else None,
        generation_defaults={
            key: generation[key]
            for key, neutral in _NEUTRAL.items()
            if generation.get(key, None) not in (None, *neutral)
        },
        notes=tuple(dict.fromkeys(notes)),
        read_elements=_read(tensors, tied, share),
        cache_elements=_cache_row(config, kv_heads, head_dim) * sum(k in ("attention", "sliding") for k in kinds),
    )


def _size(dtype: str) -> int:
    if dtype not in DTYPE_BYTES:
        raise ModelError(f"unknown dtype {dtype!r}: allowed is {', '.join(DTYPE_BYTES)}")
    return DTYPE_BYTES[dtype]


def is_buffer(name: str, info: TensorInfo) -> bool:
    """Old checkpoints carry causal masks and rotary tables, which are no weights."""
    return name.endswith(_BUFFERS) or (name.endswith(".attn.bias") and len(info.shape) == 4)


def is_position(name: str) -> bool:
    """Whether a tensor of that name is a table of positions, of which a token reads one row."""
    return name.endswith(_POSITIONS)


def _tied(config: Mapping[str, Any], tensors: Mapping[str, TensorInfo]) -> bool:
    """Tied when config.json says so, or when no head of its own lies on disk."""
    return config.get("tie_word_embeddings") is True or not any(name.endswith(_HEADS) for name in tensors)


def _once(tensors: Mapping[str, TensorInfo], tied: bool) -> dict[str, TensorInfo]:
    """The tensors without the second copy of a tied embedding that some checkpoints store."""
    has_embedding = any(name.endswith(_EMBEDDINGS) for name in tensors)
    return {name: t for name, t in tensors.items() if not (tied and has_embedding and name.endswith(_HEADS))}


def _read(tensors: Mapping[str, TensorInfo], tied: bool, share: float) -> tuple[float, int]:
    """Float elements, and bytes of packed integers, that one decode step reads."""
    floats, packed = 0.0, 0.0
    for name, info in _once(tensors, tied).items():
        if is_position(name) or (name.endswith(_EMBEDDINGS) and not tied):
            continue
        part = share if ".experts." in name else 1.0
        if info.dtype in _FLOATS:
            floats += part * info.elements
        else:
            packed += part * info.size
    return floats, round(packed)


def active_share(config: Mapping[str, Any]) -> tuple[float, list[str]]:
    """The share of a mixture's experts that a token reads, and a note that says so; 1 and none without experts."""
    total = first(config, "num_local_experts", "num_experts", "n_routed_experts")
    active = first(config, "num_experts_per_tok", "moe_topk", "moe_k")
    if not total or not active:
        return 1.0, []
    return active / total, [f"mixture of experts: a token reads {active} of {total} experts in each such layer"]


def _cache_row(config: Mapping[str, Any], kv_heads: int, head_dim: int) -> int:
    """Elements that one attention layer keeps for a token: keys and values."""
    if config.get("kv_lora_rank"):
        # transformers caches latent attention expanded to full heads.
        key = int(config.get("qk_nope_head_dim") or 0) + int(config.get("qk_rope_head_dim") or 0)
        return int(config["num_attention_heads"]) * (key + int(config.get("v_head_dim") or 0))
    return 2 * kv_heads * head_dim


def _layer_notes(config: Mapping[str, Any], kinds: tuple[LayerKind, ...]) -> list[str]:
    found, notes = Counter(kinds), []
    if found["sliding"]:
        notes.append(f"{found['sliding']} of {len(kinds)} layers see a window of {layers.window(config)} tokens")
    if states := found["linear"] + found["recurrent"]:
        notes.append(f"{states} of {len(kinds)} layers keep a recurrent state, which cannot be rolled back")
    if found["conv"]:
        notes.append(f"{found['conv']} of {len(kinds)} layers are short convolutions, which keep a few tokens each")
    return notes


def _eos_notes(config: Mapping[str, Any], generation: Mapping[str, Any]) -> list[str]:
    first_ids, second_ids = _ids(first(generation, "eos_token_id")), _ids(first(config, "eos_token_id"))
    if first_ids and second_ids and not set(second_ids) <= set(first_ids):
        return [
            f"generation_config.json stops at {list(first_ids)}, config.json at {list(second_ids)}: the first counts"
        ]
    return []


def _ids(value: Any) -> tuple[int, ...]:
    if isinstance(value, bool) or value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (int(value),)
