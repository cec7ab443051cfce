"""Integer weights as compressed-tensors folders hold them (`pack-quantized`), read without that library.

The layout, from compressed-tensors' pack_quantized: values of `bits` bits, offset by half their range, fill
int32 words without gaps, little end first, along the columns (zero points along the rows).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specq.core.errors import ModelError
from specq.quantize.recipes import ROW
from specq.quantize.schemes import Declared

FORMAT = "pack-quantized"
PARTS = ("weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """How a layer's weights were rounded: bits, columns a scale (0: one scale a row), with a zero point or not."""

    bits: int
    group_size: int
    symmetric: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntWeights:
    """A layer's integers: w[n, k] = (q[n, k] - zeros[n, g(k)]) * scales[n, g(k)].

    `q` [N, K] is int8 and runs from -2^(bits-1) to 2^(bits-1) - 1; `scales` [N, G] are floats; `zeros` [N, G] is
    None on a symmetric grid, int8 in the same range as stored, or float32 with fractions where made in memory.
    g(k) = k // (K / G), or `order[k]` where `order` [K] int64 is set: columns that were sorted by activation before
    they were grouped.
    """

    grid: Grid
    q: Tensor
    scales: Tensor
    zeros: Tensor | None = None
    order: Tensor | None = None

    def of_rows(self, rows: Tensor) -> IntWeights:
        """Only these rows [R] int64, in their order."""
        at = rows.to(self.q.device)
        zeros = None if self.zeros is None else self.zeros[at]
        return replace(self, q=self.q[at], scales=self.scales[at], zeros=zeros)

    def dense(self, dtype: torch.dtype) -> Tensor:
        """The weights [N, K]: scales are cast to `dtype` first, then all arithmetic is in it.

        That is the order in which transformers loads and compressed-tensors dequantizes, so the bits agree.
        Zeros with fractions, which no folder has, would lose them: those weights are computed in float32.
        """
        if self.zeros is not None and self.zeros.is_floating_point() and dtype != torch.float32:
            return self.dense(torch.float32).to(dtype)
        scales = self.scales.to(dtype)
        zeros = None if self.zeros is None else self.zeros.to(dtype)
        if self.order is not None:
            scales, zeros = scales[:, self.order], None if zeros is None else zeros[:, self.order]
        groups = scales.shape[1]
        values = self.q.to(dtype).view(self.q.shape[0], groups, -1)
        if zeros is not None:
            values = values - zeros[..., None]
        return (values * scales[..., None]).view(self.q.shape)


def grids(said: Declared, names: Iterable[str]) -> dict[str, Grid]:
    """The grid of each named packed layer by what its folder's config.json declares.

    Raises:
        ModelError: the config does not say how a layer is stored, or not as integers of 1 to 8 bits by group or row.
    """
    found = {}
    for name in names:
        scheme = said.scheme(name)
        if scheme.format != FORMAT or scheme.group_size is None or not 1 <= scheme.bits <= 8:
            raise ModelError(
                f"{name} is {scheme.format}, {scheme.words()}: "
                f"read here are {FORMAT} integers of 1 to 8 bits by group or channel"
            )
        found[name] = Grid(bits=scheme.bits, group_size=scheme.group_size, symmetric=scheme.symmetric)
    return found


