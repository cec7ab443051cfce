"""What lies in a model folder: each linear layer by name and how its weights are stored, from headers alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specq.core.errors import ModelError
from specq.models import headers
from specq.models.check import check_folder
from specq.models.headers import TensorInfo
from specq.quantize.layers import is_gate
from specq.quantize.schemes import Declared, Scheme, declared

FLOATS = ("F32", "BF16", "F16", "F64")
_STORED_WHOLE = ("I8", "F8_E4M3", "F8_E5M2", "U8")
_MARKS = ("weight_packed", "qweight")
# Tensors that belong to a layer and are no part of its quantized weights.
_BESIDE = ("bias", "weight_shape")
_EMBEDDINGS = ("embed_tokens", "wte", "word_embeddings", "embed_in", "embeddings", "tok_embeddings")
_POSITIONS = ("wpe", "embed_positions", "position_embeddings")
_HEADS = ("lm_head", "embed_out")
# Mixtures of experts go by several names: on disk, in the model's class, and stacked into one tensor.
_EXPERT = re.compile(r"\.(experts|switch_mlp)(\.\d+)?\.")
_PARTS = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A linear layer, the head or the embedding.

    `count` is above 1 for experts stored as one tensor, each [rows, columns]. `bytes` counts weights with
    their scales and zero points. `scheme` is None for floats. `tensor` names what holds the weights.
    """

    name: str
    tensor: str
    role: str
    count: int
    rows: int
    columns: int
    bytes: int
    scheme: Scheme | None

    @property
    def weights(self) -> int:
        """How many weights it has."""
        return self.count * self.rows * self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """A folder's layers by name; `tied` when the head is the embedding; `tensors` are all on disk.

    `declared` is what config.json says about quantization. `gates` are the names of router gates.
    """

    folder: Path
    config: Mapping[str, Any]
    declared: Declared
    tensors: Mapping[str, TensorInfo]
    layers: Mapping[str, Layer]
    tied: bool

    def of(self, *roles: str) -> list[Layer]:
        """The layers of these roles: "linear", "gate", "head", "embedding"."""
        return [layer for layer in self.layers.values() if layer.role in roles]

    @property
    def bytes(self) -> int:
        """All tensors as stored, without shapes that are kept as tensors; a tied head's second copy left out."""
        return sum(i.size for name, i in self.tensors.items() if not name.endswith("weight_shape") and self.once(name))

    @property
    def elements(self) -> int:
        """Weights of the model: logical ones for quantized layers, stored ones for all else."""
        layered = {layer.name for layer in self.layers.values()}
        rest = (i for name, i in self.tensors.items() if i.dtype in FLOATS and module(name) not in layered)
        return sum(i.elements for i in rest) + sum(layer.weights for layer in self.layers.values())

    def once(self, name: str) -> bool:
        """Whether a tensor is more than a tied head's second copy."""
        return not self.tied or not module(name).endswith(_HEADS)


def read(folder: Path) -> Contents:
    """The contents of a model folder.

    Raises:
        ModelError: no model folder, broken headers, or weights in a format that cannot be read here.
    """
    check_folder(folder)
    config = headers.read_json(folder / "config.json")
    tensors = headers.tensors(folder)
    said = declared(folder, config)
    modules: dict[str, dict[str, TensorInfo]] = {}
    for name, info in tensors.items():
        modules.setdefault(module(name), {})[name.removeprefix(module(name)).removeprefix(".")] = info
    shapes = dict(_shapes(folder, tensors))
    layers: dict[str, Layer] = {}
    for name, parts in modules.items():
        if (layer := _layer(name, parts, said, shapes.get(name))) is not None:
            layers[name] = layer
    has_head = any(layer.role == "head" for layer in layers.values())
    quantized_head = any(layer.role == "head" and layer.scheme for layer in layers.values())
    # A quantized head cannot be the embedding, whatever config.json says.
    tied = not has_head or (config.get("tie_word_embeddings") is True and not quantized_head)
    if tied:
        layers = {name: layer for name, layer in layers.items() if layer.role != "head"}
    return Contents(folder=folder, config=config, declared=said, tensors=tensors, layers=layers, tied=tied)


