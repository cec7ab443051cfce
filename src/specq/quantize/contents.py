"""What lies in a model folder: each linear layer by name and how its weights are stored.

From headers, and from the few tensors of a quantized layer that say what its weights mean: its shape, the order of
its columns, its zero points.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from specq.core.errors import ModelError
from specq.models import headers
from specq.models.check import check_folder
from specq.models.headers import TensorInfo
from specq.quantize import stored
from specq.quantize.declared import declared
from specq.quantize.layers import is_gate
from specq.quantize.schemes import Declared, Scheme

FLOATS = ("F32", "BF16", "F16", "F64")
_STORED_WHOLE = ("I8", "F8_E4M3", "F8_E5M2", "U8")
_MARKS = ("weight_packed", "qweight")
# Tensors that mean nothing without a layer's weights.
_OF_WEIGHTS = {"weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx", "scales", "qzeros", "g_idx"}
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
    their scales and zero points. `scheme` is None for floats. `tensor` names what holds the weights. `ordered`:
    columns are not grouped one group after the other, but as an index says.
    """

    name: str
    tensor: str
    role: str
    count: int
    rows: int
    columns: int
    bytes: int
    scheme: Scheme | None
    ordered: bool = False

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


def read(folder: Path, said: Declared | None = None) -> Contents:
    """The contents of a model folder; `said` stands for what its config.json declares.

    Raises:
        ModelError: no model folder, broken headers, weights in a format that cannot be read here, or tensors that
            are not what config.json says; names the first of them.
    """
    check_folder(folder)
    config = headers.read_json(folder / "config.json")
    tensors = headers.tensors(folder)
    said = declared(folder, config) if said is None else said
    modules: dict[str, dict[str, TensorInfo]] = {}
    for name, info in tensors.items():
        modules.setdefault(module(name), {})[name.removeprefix(module(name)).removeprefix(".")] = info
    layers: dict[str, Layer] = {}
    with _Values(folder, tensors) as values:
        for name, parts in modules.items():
            if (layer := _layer(name, parts, said, values)) is not None:
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


def is_head(name: str) -> bool:
    """Whether a layer of that name is the output head."""
    return name.rpartition(".")[2] in _HEADS


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


def _layer(name: str, parts: Mapping[str, TensorInfo], said: Declared, values: _Values) -> Layer | None:
    key = next((mark for mark in (*_MARKS, "weight", "") if mark in parts), None)
    if key is None and said.format and (left := sorted(_OF_WEIGHTS & set(parts))):
        raise ModelError(f"{values.folder}: {name} has {', '.join(left)} and no weights: copy the folder again")
    if key is None or name.rpartition(".")[2] in _POSITIONS:
        return None
    info, role = parts[key], _role(name)
    tensor = f"{name}.{key}" if key else name
    scheme, ordered = None, False
    if info.dtype in FLOATS and key not in _MARKS:
        # Three dimensions are experts, or else a convolution.
        if len(info.shape) != 2 and not (len(info.shape) == 3 and _EXPERT.search(name + ".")):
            return None
        (rows, columns), size = info.shape[-2:], info.size
    elif key or info.dtype in _STORED_WHOLE:
        if len(info.shape) < 2:
            raise ModelError(
                f"{values.folder}: {tensor} has the shape {list(info.shape)}: a layer's weights have at least two axes"
            )
        # Router gates and embeddings too: a reader that keeps them looks for floats.
        if (kept := said.keeps(name)) is not None:
            raise ModelError(
                f"{values.folder}: {tensor} holds quantized weights, and config.json keeps that layer in floats "
                f"({said.kept_by} names {kept!r}), so other readers would make it up at random, or fail: {stored.FIX}"
            )
        scheme = said.scheme(name)
        rows, columns = info.shape[-2:]
        if key and stored.is_known(scheme):
            rows, columns = stored.check(
                f"{values.folder}: {name}", parts, scheme, lambda part: values.read(f"{name}.{part}")
            )
            index = stored.layout(scheme).index
            scheme = replace(scheme, act_order=index in parts)
            if scheme.act_order:
                groups = columns // scheme.group_size if scheme.group_size else 1
                order = values.read(f"{name}.{index}")
                stored.check_order(f"{values.folder}: {name}.{index}", order, groups)
                ordered = not stored.in_order(order, groups)
        # Floats beside packed weights are no part of them.
        others = (*_BESIDE, "weight") if key in _MARKS else _BESIDE
        size = sum(i.size for part, i in parts.items() if part not in others)
    else:
        return None
    return Layer(
        name=name,
        tensor=tensor,
        role=role,
        count=info.elements // (info.shape[-1] * info.shape[-2]),
        rows=rows,
        columns=columns,
        bytes=size,
        scheme=scheme,
        ordered=ordered,
    )


class _Values:
    """Small tensors of a folder by name, as numpy; a file is opened when it is first asked for."""

    def __init__(self, folder: Path, infos: Mapping[str, TensorInfo]) -> None:
        self.folder, self._infos = folder, infos
        self._where: dict[str, Path] = {}
        self._open: dict[Path, Any] = {}
        self._stack = ExitStack()

    def __enter__(self) -> _Values:
        self._where = {name: path for path in headers.weight_files(self.folder) for name in headers.read_header(path)}
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def read(self, name: str) -> np.ndarray:
        """One tensor."""
        from safetensors import safe_open

        path = self._where[name]
        if self._infos[name].dtype.startswith(("BF", "F8")):  # numpy has no such numbers
            with safe_open(path, "pt") as file:
                held: np.ndarray = file.get_tensor(name).float().numpy()
            return held
        if path not in self._open:
            self._open[path] = self._stack.enter_context(safe_open(path, "numpy"))
        found: np.ndarray = self._open[path].get_tensor(name)
        return found


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
