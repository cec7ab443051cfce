"""Bytes of a quantized model without its weights: what quantization_config says of each layer, on config's shapes.

Layouts are those that the libraries store: AutoGPTQ and AutoAWQ (words of 32 bits, scales in float16, zero points
packed), compressed-tensors, bitsandbytes, transformers' fine-grained FP8 and MXFP4, and mlx.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specq.lab import size_linears
from specq.lab.size_linears import HEAD, Linear
from specq.models.layers import first

Settings = Mapping[str, Any]
_HEADS = (HEAD, "embed_out", "output", "output_layer")
EMBEDDING = "model.embed_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """Bytes of all weights, of the table that is looked up, of all experts; linear layers that are packed and not."""

    bytes: int
    table: int
    expert: int
    packed: int
    left: tuple[str, ...]


def packed(
    place: str, config: Settings, how: Settings, *, total: int, table: tuple[int, int], wide: int
) -> Packed | None:
    """Bytes of a model of `total` weights with an input table [rows, columns]; what is not packed has `wide` bytes.

    None where the method is not known here.

    Raises:
        ModelError: a size of the config is missing or impossible.
    """
    layout = _layout(how, wide)
    if layout is None:
        return None
    size = expert = plain = many = 0
    left: list[str] = []
    for one in size_linears.linears(place, config):
        found = layout(one)
        if found is None:
            found = wide * one.rows * one.columns
            left.append(one.name)
        else:
            many += 1
        size += found * one.copies
        expert += found * one.copies if one.expert else 0
        plain += one.weights
    rows, columns = table
    embedded = None if "quant_method" in how else layout(Linear(name=EMBEDDING, rows=rows, columns=columns))
    embedded = wide * rows * columns if embedded is None else embedded
    return Packed(
        bytes=size + wide * (total - plain - rows * columns) + embedded,
        table=embedded,
        expert=expert,
        packed=many,
        left=tuple(left),
    )


Layout = Callable[[Linear], int | None]


def _layout(how: Settings, wide: int) -> Layout | None:
    """Bytes of one linear layer by its name and shape; None of a layer that stays as it is."""
    method = str(how.get("quant_method", "")).replace("_", "-")
    if method == "gptq":
        return lambda one: _gptq(one, how)
    if method == "awq":
        return lambda one: None if _head(one) or _named(one, how, "modules_to_not_convert") else _words(one, how)
    if method == "compressed-tensors" and isinstance(how.get("config_groups"), dict):
        return lambda one: _compressed(one, how, wide)
    if method == "bitsandbytes" and (how.get("load_in_4bit") or how.get("load_in_8bit")):
        return lambda one: _bitsandbytes(one, how)
    if method == "fp8":
        return lambda one: _fp8(one, how)
    if method == "fbgemm-fp8":
        return lambda one: None if _head(one) or _named(one, how, "modules_to_not_convert") else _rows8(one)
    if method == "mxfp4":
        return lambda one: one.rows * _up(one.columns, 32) * 17 if one.expert else None
    if not method and isinstance(how.get("bits"), int):
        return lambda one: _mlx(one, how, wide)
    return None


def _up(value: int, of: int) -> int:
    return -(-value // of)


def _head(one: Linear) -> bool:
    return one.name == HEAD


def _covers(pattern: str, name: str) -> bool:
    """Whether a module's name, or its dotted part, is meant: "lm_head", "mlp.down_proj", "model.layers.3"."""
    return f".{pattern}." in f".{name}." or (name == HEAD and pattern in _HEADS)


def _named(one: Linear, how: Settings, key: str) -> bool:
    names = how.get(key)
    return isinstance(names, Sequence) and any(_covers(str(pattern), one.name) for pattern in names)


def _words(one: Linear, how: Settings, index: bool = False) -> int:
    """Words of 32 bits, one float16 scale and one packed zero point a group, and maybe each column's group."""
    bits = int(first(how, "bits", "w_bit", "num_bits") or 4)
    group = int(first(how, "group_size", "q_group_size") or 128)
    groups = 1 if group < 1 else _up(one.columns, group)
    size = 4 * _up(one.rows * one.columns * bits, 32) + groups * (2 * one.rows + 4 * _up(one.rows * bits, 32))
    return size + (4 * one.columns if index else 0)


