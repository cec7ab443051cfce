"""Does each layer of a folder hold the weights of the source's layer of that name? One layer at a time.

AWQ and SmoothQuant multiply columns, AWQ rows too (of the layer before), so both are fitted before anything is
compared. What is left is rounding, which keeps the direction of each row, and which moves the size of a group of
weights (the slope of the source's on the rounded ones) by no more than the errors of its single weights allow: by z of
them. Rows or layers that were swapped lose the direction, scales that were swapped have large z, and zero points that
were swapped move a group by whole steps.

Of 2 bits, and of other grids whose errors are as large, directions alone are looked at: scales that were swapped there
cannot be told from rounding, and are not named. Nor is one scale a row in layers whose rows a method may have
multiplied, nor two single scales that differ by less than rounding blurs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from specq.models import headers
from specq.quantize.audit_rows import fold
from specq.quantize.contents import Contents, Layer, canonical, is_expert
from specq.quantize.passes import Opened
from specq.quantize.schemes import Scheme

if TYPE_CHECKING:
    from torch import Tensor

Rows = Callable[[slice], "Tensor"]
"""Reads some of a layer's rows [R, K] float32."""
_SAMPLE = 512
# What stays in a processor's cache, and how many weights of a layer tell whether its scales fit: rows evenly spaced.
_ELEMENTS, _LOOKED = 1 << 16, 1 << 23
_ROUNDS = 3
# Rounding to 2 bits leaves more than 0.45 of a row's direction; weights of another row give less than 0.3.
_DIRECTION = 0.3
# Rows so much smaller than the others carry nothing, and one scale for many rows rounds them away.
_SMALL = 1e-3
# At 2 bits a row of few large weights may lose its direction.
_FEW = 0.01
_COARSE_BITS = 4
_TINY = 1e-30
# Below so many bits, the size of a group says nothing.
_LEAST_BITS = 3
# Columns count as multiplied where they spread by so much, and by so many times what rounding makes of it.
_MOVED, _MOVED_TIMES = 0.02, 3.0
# Medians of z over a layer, and over one line of its scales of at least so many; sound ones stay below 2.
_LAYER_Z, _LINE_Z, _LINE = 3.0, 4.0, 8
# z of one group, and the least that it must be away; sound ones stay below 11.
_GROUP_Z, _AWAY = 13.0, 0.08
# A median over a layer's rows, all multiplied alike.
_FACTOR, _FACTOR_ERRORS = 0.05, 0.25
# Steps of the grid that half of the groups are moved by.
_STEPS = 0.6
# Weights of a group beside its largest and its smallest that are not 0.
_COUNTED = 8
# Layers whose rows no method multiplies: there, one scale a row can be told from another.
_PLAIN_ROWS = ("q_proj", "k_proj", "o_proj", "gate_proj", "down_proj", "lm_head")
# What multiplies their columns stands in a norm, not in the rows of another layer.
_BEHIND_NORMS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "qkv_proj", "gate_up_proj")
_MOST = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """How a layer's weights follow the source's.

    `lost` of `rows` rows have another direction. `moved`: its columns are multiplied. `scales` says whether its scales
    fit the source's weights but for a factor of each row, `plain` whether they fit without one, `factor` whether the
    layer has no factor as a whole.
    """

    rows: int
    lost: int
    moved: bool
    scales: bool
    plain: bool
    factor: bool


def notes(source: Contents, folder: Contents, model: Opened) -> list[str]:
    """Names of layers whose weights, dequantized, are not the source's layer of that name; [] where all are.

    Layers that have no twin of floats in the source, or of another shape, are passed over: other notes tell of those.
    """
    found: dict[str, Followed] = {}
    for layer, twin in _twins(source, folder):
        weights = _weights(model, layer.name)
        if weights is not None and weights.shape == (layer.rows, layer.columns):
            with _opened(source, twin) as rows:
                found[layer.name] = followed(rows, weights, layer.scheme)
    unseen = [name for name, layer in folder.layers.items() if layer.scheme and name not in found]
    lost = {name for name, one in found.items() if _is_lost(one, folder.layers[name])}
    moved = {name.rpartition(".")[2] for name, one in found.items() if one.moved and name not in lost}
    scales = [name for name, one in found.items() if name not in lost and not _is_sound(name, one, moved)]
    told = []
    if lost:
        names = [f"{name} ({found[name].lost} of {found[name].rows} rows)" for name in found if name in lost]
        told.append(
            f"weights of {len(lost)} layers are not the source's weights of that name: {_few(names)}: tensors, rows or "
            "scales were swapped or damaged"
        )
    if scales:
        told.append(
            f"scales of {len(scales)} layers do not fit the source's weights: {_few(scales)}: scales or zero points "
            "were swapped or damaged"
        )
    if unseen:
        told.append(
            f"{len(unseen)} quantized layers were not compared with the source's one by one: {_few(fold(unseen))}"
        )
    return told


