"""What a quantized folder should weigh: bytes from shapes, before anything is made and to check it after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from specq.quantize.contents import FLOATS, Contents, canonical, module
from specq.quantize.schemes import Scheme

# A tensor's entry in a safetensors header, less its name: dtype, shape, two offsets and the JSON around them.
_ENTRY = 70
_SHAPE_BYTES = 16
# Tensors a layer, where it is not weights, scales and what an asymmetric grid adds.
_PARTS = {"nvfp4-pack-quantized": 3, "gptq": 4, "awq": 3}


def quantized_bytes(scheme: Scheme, *, rows: int, columns: int, float_bytes: int = 2) -> int:
    """Bytes of one layer's weights, scales and zero points in a format.

    Args:
        scheme: format, bits, group and symmetry; the layouts are those of the tool that writes the format.
        rows: output features.
        columns: input features.
        float_bytes: of a scale that is stored in the model's own dtype.
    """
    scales = scale_count(scheme, rows, columns)
    kind = scheme.format.removesuffix("-quantized").removesuffix("-pack")
    if kind in ("nvfp4", "mxfp4", "mlx nvfp4", "mlx mxfp4", "mxfp8", "mlx mxfp8"):
        whole = rows * columns * scheme.bits // 8 + scales
        return whole + (4 + 4 * scheme.activations if kind == "nvfp4" else 0)
    if kind in ("int", "float", "naive"):
        return rows * columns * scheme.bits // 8 + scales * (float_bytes + (not scheme.symmetric))
    words = 4 * -(-columns * scheme.bits // 32)
    if kind == "mlx affine":
        return rows * words + 2 * scales * float_bytes
    if kind in ("gptq", "awq"):
        zeros = scales // rows * 4 * -(-rows * scheme.bits // 32)
        index = 4 * columns if kind == "gptq" else 0
        return rows * columns * scheme.bits // 8 + 2 * scales + zeros + index
    # pack-quantized: zero points are packed along the rows.
    zeros = 0 if scheme.symmetric else scales // rows * 4 * -(-rows * scheme.bits // 32)
    return rows * words + scales * float_bytes + zeros + (4 * columns if scheme.act_order else 0)


def scale_count(scheme: Scheme, rows: int, columns: int) -> int:
    """How many scales a layer has."""
    if scheme.block == (0, 0):
        return 1
    if scheme.block is not None:
        return -(-rows // scheme.block[0]) * -(-columns // scheme.block[1])
    return rows * -(-columns // scheme.group_size) if scheme.group_size else rows


def predicted_bytes(source: Contents, schemes: Mapping[str, Scheme]) -> int:
    """Bytes on disk of a source with some layers quantized: tensors and the headers that name them.

    Args:
        source: the folder that is quantized.
        schemes: by the canonical names of its layers; other layers keep the source's bytes. A tied head that
            is named here is stored beside the embedding.
    """
    total, headers = 0, 0
    for name, info in source.tensors.items():
        if (canonical(module(name)) not in schemes or name.endswith(".bias")) and source.once(name):
            total += info.size
            headers += len(name) + _ENTRY
    float_bytes = _float_bytes(source)
    known = {canonical(layer.name) for layer in source.layers.values()}
    untied = [(name, source.of("embedding")[0]) for name in schemes if name not in known and source.tied]
    for name, layer in [*((layer.name, layer) for layer in source.layers.values()), *untied]:
        if (scheme := schemes.get(canonical(name))) is None:
            continue
        one = quantized_bytes(scheme, rows=layer.rows, columns=layer.columns, float_bytes=float_bytes)
        total += layer.count * (one + _SHAPE_BYTES * (scheme.format == "pack-quantized"))
        parts = _PARTS.get(scheme.format) or 2 + (not scheme.symmetric) + (scheme.format == "pack-quantized")
        # Its activations have one scale of their own.
        parts += scheme.format == "nvfp4-pack-quantized" and scheme.activations
        headers += parts * (len(name) + len(".weight_scale") + _ENTRY)
    return total + headers


def _float_bytes(source: Contents) -> int:
    """Bytes of the dtype that most of a model's float weights have."""
    stored: Counter[str] = Counter()
    for info in source.tensors.values():
        stored[info.dtype] += info.elements if info.dtype in FLOATS else 0
    return 4 if stored.most_common(1)[0][0] in ("F32", "F64") else 2


def schemes_of(found: Contents, asked: Collection[str]) -> dict[str, Scheme]:
    """By canonical name, the scheme of each layer that was asked for: as stored, else as the config's rules say."""
    stored = {canonical(layer.name): layer.scheme for layer in found.layers.values() if layer.scheme is not None}
    rules = {canonical(name): stored.get(canonical(name)) or found.declared.rule(name) for name in asked}
    return {name: scheme for name, scheme in rules.items() if scheme is not None}
