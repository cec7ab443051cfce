"""Do the tensors of a quantized layer fit what config.json says of it? By their shapes and kinds, before they load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from specq.core.errors import ModelError
from specq.models.headers import TensorInfo
from specq.quantize.recipes import ROW
from specq.quantize.schemes import FIX as FIX
from specq.quantize.schemes import Scheme

_AGAIN = "copy the folder again, or quantize the model anew"
_FLOAT8 = ("F8_E4M3", "F8_E5M2")
_WIDTHS = range(1, 9)
Value = Callable[[str], np.ndarray]
"""Reads a small tensor of a layer by the name of its part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The tensors of a layer in one format: what they are called, and as what the weights may be stored.

    `zeros` are there where the grid is not symmetric; `index` gives the group of each column; `more` must be there.
    """

    weights: str
    kinds: tuple[str, ...]
    scales: str = "weight_scale"
    zeros: str = "weight_zero_point"
    index: str = "weight_g_idx"
    more: tuple[str, ...] = ()


_OLDER = Layout(weights="qweight", kinds=("I32",), scales="scales", zeros="qzeros", index="g_idx")
LAYOUTS = {
    "pack-quantized": Layout(weights="weight_packed", kinds=("I32",), more=("weight_shape",)),
    "int-quantized": Layout(weights="weight", kinds=("I8",)),
    "float-quantized": Layout(weights="weight", kinds=_FLOAT8),
    "naive-quantized": Layout(weights="weight", kinds=("I8", *_FLOAT8)),
    "nvfp4-pack-quantized": Layout(weights="weight_packed", kinds=("U8",), more=("weight_global_scale",)),
    "mxfp4-pack-quantized": Layout(weights="weight_packed", kinds=("U8",)),
    "mxfp8-quantized": Layout(weights="weight", kinds=("F8_E4M3",)),
    "mlx": Layout(weights="weight", kinds=("U32",), scales="scales", zeros="biases"),
    "gptq": _OLDER,
    "awq": _OLDER,
}


def layout(scheme: Scheme) -> Layout:
    """The names of a layer's tensors in its format."""
    return LAYOUTS["mlx" if scheme.format.startswith("mlx") else scheme.format]


def is_known(scheme: Scheme) -> bool:
    """Whether the format is one whose layout is known here."""
    return scheme.format.startswith("mlx") or scheme.format in LAYOUTS


def check(name: str, parts: Mapping[str, TensorInfo], scheme: Scheme, value: Value) -> tuple[int, int]:
    """Rows and columns of a quantized layer whose tensors fit one another and its scheme.

    Args:
        name: the folder and the layer, for errors.
        parts: the layer's tensors by the last part of their names.
        scheme: what config.json says.
        value: reads weight_shape and zero points.

    Raises:
        ModelError: says which tensor does not fit, what config.json says and what is stored.
    """
    if scheme.bits not in _WIDTHS or (scheme.group_size or 0) < 0:
        raise ModelError(
            f"{name}: config.json says {scheme.bits} bits in groups of {scheme.group_size}: allowed are 1 to 8 bits in "
            f"groups above 0: {FIX}"
        )
    its = layout(scheme)
    _there(name, parts, scheme, its)
    if parts[its.weights].dtype not in its.kinds:
        raise ModelError(
            f"{name}.{its.weights} is stored as {parts[its.weights].dtype}, and config.json says {scheme.format}, "
            f"whose weights are {' or '.join(its.kinds)}: {FIX}"
        )
    if any(len(parts[part].shape) < 2 for part in (its.weights, *((its.scales,) if its.weights == "qweight" else ()))):
        raise ModelError(f"{name}.{its.weights} has fewer than two axes, and a layer's weights have at least two")
    rows, columns = _size(name, parts, scheme, value)
    groups = _groups(name, parts, scheme, rows, columns)
    _zeros(name, parts, scheme, rows, groups, value)
    index = parts.get(its.index)
    if index is not None and index.shape != (columns,):
        raise ModelError(f"{name}.{its.index} is {list(index.shape)}, and the layer has {columns} columns: {_AGAIN}")
    return rows, columns


