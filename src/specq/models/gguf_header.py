"""A GGUF file's header, read without its tensors and without a library: what it holds and how many bytes of it.

The format: magic, version, counts, key-value pairs, then for each tensor its name, dimensions, type and offset
(ggml, docs/gguf.md). Lists of a tokenizer are passed over: the gguf library makes an array of each of 150,000 tokens
and merges, and takes seconds for what is a read here.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from specq.core.errors import ModelError

MAGIC = b"GGUF"
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
# Longer lists hold a tokenizer, and nothing that is read here.
_LONGEST_LIST = 4096
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")
TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2),
    26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip
"""Name, values in a block and bytes of a block, by the number of ggml's type (ggml-common.h, ggml.c: type_traits)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufTensor:
    """One tensor: how many values it has, in how many dimensions, and how many bytes they take in which type."""

    name: str
    kind: str
    axes: int
    elements: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gguf:
    """What a GGUF file, with all of its parts, says and holds."""

    values: dict[str, Any]
    tensors: tuple[GgufTensor, ...]
    parts: int


def read(path: Path, *, whole: bool = True) -> Gguf:
    """A file's values and tensors, less the lists of a tokenizer; of a file in parts all, which must lie side by side.

    Without `whole` the file is read alone, and may hold no model.

    Raises:
        ModelError: it is no GGUF, is truncated, or a part is missing.
    """
    values, tensors = _one(path)
    count = int(values.get("split.count") or 1)
    if not whole:
        return Gguf(values=values, tensors=tuple(tensors), parts=count)
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
            if (magic := file.read(4)) != MAGIC:
                raise ModelError(f"{path} is not a GGUF file: it starts with {magic!r}, a GGUF starts with {MAGIC!r}")
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
    ends = sorted({offset for *_, offset in found} | {size - start})
    after = dict(pairwise(ends))
    tensors, last = [], start
    for name, axes, elements, kind, offset in found:
        _, values_in, bytes_of = TYPES.get(kind, ("", 0, 0))
        # Of a type that is newer than this table, the bytes up to the next tensor.
        length = elements * bytes_of // values_in if values_in else after.get(offset, offset) - offset
        told = TYPES[kind][0] if kind in TYPES else f"type {kind}"
        tensors.append(GgufTensor(name=name, kind=told, axes=axes, elements=elements, size=length))
        last = max(last, start + offset + length)
    if last > size:
        raise ModelError(
            f"{path} is truncated or broken: its header asks for {last} bytes, found {size}: copy or download it again"
        )
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


def _tensor(file: BinaryIO) -> tuple[str, int, int, int, int]:
    name = _text(file)
    (axes,) = struct.unpack("<I", _exactly(file, 4))
    if axes > 8:
        raise EOFError
    shape = struct.unpack(f"<{axes}Q", _exactly(file, 8 * axes))
    kind, offset = struct.unpack("<IQ", _exactly(file, 12))
    return name, axes, math.prod(shape), kind, offset
