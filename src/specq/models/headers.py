"""Safetensors files without their tensors: names, shapes and lengths from the headers alone.

The format: 8 bytes little-endian length of a JSON header, the header, then the tensors' bytes, which
`data_offsets` count from the header's end (safetensors, README, "Format").
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path

from specq.core.errors import ModelError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
POINTER = b"version https://git-lfs"
# The limit that the safetensors library itself puts on a header.
HEADER_LIMIT = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor on disk: `dtype` as safetensors names it (BF16, F32, I32, ...), its shape and its bytes."""

    dtype: str
    shape: tuple[int, ...]
    size: int

    @property
    def elements(self) -> int:
        """The product of the shape (1 for a scalar)."""
        return math.prod(self.shape)


def read_json(path: Path) -> dict:
    """A JSON object from a model folder.

    Raises:
        ModelError: the file is missing, is a Git LFS pointer or holds no JSON object.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    _refuse_pointer(path, data)
    try:
        value = json.loads(data)
    except RecursionError as error:
        raise ModelError(f"{path} is not valid JSON (nested too deeply): copy the model folder again") from error
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON ({error}): copy the model folder again") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds a {type(value).__name__}, expected a JSON object")
    return value


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that transformers would load from a folder, sorted by name; [] without weights.

    Raises:
        ModelError: the index is not readable or names a file that is missing.
    """
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    index = folder / INDEX
    if not index.is_file():
        return []
    names = sorted(set(_weight_map(index).values()))
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ModelError(
            f"{index} names {missing[0]}, which is missing ({len(missing)} of {len(names)} shards are): copy it too"
        )
    return [folder / name for name in names]


def tensors(folder: Path) -> dict[str, TensorInfo]:
    """All tensors of a folder by name.

    Raises:
        ModelError: a file is truncated or not safetensors, or a tensor that the index names is missing.
    """
    found: dict[str, TensorInfo] = {}
    files = weight_files(folder)
    for path in files:
        found.update(read_header(path))
    if files and files[0].name != SINGLE:
        for name, shard in _weight_map(folder / INDEX).items():
            if name not in found:
                raise ModelError(f"{folder / INDEX} names the tensor {name}, which {shard} does not hold")
    return found


def _weight_map(index: Path) -> dict[str, str]:
    mapping = read_json(index).get("weight_map")
    if not isinstance(mapping, dict) or not mapping:
        raise ModelError(f"{index} has no weight_map: copy the model folder again")
    return {str(name): str(shard) for name, shard in mapping.items()}


def read_header(path: Path) -> dict[str, TensorInfo]:
    """The tensors of one safetensors file by name.

    Raises:
        ModelError: the file is a Git LFS pointer, not safetensors, or shorter than its header says.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        _refuse_pointer(path, head + file.read(len(POINTER) - 8))
        if len(head) < 8:
            raise ModelError(f"{path} is truncated: {size} bytes, a safetensors file has at least 8: copy it again")
        (length,) = struct.unpack("<Q", head)
        if length > HEADER_LIMIT:
            raise ModelError(f"{path} is not a safetensors file (its first 8 bytes are no header length): give one")
        if 8 + length > size:
            raise ModelError(f"{path} is truncated: expected at least {8 + length} bytes, found {size}: copy it again")
        file.seek(8)
        raw = file.read(length)
    try:
        entries = json.loads(raw)
        entries.pop("__metadata__", None)
        found, end = {}, 0
        for name, entry in entries.items():
            start, stop = entry["data_offsets"]
            found[name] = TensorInfo(dtype=entry["dtype"], shape=tuple(entry["shape"]), size=stop - start)
            end = max(end, stop)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path} is not a safetensors file (its header is not readable)") from error
    if size != 8 + length + end:
        word = "truncated" if size < 8 + length + end else "longer than its header says"
        raise ModelError(f"{path} is {word}: expected {8 + length + end} bytes, found {size}: copy it again")
    return found


def _refuse_pointer(path: Path, data: bytes) -> None:
    if data.startswith(POINTER):
        raise ModelError(f"{path} is a Git LFS pointer, not the file itself: type: git lfs pull")