def _there(name: str, parts: Mapping[str, TensorInfo], scheme: Scheme, its: Layout) -> None:
    needed = [its.weights, its.scales, *its.more]
    # The older layouts store zero points on symmetric grids too.
    if not scheme.symmetric or scheme.format == "gptq":
        needed.append(its.zeros)
    if scheme.act_order and scheme.format in ("gptq", "pack-quantized"):
        needed.append(its.index)
    if missing := [part for part in needed if part not in parts]:
        raise ModelError(
            f"{name} lacks {missing[0]}, which config.json asks for ({scheme.format}, {scheme.words()}"
            f"{', in activation order' if scheme.act_order else ''}); stored are {', '.join(sorted(parts))}: {_AGAIN}"
        )


def _size(name: str, parts: Mapping[str, TensorInfo], scheme: Scheme, value: Value) -> tuple[int, int]:
    """Rows and columns, once the words of the weights are as many as these and the bits ask for."""
    its = layout(scheme)
    words, bits = parts[its.weights].shape[-2:], scheme.bits
    if its.more == ("weight_shape",):
        rows, columns = (int(n) for n in value("weight_shape"))
        _fits(name, its.weights, words, lambda width: (rows, _words(columns, width)), bits, f"{rows} x {columns}")
        return rows, columns
    if scheme.format.startswith("mlx"):
        held, covered = words[1] * 32 // bits, parts["scales"].shape[-1] * (scheme.group_size or 1)
        if held != covered or words[1] * 32 % bits:
            raise ModelError(
                f"{name}.weight is {list(words)} and its scales are {list(parts['scales'].shape)}: at the {bits} bits "
                f"of config.json the words hold {held} columns, in its groups of {scheme.group_size} the scales hold "
                f"{covered}: {FIX}"
            )
        return words[0], held
    if scheme.format == "gptq":  # words [columns / packed, rows], zero points [groups, rows / packed]
        rows, zeros = words[1], parts["qzeros"].shape
        _fits(name, "qzeros", zeros[-1:], lambda width: (_words(rows, width),), bits, f"{rows} rows")
        columns = words[0] * 32 // bits
        if (index := parts.get("g_idx")) is not None:
            wide = index.elements
            _fits(name, "qweight", words, lambda width: (_words(wide, width), rows), bits, f"{rows} x {wide}")
        return rows, columns
    if scheme.format == "awq":  # words [columns, rows / packed]
        rows = parts["scales"].shape[-1]
        _fits(name, "qweight", words[1:], lambda width: (_words(rows, width),), bits, f"{rows} rows")
        return rows, words[0]
    if parts[its.weights].dtype in _FLOAT8 and bits != 8:
        raise ModelError(f"{name}.weight is stored in 8 bits (F8), and config.json says {bits} bits: {FIX}")
    if its.kinds == ("U8",) and bits != 4:
        raise ModelError(f"{name}.weight_packed holds two values a byte, and config.json says {bits} bits: {FIX}")
    return words[0], words[1] * (2 if its.kinds == ("U8",) else 1)


def _fits(
    name: str,
    part: str,
    found: tuple[int, ...],
    wanted: Callable[[int], tuple[int, ...]],
    bits: int,
    of: str,
) -> None:
    if found == wanted(bits):
        return
    stored = [width for width in _WIDTHS if wanted(width) == found]
    what = f"that is {stored[0]} bits" if stored else "no width of 1 to 8 bits gives that"
    raise ModelError(
        f"{name}.{part} is {list(found)} for {of} weights, and config.json says {bits} bits, which makes "
        f"{list(wanted(bits))} ({what}): {FIX}"
    )


