"""What weights take in memory and what a pass over one row reads of them: from headers, before anything is loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from specq.core.types import Prefill
from specq.models import headers
from specq.models.facts import DTYPE_BYTES, active_share, is_buffer, is_position
from specq.models.kept import ID_BYTES, Kept
from specq.quantize import contents, layers, room
from specq.quantize.audited import NO_KERNEL
from specq.quantize.contents import FLOATS, Contents, Layer, canonical, module
from specq.quantize.declared import is_quantized
from specq.quantize.recipes import Recipe
from specq.quantize.schemes import PACKED, Declared, Scheme
from specq.quantize.sizes import quantized_bytes, scale_count

DECLARED = ("compressed-tensors", "gptq", "awq")
"""The quant_methods of config.json whose rules are read here."""
_EXPERTS = ".experts."
# Of the 4-bit kernel: a scale and an offset a group; of the 8-bit one: a scale a row. All of two bytes.
_GROUP_BYTES, _ROW_BYTES = 4, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where weights are held, and how.

    `dtype` is that of the floats, `prefill` says whether layers on packed kernels have a dense copy beside them.
    `repacks`: the CPU's kernels get dense layers in a layout of their own, so a head that is the embedding too is
    held twice.
    """

    engine: str
    device: str
    dtype: str
    prefill: Prefill = "dense"
    repacks: bool = False

    @property
    def float_bytes(self) -> int:
        """Bytes of one weight in floats."""
        return DTYPE_BYTES[self.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Bytes of a model's weights in memory.

    `weight_bytes` counts everything that it holds itself. `copy_bytes`, a part of it, are dense copies for passes of
    many rows, and a head that is laid out beside the embedding that it is. `read_bytes` are what one pass over one
    row reads, `head_bytes` those of them that the head takes; of a mixture's experts the active ones count, and the
    one row of an input embedding does not. `kernels` has one line for each kernel, or reason why there is none, with
    its layers counted.
    """

    weight_bytes: int
    copy_bytes: int
    read_bytes: int
    head_bytes: int
    kernels: tuple[str, ...] = ()

    @property
    def no_kernel(self) -> tuple[str, ...]:
        """Those of the lines that tell of layers without a kernel."""
        return tuple(line for line in self.kernels if NO_KERNEL in line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A model's weights as they will be: a folder's contents with some layers quantized.

    `schemes` go by the canonical names of layers; a tied head that is named there gets weights of its own. `why` says
    why none of them runs on a packed kernel here, "" where some may. `merged` are the canonical names of layers that
    transformers merges with others. Of the head only the rows `kept` are held, beside the embedding where it is that;
    None: all.
    """

    contents: Contents
    schemes: Mapping[str, Scheme]
    why: str = ""
    merged: Collection[str] = ()
    kept: Kept | None = None

    def held(self, place: Place, *, shared: bool = False) -> Held:
        """What they take at that place; `shared`: all but the quantized layers are another model's, there already."""
        own = copies = 0
        read: Counter[str] = Counter()
        kernels: Counter[str] = Counter()
        for name, size in self._floats(place):
            part, rows = self._part(name), size
            if part == "head" and self.kept is not None:
                rows = self.kept.size_of(size) + ID_BYTES * len(self.kept.ids)
            own += size if self.contents.tied or part != "head" else rows
            if part == "head" and self.contents.tied and (place.repacks or self.kept is not None):
                own, copies = own + rows, copies + rows
            read[part] += self._read(name, rows)
        if shared:
            own = copies = 0
        for name, layer, scheme in self._quantized():
            if self._part(name) == "head" and self.kept is not None:
                layer = replace(layer, rows=len(self.kept.ids))
            kernel = _kernel(layer, scheme, place, self.why or self._merged(name))
            size = layer.count * _size(layer, scheme, place, kernel)
            copy = layer.count * layer.rows * layer.columns * place.float_bytes if _has_copy(kernel, place) else 0
            # transformers leaves the scales in the model that it has made dense by them.
            left = self.why or scheme.format != "pack-quantized" or scheme.activations
            scales = scale_count(scheme, layer.rows, layer.columns) if left and place.engine == "hf" else 0
            own, copies = own + size + copy + layer.count * scales * place.float_bytes, copies + copy
            read[self._part(name)] += self._read(name, size)
            kernels[kernel] += layer.count
        if self.why and not kernels:
            kernels[f"{NO_KERNEL}{self.why}"] = 0
        return Held(
            weight_bytes=own,
            copy_bytes=copies,
            read_bytes=read["head"] + read["other"],
            head_bytes=read["head"],
            kernels=tuple(f"{n} layers: {kernel}" if n else kernel for kernel, n in sorted(kernels.items())),
        )

    def _floats(self, place: Place) -> Iterator[tuple[str, int]]:
        """Each tensor that is no part of a quantized layer, by name, with its bytes there."""
        for name, info in self.contents.tensors.items():
            inside = canonical(module(name)) in self.schemes and not name.endswith(".bias")
            if not inside and self.contents.once(name) and not is_buffer(name, info):
                yield name, info.elements * place.float_bytes if info.dtype in FLOATS else info.size

    def _quantized(self) -> Iterator[tuple[str, Layer, Scheme]]:
        known = set()
        for layer in self.contents.layers.values():
            known.add(canonical(layer.name))
            if (scheme := self.schemes.get(canonical(layer.name))) is not None:
                yield layer.name, layer, scheme
        embedding = self.contents.of("embedding")
        for name in self.schemes:
            if name not in known and contents.is_head(name) and self.contents.tied and embedding:
                yield name, embedding[0], self.schemes[name]

    def _part(self, name: str) -> str:
        """What a tensor or a layer of that name is to a pass: the head, a part that is not read whole, or another."""
        layer = self.contents.layers.get(name) or self.contents.layers.get(module(name))
        if layer is not None and layer.role == "embedding":
            own_head = not self.contents.tied or any(contents.is_head(one) for one in self.schemes)
            return "embedding" if own_head else "head"
        if is_position(name):
            return "embedding"
        return "head" if contents.is_head(name) or contents.is_head(module(name)) else "other"

    def _read(self, name: str, size: int) -> int:
        return round(size * active_share(self.contents.config)[0]) if _EXPERTS in canonical(f"{name}.") else size

    def _merged(self, name: str) -> str:
        return "transformers merges this layer with others" if canonical(name) in self.merged else ""


def of_folder(folder: Path, engine: str) -> Weights:
    """The weights of a folder as it is, in floats or quantized, for that kind of engine.

    Raises:
        ModelError: the folder is in a format that the engine does not read.
    """
    if engine != "hf":
        return _as_declared(contents.read(folder))
    if not is_quantized(folder):
        return _as_declared(contents.read(folder))
    from specq.quantize.load import without_kernels

    why = without_kernels(folder)
    method = str(headers.read_json(folder / "config.json")["quantization_config"]["quant_method"])
    if method not in DECLARED:
        # What no rule here can read is counted as it is stored.
        stored = Scheme(format=method, bits=8, group_size=None, symmetric=True)
        found = contents.read(folder, Declared(format=method, rules=(("*", stored),)))
        return Weights(contents=found, schemes={}, why=why)
    found = contents.read(folder)
    experts = any(contents.is_expert(layer) for layer in found.layers.values())
    return _as_declared(found, why, merged(layers.linear_layers(folder)) if experts and not why else ())


def of_recipe(recipe: Recipe, found: Contents, linears: Sequence[layers.Layer]) -> Weights:
    """What a recipe makes of a source, whose linear layers are all given; none where it turns a folder over."""
    schemes = room.schemes(recipe, linears, found)
    if not schemes:
        return _as_declared(found)
    return Weights(contents=found, schemes=schemes, merged=merged(linears))


def rounded(found: Contents, linears: Sequence[layers.Layer], *, bits: int, group_size: int, head: bool) -> Weights:
    """A dense model's twin that is rounded in memory: every plain linear layer, and the head where it is asked for."""
    scheme = Scheme(format="pack-quantized", bits=bits, group_size=group_size, symmetric=bits != 4)
    roles = ("linear", "head") if head else ("linear",)
    chosen = [layer for layer in linears if layer.role in roles and not layer.merged]
    return Weights(contents=found, schemes={canonical(layer.name): scheme for layer in chosen})


def merged(linears: Sequence[layers.Layer]) -> frozenset[str]:
    """The canonical names of layers that a model's class keeps in one tensor with others, in either spelling."""
    names = {canonical(layer.name) for layer in linears if layer.merged}
    return frozenset(names | {name.replace(".experts.gate_proj", ".experts.gate_up_proj") for name in names})


def _as_declared(found: Contents, why: str = "", merged: Collection[str] = ()) -> Weights:
    schemes = {canonical(layer.name): layer.scheme for layer in found.layers.values() if layer.scheme is not None}
    return Weights(contents=found, schemes=schemes, why=why, merged=merged)


def _kernel(layer: Layer, scheme: Scheme, place: Place, why: str) -> str:
    """The kernel that runs a layer, or "no kernel here: " and why, in the words of a run."""
    if place.engine == "mlx":
        return scheme.format
    if not why and scheme.format not in PACKED:
        why = scheme.format
    if not why and scheme.activations:
        why = "activations are quantized too"
    if not why and scheme.group_size is None:
        why = "scales of another shape"
    if why or scheme.group_size is None:
        return f"{NO_KERNEL}{why}"
    from specq.quantize.kernels import kernel_for

    return kernel_for(
        bits=scheme.bits,
        group_size=scheme.group_size,
        symmetric=scheme.symmetric,
        rows=layer.rows,
        columns=layer.columns,
        ordered=layer.ordered,
        device=place.device,
        dtype=place.dtype,
    )


def _size(layer: Layer, scheme: Scheme, place: Place, kernel: str) -> int:
    """Bytes of one layer as a pass over few rows reads it; without a kernel it is dense."""
    rows, columns = layer.rows, layer.columns
    if place.engine == "mlx":
        return quantized_bytes(scheme, rows=rows, columns=columns, float_bytes=place.float_bytes)
    if kernel.startswith(NO_KERNEL):
        return rows * columns * place.float_bytes
    groups = columns // (scheme.group_size or columns)
    scales = rows * (groups * _GROUP_BYTES if scheme.bits == 4 else _ROW_BYTES)
    return rows * columns * scheme.bits // 8 + scales


def _has_copy(kernel: str, place: Place) -> bool:
    return place.engine != "mlx" and place.prefill == "dense" and not kernel.startswith(NO_KERNEL)