def assemble(name: str, grid: Grid, parts: Mapping[str, Tensor]) -> IntWeights:
    """A layer from its tensors as stored; the keys of `parts` are the names of PARTS.

    Raises:
        ModelError: a tensor is missing, or shapes do not fit one another.
    """
    needed = PARTS[:3] if grid.symmetric else PARTS[:4]
    if missing := [part for part in needed if part not in parts]:
        raise ModelError(f"{name} lacks {missing[0]}: copy the folder again, or quantize the model anew")
    rows, columns = (int(n) for n in parts["weight_shape"])
    scales, words = parts["weight_scale"], parts["weight_packed"]
    scales = scales.view(rows, -1) if scales.numel() % max(rows, 1) == 0 else scales
    groups = 1 if grid.group_size == ROW else -(-columns // grid.group_size)
    if tuple(scales.shape) != (rows, groups) or columns % groups:
        raise ModelError(f"{name} has scales {list(scales.shape)}, expected [{rows}, {groups}] for {rows} x {columns}")
    if tuple(words.shape) != (rows, _words(columns, grid.bits)):
        raise ModelError(
            f"{name} has packed words {list(words.shape)}, expected [{rows}, {_words(columns, grid.bits)}] "
            f"for {rows} x {columns} at {grid.bits} bits"
        )
    zeros = None
    if not grid.symmetric:
        stored = parts["weight_zero_point"]
        if tuple(stored.shape) != (_words(rows, grid.bits), groups):
            raise ModelError(f"{name} has zero points {list(stored.shape)}, which do not fit {rows} x {groups} scales")
        zeros = unpack(stored.t().contiguous(), grid.bits, rows).t().contiguous()
    return IntWeights(
        grid=grid,
        q=unpack(words, grid.bits, columns),
        scales=scales,
        zeros=zeros,
        order=order_of(parts.get("weight_g_idx"), columns // groups),
    )


def _words(count: int, bits: int) -> int:
    return -(-count * bits // 32)


def order_of(index: Tensor | None, size: int) -> Tensor | None:
    """The group of each column where that is not simply one group of `size` after the other."""
    if index is None or bool((index < 0).any()):
        # Some writers store -1 everywhere for "no order".
        return None
    plain = torch.arange(len(index)) // size
    return None if torch.equal(index.long(), plain) else index.long()


def unpack(words: Tensor, bits: int, count: int) -> Tensor:
    """Signed values [R, count] int8 from int32 words [R, ceil(count * bits / 32)]."""
    raw = words.contiguous().view(torch.uint8)
    # Whole values a byte where bits divide 8; else bit by bit, since values straddle bytes.
    size = bits if 8 % bits == 0 else 1
    shifts = torch.arange(0, 8, size, dtype=torch.uint8)
    pieces = ((raw[..., None] >> shifts) & (2**size - 1)).flatten(-2)[:, : count * bits // size]
    if size != bits:
        pieces = (pieces.view(len(pieces), count, bits) << torch.arange(bits, dtype=torch.uint8)).sum(
            -1, dtype=torch.uint8
        )
    return (pieces.to(torch.int16) - 2 ** (bits - 1)).to(torch.int8)


def split(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Layer and part of each tensor name that belongs to a packed layer."""
    known = set(names)
    for name in known:
        layer, _, part = name.rpartition(".")
        if part in PARTS and f"{layer}.weight_packed" in known:
            yield layer, part


@torch.no_grad()
def round_to_nearest(weight: Tensor, bits: int, group_size: int, *, symmetric: bool = True) -> IntWeights:
    """Weights [N, K] on a grid; groups must divide K, and `group_size` 0 is one scale a row.

    Symmetric: as llmcompressor's QuantizationModifier rounds them. The scale is the largest magnitude over half the
    range of integers, (2^bits - 1) / 2; all arithmetic is in the weights' own dtype. Else the grid of a group runs
    from its smallest weight to its largest, and zeros have fractions, as in llama.cpp's Q4_1.
    """
    size = group_size or weight.shape[1]
    grouped = weight.view(weight.shape[0], -1, size)
    if not symmetric:
        return _between(grouped.float(), weight, Grid(bits=bits, group_size=group_size, symmetric=False))
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    scales = grouped.abs().amax(-1) / torch.tensor((high - low) / 2, dtype=weight.dtype)
    scales = torch.where(scales == 0, torch.finfo(weight.dtype).eps, scales)
    q = (grouped / scales[..., None]).clamp_(low, high).round_().to(torch.int8).view(weight.shape)
    return IntWeights(grid=Grid(bits=bits, group_size=group_size, symmetric=True), q=q, scales=scales)


def _between(grouped: Tensor, weight: Tensor, grid: Grid) -> IntWeights:
    low, high = grouped.amin(-1), grouped.amax(-1)
    # Rounded to the dtype in which it is stored before it is used, so that the integers make up for it.
    scales = ((high - low) / (2**grid.bits - 1)).to(weight.dtype).float()
    scales = torch.where(scales == 0, torch.finfo(weight.dtype).eps, scales)
    q = ((grouped - low[..., None]) / scales[..., None]).round_().clamp_(0, 2**grid.bits - 1) - 2 ** (grid.bits - 1)
    zeros = -(2 ** (grid.bits - 1)) - low / scales
    return IntWeights(grid=grid, q=q.to(torch.int8).view(weight.shape), scales=scales.to(weight.dtype), zeros=zeros)
