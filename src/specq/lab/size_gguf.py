"""A GGUF file's header, read without its tensors and without a library: what it holds and how many bytes of it.

The format: magic, version, counts, key-value pairs, then for each tensor its name, dimensions, type and offset
(ggml, docs/gguf.md). Lists of a tokenizer are passed over, so that a header of 150,000 tokens takes no second.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from specq.core.errors import ModelError
from specq.lab.size_config import MOST_LAYERS

_MAGIC = b"GGUF"
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
# Longer lists hold a tokenizer, and nothing that sizing reads.
_LONGEST_LIST = 4096
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")
# Values in a block and bytes of a block, by the number of ggml's type (ggml-common.h, ggml.c: type_traits).
_TYPES = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18),
}  # fmt: skip
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufTensor:
    """One tensor: how many values it has and how many bytes they take."""

    name: str
    elements: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gguf:
    """What a GGUF file, with all of its parts, says and holds."""

    values: dict[str, Any]
    tensors: tuple[GgufTensor, ...]
    parts: int


def read(path: Path) -> Gguf:
    """A file's values and tensors; of a file in parts all parts, which must lie beside one another.

    Raises:
        ModelError: it is no GGUF, is truncated, or a part is missing.
    """
    values, tensors = _one(path)
    count = int(values.get("split.count") or 1)
    if count > 1:
        match = _PART.fullmatch(path.name)
        if match is None:
            raise ModelError(f"{path} is one of {count} parts, and its name does not tell the others: keep their names")
        names = [path.with_name(f"{match[1]}-{i:05d}-of-{match[3]}.gguf") for i in range(1, count + 1)]
        if missing := [name for name in names if not name.is_file()]:
            raise ModelError(f"{path} is one of {count} parts, and {missing[0].name} is missing: get it too")
        values, tensors = _one(names[0])
        for name in names[1:]:
            tensors += _one(name)[1]
    if not isinstance(values.get("general.architecture"), str) or not tensors:
        raise ModelError(f"{path} is a GGUF file without a model (no architecture or no tensors)")
    return Gguf(values=values, tensors=tuple(tensors), parts=count)


def _one(path: Path) -> tuple[dict[str, Any], list[GgufTensor]]:
    try:
        with path.open("rb") as file:
            if (magic := file.read(4)) != _MAGIC:
                raise ModelError(f"{path} is not a GGUF file: it starts with {magic!r}, a GGUF starts with {_MAGIC!r}")
            version, tensor_count, pair_count = struct.unpack("<IQQ", _exactly(file, 20))
            if not 2 <= version <= 3:
                raise ModelError(f"{path} is GGUF version {version}; allowed are 2 and 3: convert the model anew")
            values: dict[str, Any] = {}
            for _ in range(pair_count):
                key = _text(file)
                value = _value(file, *struct.unpack("<I", _exactly(file, 4)))
                if value is not None:
                    values[key] = value
            found = [_tensor(file) for _ in range(tensor_count)]
            start = file.tell()
            size = path.stat().st_size
    except (struct.error, EOFError, UnicodeDecodeError, OverflowError, MemoryError) as error:
        raise ModelError(f"{path} is a GGUF file that is truncated or broken: copy or download it again") from error
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    alignment = int(values.get("general.alignment") or 32)
    start += -start % alignment
    ends = sorted({offset for _, _, _, offset in found} | {size - start})
    after = dict(pairwise(ends))
    tensors, last = [], start
    for name, elements, kind, offset in found:
        values_in, bytes_of = _TYPES.get(kind, (0, 0))
        # Of a type that is newer than this table, the bytes up to the next tensor.
        length = elements * bytes_of // values_in if values_in else after.get(offset, offset) - offset
        tensors.append(GgufTensor(name=name, elements=elements, size=length))
        last = max(last, start + offset + length)
    if last > size:
        raise ModelError(f"{path} is truncated: its header asks for {last} bytes, found {size}: download it again")
    return values, tensors


def _exactly(file: BinaryIO, count: int) -> bytes:
    # A broken length would ask for more than any header has.
    if count > 1 << 30 or len(data := file.read(count)) < count:
        raise EOFError
    return data


def _text(file: BinaryIO) -> str:
    (length,) = struct.unpack("<Q", _exactly(file, 8))
    return _exactly(file, length).decode()


def _value(file: BinaryIO, kind: int) -> Any:
    if kind in _SCALARS:
        form = "<" + _SCALARS[kind]
        return struct.unpack(form, _exactly(file, struct.calcsize(form)))[0]
    if kind == _TEXT:
        return _text(file)
    if kind != _LIST:
        raise EOFError
    inner, count = struct.unpack("<IQ", _exactly(file, 12))
    if inner == _TEXT:
        for _ in range(count):
            file.seek(struct.unpack("<Q", _exactly(file, 8))[0], 1)
        return None
    if inner not in _SCALARS:
        raise EOFError
    width = struct.calcsize("<" + _SCALARS[inner])
    if count > _LONGEST_LIST:
        file.seek(width * count, 1)
        return None
    return list(struct.unpack(f"<{count}{_SCALARS[inner]}", _exactly(file, width * count)))


def _tensor(file: BinaryIO) -> tuple[str, int, int, int]:
    name = _text(file)
    (axes,) = struct.unpack("<I", _exactly(file, 4))
    if axes > 8:
        raise EOFError
    shape = struct.unpack(f"<{axes}Q", _exactly(file, 8 * axes))
    kind, offset = struct.unpack("<IQ", _exactly(file, 12))
    return name, math.prod(shape), kind, offset


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