def _groups(name: str, parts: Mapping[str, TensorInfo], scheme: Scheme, rows: int, columns: int) -> int:
    """Scales a row, once the scales have the shape that group, block or row ask for."""
    its = layout(scheme)
    shape, group = parts[its.scales].shape, scheme.group_size
    if scheme.block is not None:
        whole = scheme.block == (0, 0)
        wanted = () if whole else (-(-rows // scheme.block[0]), -(-columns // scheme.block[1]))
        if parts[its.scales].elements != 1 if whole else shape[-2:] != wanted:
            blocks = "one scale for the whole tensor" if whole else f"blocks of {list(scheme.block)}"
            raise ModelError(
                f"{name}.{its.scales} is {list(shape)} for {rows} x {columns} weights, and config.json says {blocks}, "
                f"which makes {list(wanted)}: {FIX}"
            )
        return 1
    if group and columns % group:
        raise ModelError(
            f"{name} has {columns} columns, which the groups of {group} of config.json do not divide: {FIX}"
        )
    groups = columns // group if group else 1
    older = its.weights == "qweight"
    across = shape[-2:] if older else tuple(reversed(shape[-2:])) if len(shape) > 1 else (1, *shape)
    if across != (groups, rows):
        stored = "one scale a row" if across[0] == 1 else f"groups of {columns // across[0]}"
        fits = across[1] == rows and columns % across[0] == 0
        said = "one scale a row" if group == ROW else f"groups of {group}"
        raise ModelError(
            f"{name}.{its.scales} is {list(shape)} for {rows} x {columns} weights"
            f"{f', that is {stored},' if fits else ''} and config.json says {said}, which makes "
            f"{[groups, rows] if older else [rows, groups]}: {FIX}"
        )
    return groups


def _zeros(name: str, parts: Mapping[str, TensorInfo], scheme: Scheme, rows: int, groups: int, value: Value) -> None:
    its = layout(scheme)
    info = parts.get(its.zeros)
    if info is None:
        return
    if scheme.symmetric and its.zeros == "weight_zero_point" and info.dtype != "I32":
        wanted = info.shape  # one writer stores zeros that nobody asked for
    elif its.zeros == "biases":
        wanted = parts["scales"].shape
    elif scheme.format == "pack-quantized":
        wanted = (_words(rows, scheme.bits), groups)
    elif its.zeros == "qzeros":
        wanted = (groups, _words(rows, scheme.bits))
    else:
        wanted = parts[its.scales].shape
    if info.shape != wanted:
        raise ModelError(
            f"{name}.{its.zeros} is {list(info.shape)}, and {rows} x {groups} scales at the {scheme.bits} bits of "
            f"config.json make {list(wanted)}: {FIX}"
        )
    if scheme.symmetric and (its.zeros == "biases" or not _all_zero(scheme, info, value(its.zeros), rows)):
        raise ModelError(
            f"{name}.{its.zeros} holds zero points, and config.json says that the grid is symmetric, without any: {FIX}"
        )


def _all_zero(scheme: Scheme, info: TensorInfo, stored: np.ndarray, rows: int) -> bool:
    """Whether each zero point is the middle of the range, as on a symmetric grid."""
    if info.dtype != "I32":
        return not stored.any()
    words = stored if scheme.format in ("gptq", "awq") else stored.T
    values = raw_values(words, scheme.bits, rows) + scheme.less_one
    return bool((values == 2 ** (scheme.bits - 1)).all())


def raw_values(words: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Values [R, count] from 0 on, of `bits` bits each, of int32 words [R, W], little end first without gaps."""
    raw = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1, bitorder="little")
    places = raw[:, : count * bits].reshape(len(raw), count, bits).astype(np.int64)
    return (places << np.arange(bits)).sum(axis=2)


def in_order(index: np.ndarray, groups: int) -> bool:
    """Whether columns are grouped one group after the other; -1 stands for that too."""
    if (index < 0).any():
        return True
    return bool((index == np.arange(len(index)) // max(1, len(index) // groups)).all())


def check_order(name: str, index: np.ndarray, groups: int) -> None:
    """Refuse an index of columns that names groups which the layer does not have; -1 everywhere is no order.

    Raises:
        ModelError: names the tensor, the value and its place, and the range.
    """
    wrong = (index < 0) | (index >= groups)
    if not wrong.any() or (index == -1).all():
        return
    at = int(wrong.argmax())
    raise ModelError(
        f"{name} is {int(index[at])} at column {at}: the layer has {groups} groups, so allowed is 0 to {groups - 1}, "
        f"or -1 everywhere for no order: {_AGAIN}"
    )


def _words(count: int, bits: int) -> int:
    return -(-count * bits // 32)