def module(name: str) -> str:
    """The layer that a tensor belongs to: its name less the last part, or all of it for bare expert tensors."""
    head, _, last = name.rpartition(".")
    return name if _is_bare_expert(head, last) else head


def canonical(name: str) -> str:
    """One name for a layer however a file spells it; the experts of a layer share theirs."""
    if not (found := _EXPERT.search(name)):
        return name
    part = name[found.end() :]
    return f"{name[: found.start()].replace('.block_sparse_moe', '.mlp')}.experts.{_PARTS.get(part, part)}"


def is_expert(layer: Layer) -> bool:
    """Whether a layer is one expert's, or all experts of a layer in one."""
    return _EXPERT.search(layer.name + ".") is not None


def _is_bare_expert(head: str, last: str) -> bool:
    return head.endswith(".experts") and last.endswith("_proj")


def _role(name: str) -> str:
    last = name.rpartition(".")[2]
    if last in _HEADS:
        return "head"
    if last in _EMBEDDINGS:
        return "embedding"
    return "gate" if is_gate(name) else "linear"


def _layer(name: str, parts: Mapping[str, TensorInfo], said: Declared, shape: tuple[int, ...] | None) -> Layer | None:
    key = next((mark for mark in (*_MARKS, "weight", "") if mark in parts), None)
    if key is None or name.rpartition(".")[2] in _POSITIONS:
        return None
    info, role = parts[key], _role(name)
    tensor = f"{name}.{key}" if key else name
    if info.dtype in FLOATS:
        # Three dimensions are experts, or else a convolution.
        if len(info.shape) != 2 and not (len(info.shape) == 3 and _EXPERT.search(name + ".")):
            return None
        scheme, (rows, columns) = None, info.shape[-2:]
        size = info.size
    elif key in _MARKS or info.dtype in _STORED_WHOLE or (info.dtype == "U32" and "scales" in parts):
        if len(info.shape) < 2:
            raise ModelError(f"{tensor} has the shape {list(info.shape)}: a layer's weights have at least two axes")
        scheme = said.scheme(name)
        rows, columns = shape or _unpacked(key, info, scheme)
        size = sum(i.size for part, i in parts.items() if part not in _BESIDE)
    else:
        return None
    count = info.elements // (info.shape[-1] * info.shape[-2])
    return Layer(
        name=name, tensor=tensor, role=role, count=count, rows=rows, columns=columns, bytes=size, scheme=scheme
    )


def _unpacked(key: str, info: TensorInfo, scheme: Scheme) -> tuple[int, int]:
    """Rows and columns of the weights that a packed tensor holds."""
    first, last = info.shape[-2:]
    if key == "qweight":  # [columns / packed, rows] for gptq, [columns, rows / packed] for awq
        return (last, first * 32 // scheme.bits) if scheme.format == "gptq" else (last * 32 // scheme.bits, first)
    if info.dtype in ("U32", "I32"):
        return first, last * 32 // scheme.bits
    return (first, last * 2) if key == "weight_packed" else (first, last)


def _shapes(folder: Path, tensors: Mapping[str, TensorInfo]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The shapes that compressed-tensors keeps as tensors: packing may have padded the columns."""
    from safetensors import safe_open

    if not any(name.endswith(".weight_shape") for name in tensors):
        return
    for path in headers.weight_files(folder):
        with safe_open(path, "numpy") as file:
            for name in sorted(file.keys()):
                if name.endswith(".weight_shape"):
                    yield module(name), tuple(int(size) for size in file.get_tensor(name))


def why_kept(layer: Layer, said: Declared) -> str:
    """Why a layer of a quantized folder is stored in floats, as far as the folder tells."""
    if layer.role == "gate":
        return "a router gate"
    if pattern := said.ignored_by(layer.name):
        return "ignored by the config" + (f" ({pattern})" if pattern.startswith("re:") else "")
    rule = said.rule(layer.name)
    if rule is None:
        return "no rule of the config asks for it"
    if rule.group_size and layer.columns % rule.group_size:
        return f"{layer.columns} columns are not divisible by groups of {rule.group_size}"
    return "unknown"