def followed(mine: Rows, other: np.ndarray, scheme: Scheme | None) -> Followed:
    """Compare a source's weights with a folder's [R, K] float32, dequantized; `scheme` is how the folder stores it."""
    import torch

    held = torch.from_numpy(other)
    rows, width = held.shape
    columns, error, moved = _columns(mine, held)
    judged = scheme is not None and scheme.bits >= _LEAST_BITS
    grouped = scheme if judged and scheme is not None and scheme.group_size is not None else None
    lines, groups = [], []
    chunk, step = max(1, _ELEMENTS // width), -(-rows * width // _LOOKED)
    for start in range(0, rows, chunk):
        a, b = mine(slice(start, start + chunk)) * columns, held[start : start + chunk]
        lines.append(torch.stack([(a * a).sum(1), (a * b).sum(1), (b * b).sum(1)]))
        if grouped is not None:
            groups.append(_groups(a[::step], b[::step], grouped))
    aa, ab, bb = torch.cat(lines, 1).double().numpy()
    size = np.sqrt(aa)
    counted = size > _SMALL * np.median(size)
    lost = int((counted & ~(_ratio(ab, size * np.sqrt(bb)) > _DIRECTION)).sum())
    plain = scales = factor = True
    if groups and grouped is not None:
        logs, noise, shift = torch.cat(groups, 1).double().numpy()
        # One row in a hundred may shrink as a whole where errors are made up for across its columns.
        few = _FEW * rows if logs.shape[1] < 2 and grouped.bits <= _COARSE_BITS else 0
        plain = _fits(logs - _median(logs), noise, shift, few)
        scales = logs.shape[1] < 2 or _fits(logs - _median(logs, 1), noise, shift, few, rows=True)
    if judged and not moved:
        with np.errstate(all="ignore"):
            away = abs(float(_median(np.log(_ratio(ab, aa)[counted]))))
        factor = away <= max(_FACTOR, _FACTOR_ERRORS * error)
    return Followed(rows=rows, lost=lost, moved=moved, scales=scales, plain=plain, factor=factor)


def _columns(mine: Rows, other: Tensor) -> tuple[Tensor, float, bool]:
    """What columns are multiplied by, the error that rounding leaves, and whether they are multiplied at all.

    Columns and rows of a sample in turn, by least squares, none below 0.
    """
    import torch

    step = -(-len(other) // _SAMPLE)
    a, b = mine(slice(None, None, step)), other[::step]
    squares, products = a * a, a * b
    rows, columns = torch.ones(len(a)), torch.ones(a.shape[1])
    for _ in range(_ROUNDS):
        columns = _nan_to_0((rows @ products) / (rows.square() @ squares)).clamp_min(0)
        rows = _nan_to_0((products @ columns) / (squares @ columns.square())).clamp_min(0)
    left = a * columns * rows[:, None] - b
    error = float((left.square().sum() / b.square().sum().clamp_min(_TINY)).sqrt())
    logs = columns[columns > 0].double().log().numpy()
    if len(logs) < 2:
        return columns, error, False
    low, high = np.percentile(logs, [16, 84])
    moved = bool((high - low) / 2 > max(_MOVED, _MOVED_TIMES * error / np.sqrt(len(a))))
    # What rounding makes of the fit is no scale.
    return (columns if moved else torch.ones_like(columns)), error, moved


def _groups(a: Tensor, b: Tensor, scheme: Scheme) -> Tensor:
    """For each group of columns the logarithm of its size, its noise, and how many steps it is moved by, [3, R, G].

    The first is NaN where too few weights tell. The largest and the smallest are left out: a method may have clipped
    them.
    """
    import torch

    rows, width = b.shape
    group = scheme.group_size or width
    x, y = (part.reshape(rows, width // group, group) for part in (b, a))
    low, high = x.aminmax(dim=2, keepdim=True)
    keep = (x < high) & (x > low)
    count = keep.sum(2)
    x, y = x * keep, y * keep
    told = x.count_nonzero(2) >= _COUNTED
    many = count.clamp_min(1)
    mean_x, mean_y = x.sum(2) / many, y.sum(2) / many
    x, y = (x - mean_x[..., None]) * keep, (y - mean_y[..., None]) * keep
    xx = x.square().sum(2)
    size = (x * y).sum(2) / xx
    left = (y - size[..., None] * x).square().sum(2) / (count - 2).clamp_min(1)
    step = (high - low)[..., 0] / (2**scheme.bits - 1)
    # Single weights err by no less than rounding makes them, whatever few of them show.
    noise = (torch.maximum(left, (step * size).square() / 12) / xx).sqrt() / size
    shift = torch.zeros_like(size) if scheme.symmetric else (mean_y / size - mean_x).abs() / step
    logs = torch.where(told & (size > 0), size, torch.nan).log()
    return torch.stack([logs, noise, shift])


def _fits(logs: np.ndarray, noise: np.ndarray, shift: np.ndarray, few: float, *, rows: bool = False) -> bool:
    """Whether the sizes of groups [R, G], less what they share, are no further away than their noise lets them.

    `rows`: what each row shares is out of them, so rows are looked at too, not columns of groups alone.
    """
    z = np.abs(logs) / noise
    told = ~np.isnan(z)
    if not told.any():
        return True
    if _median(z) > _LAYER_Z or _median(shift[told]) > _STEPS:
        return False
    for lines in (z.T, z) if rows else (z.T,):
        enough = (~np.isnan(lines)).sum(1) >= _LINE
        if enough.any() and (_median(lines[enough], 1) > _LINE_Z).any():
            return False
    return int(((z > _GROUP_Z) & (np.abs(logs) > _AWAY)).sum()) < max(2, few)


def _is_lost(one: Followed, layer: Layer) -> bool:
    exact = layer.scheme is None or layer.scheme.bits >= _LEAST_BITS
    return one.lost >= max(2, 0 if exact else _FEW * one.rows)


def _is_sound(name: str, one: Followed, moved: Collection[str]) -> bool:
    """Whether the scales fit; `moved` are the last names of layers whose columns are multiplied.

    Where rows are, or a layer as a whole, so are columns of the layers behind it.
    """
    whole = one.plain or (name.rpartition(".")[2] not in _PLAIN_ROWS and not set(moved) <= set(_BEHIND_NORMS))
    return one.scales and whole and (one.factor or bool(moved))


def _median(values: np.ndarray, axis: int | None = None) -> Any:
    """The median of what is there, with the axis kept; NaN where nothing is."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmedian(values, axis=axis, keepdims=axis is not None)


def _ratio(top: Any, bottom: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.where(bottom > 0, top / bottom, 0.0)


def _nan_to_0(values: Tensor) -> Tensor:
    return values.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def _twins(source: Contents, folder: Contents) -> Iterator[tuple[Layer, Layer]]:
    """The folder's layers, but experts, each with the source's of that name, stored as floats in the same shape."""
    theirs = {canonical(layer.name): layer for layer in source.layers.values() if layer.scheme is None}
    for layer in folder.layers.values():
        twin = theirs.get(canonical(layer.name))
        if twin and not is_expert(layer) and (twin.rows, twin.columns) == (layer.rows, layer.columns):
            yield layer, twin


def _weights(model: Opened, name: str) -> np.ndarray | None:
    """A layer's weights, whether or not its file puts the name of the base model before it."""
    for spelled in (name, f"model.{name}", name.removeprefix("model.")):
        if (found := model.weight(spelled)) is not None:
            return found
    return None


@contextmanager
def _opened(source: Contents, layer: Layer) -> Iterator[Rows]:
    """A reader of a layer's rows, which holds the layer alone, as it is stored."""
    from safetensors import safe_open

    path = next(path for path in headers.weight_files(source.folder) if layer.tensor in headers.read_header(path))
    with safe_open(path, "pt") as file:
        held = file.get_tensor(layer.tensor)
        yield lambda part: held[part].float()


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more