def _gptq(one: Linear, how: Settings) -> int | None:
    if _head(one) and not how.get("lm_head"):
        return None
    inside = how.get("modules_in_block_to_quantize")
    if inside and not _head(one):
        flat = [name for some in inside for name in (some if isinstance(some, list) else [some])]
        if not any(_covers(str(name), one.name) for name in flat):
            return None
    settings = dict(how)
    for pattern, own in (how.get("dynamic") or {}).items():
        if re.match(pattern.removeprefix("-:").removeprefix("+:"), one.name):
            if pattern.startswith("-:"):
                return None
            settings |= own or {}
    return _words(one, settings, index=True)


def _compressed(one: Linear, how: Settings, wide: int) -> int | None:
    if any(_target(str(name), one.name) for name in how.get("ignore") or ()):
        return None
    for group in how["config_groups"].values():
        targets = group.get("targets") or ("Linear",)
        if group.get("weights") and any(name == "Linear" or _target(str(name), one.name) for name in targets):
            return _of_group(one, group, str(group.get("format") or how.get("format") or ""), wide)
    return None


def _target(pattern: str, name: str) -> bool:
    if pattern.startswith("re:"):
        return re.match(pattern.removeprefix("re:"), name) is not None
    return pattern == name or (name == HEAD and pattern in _HEADS)


def _of_group(one: Linear, group: Settings, form: str, wide: int) -> int:
    how = group["weights"]
    bits, columns = int(how["num_bits"]), one.columns
    size = int(how.get("group_size") or 0)
    given = how.get("strategy") or ("group" if size > 0 else "channel")
    if given in ("group", "tensor_group") and size > 0:
        scales = one.rows * _up(columns, size)
    elif given == "block" and how.get("block_structure"):
        down, across = how["block_structure"]
        scales = _up(one.rows, int(down)) * _up(columns, int(across))
    else:
        scales = 1 if given == "tensor" else one.rows
    static = isinstance(inputs := group.get("input_activations"), Mapping) and not inputs.get("dynamic")
    if form.startswith(("nvfp4", "mxfp4")):
        # One byte a scale; NVFP4 has a float32 scale over all of them, and one for what comes in.
        more = (4 + (4 if inputs else 0)) if form.startswith("nvfp4") else 0
        return one.rows * _up(columns, 2) + scales + more
    if form == "pack-quantized":
        found = one.rows * 4 * _up(columns * bits, 32) + 16
        zeros = 4 * _up(one.rows * bits, 32) * (scales // one.rows or 1)
    else:
        found = one.rows * columns * _up(bits, 8)
        zeros = scales
    symmetric = how.get("symmetric", True)
    found += wide * scales + (0 if symmetric else zeros) + (wide if static else 0)
    return found + (4 * columns if how.get("actorder") == "group" else 0)


def _bitsandbytes(one: Linear, how: Settings) -> int | None:
    skipped = how.get("llm_int8_skip_modules")
    if (_head(one) and skipped is None) or _named(one, how, "llm_int8_skip_modules"):
        return None
    count = one.rows * one.columns
    if not how.get("load_in_4bit"):
        return count + 4 * one.rows
    # One scale for 64 weights: a float32, or a byte and a float32 for 256 of these; the table of 16 values.
    blocks = _up(count, 64)
    nested = blocks + 4 * _up(blocks, 256) + 4 * 256
    return _up(count, 2) + (nested if how.get("bnb_4bit_use_double_quant") else 4 * blocks) + 4 * 16


def _rows8(one: Linear) -> int:
    return one.rows * one.columns + 4 * one.rows


def _fp8(one: Linear, how: Settings) -> int | None:
    if _head(one) or any(_named(one, how, key) for key in ("modules_to_not_convert", "ignored_layers")):
        return None
    block = how.get("weight_block_size")
    scales = _up(one.rows, int(block[0])) * _up(one.columns, int(block[1])) if block else 1
    static = 4 if how.get("activation_scheme") == "static" else 0
    return one.rows * one.columns + 4 * scales + static


def _mlx(one: Linear, how: Settings, wide: int) -> int | None:
    """Packed words, a scale and a bias a group in the model's dtype; a scale of one byte in the modes of fp4 and fp8.

    A table of embeddings is packed as layers are.
    """
    own = how.get(one.name, how.get(one.name.removeprefix("model."), True))
    if own is False:
        return None
    settings = {**how, **(own if isinstance(own, Mapping) else {})}
    bits, group = int(settings["bits"]), int(settings.get("group_size") or 64)
    if one.columns % group:
        return None
    each = 2 * wide if settings.get("mode", "affine") == "affine" else 1
    return 4 * _up(one.rows * one.columns * bits, 32) + one.rows * (one.columns // group) * each
