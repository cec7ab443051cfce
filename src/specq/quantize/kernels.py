"""Linear layers on torch's own kernels for packed integers: four bits in groups, eight bits with one scale a row.

Weights are read in their few bits, so a pass over few rows waits for less memory. With many rows the
kernels lose to the dense ones, so a layer may hand those over (see `KernelLinear`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import cycle

import torch
from torch import Tensor, nn

from specq.core.clock import now
from specq.quantize.audited import NO_KERNEL
from specq.quantize.packed import IntWeights
from specq.quantize.recipes import ROW

INT4, INT8 = "int4pack", "int8pack"
INT4_GROUPS = (32, 64, 128, 256)
TILE = 16
"""Rows of the 4-bit kernels come in blocks of 16; the 8-bit one reads past the end of columns that do not."""
INNER_TILES = (8, 4, 2)
_ROWS = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_TRIES = 3
_SECONDS = 0.015
"""How long both ways take turns at one row count, _TRIES turns at least: 0.2 s a shape where none is given up early."""


def kernel_for(
    *,
    bits: int,
    group_size: int,
    symmetric: bool,
    rows: int,
    columns: int,
    ordered: bool = False,
    device: str = "cpu",
    dtype: str = "bfloat16",
) -> str:
    """The kernel that runs such a layer: "int4pack", "int8pack", or "no kernel here: " and why.

    `group_size` 0 is one scale a row; `ordered` layers group their columns by activation order. A single
    group that spans all columns is one scale a row.
    """
    if device not in ("cpu", "cuda"):
        return f"{NO_KERNEL}torch's packed kernels are for cpu and cuda, not {device}"
    if dtype != "bfloat16":
        return f"{NO_KERNEL}the kernels compute in bfloat16, not {dtype}"
    if ordered:
        return f"{NO_KERNEL}columns are grouped in activation order"
    if bits == 4:
        if (group_size or columns) not in INT4_GROUPS:
            return f"{NO_KERNEL}4 bits in groups of {group_size or columns}, the kernel takes {_list(INT4_GROUPS)}"
        return INT4 if rows % TILE == 0 else f"{NO_KERNEL}{rows} rows, the kernel takes multiples of {TILE}"
    if bits == 8:
        if device != "cpu":
            return f"{NO_KERNEL}torch's 8-bit kernel is for the cpu, not {device}"
        if not symmetric:
            return f"{NO_KERNEL}8 bits with zero points, the kernel takes none"
        if group_size not in (ROW, columns):
            return f"{NO_KERNEL}8 bits in groups of {group_size}, the kernel takes one scale a row"
        return INT8 if columns % TILE == 0 else f"{NO_KERNEL}{columns} columns, the kernel takes multiples of {TILE}"
    return f"{NO_KERNEL}{bits} bits, the kernels take 4 and 8"


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def kernel_of(weights: IntWeights, *, device: str, dtype: torch.dtype) -> str:
    """`kernel_for` of a layer's integers."""
    rows, columns = weights.q.shape
    return kernel_for(
        bits=weights.grid.bits,
        group_size=weights.grid.group_size,
        symmetric=weights.grid.symmetric,
        rows=rows,
        columns=columns,
        ordered=weights.order is not None,
        device=device,
        dtype=str(dtype).removeprefix("torch."),
    )


class KernelLinear(nn.Module):
    """A linear layer on packed integers, bfloat16 in and out, inference only.

    From `many` rows on another way takes over: `dense`, a twin with the same weights in bfloat16, where there
    is one; else an 8-bit layer scales its integers out into a bfloat16 copy that lives for one call.
    """

    def __init__(self, weights: IntWeights, kernel: str, *, bias: Tensor | None, device: str) -> None:
        super().__init__()
        self.out_features, self.in_features = weights.q.shape
        self.kernel, self.on_cpu = kernel, device == "cpu"
        self.group_size = weights.grid.group_size or self.in_features
        self.dense: nn.Module | None = None
        self.many: int | None = None
        self.register_buffer("bias", None if bias is None else bias.detach(), persistent=False)
        if kernel == INT8:
            packed, scales = weights.q.contiguous(), weights.scales.to(torch.bfloat16).flatten()
        else:
            packed, scales = _pack4(weights.q, device), _scales4(weights)
        self.group = torch.tensor(self.group_size)
        self.register_buffer("packed", packed.to(device), persistent=False)
        self.register_buffer("scales", scales.to(device), persistent=False)

    packed: Tensor
    scales: Tensor
    bias: Tensor | None

    def forward(self, x: Tensor) -> Tensor:
        """X [..., in_features] to [..., out_features]."""
        flat = x.reshape(-1, self.in_features)
        if self.many is not None and flat.shape[0] >= self.many:
            return self.by_many(x)
        out = self.by_kernel(flat)
        if self.bias is not None:
            out = out + self.bias
        return out.view(*x.shape[:-1], self.out_features)

    def by_kernel(self, flat: Tensor) -> Tensor:
        """Rows [M, in_features] through the packed kernel, without the bias."""
        if self.kernel == INT8:
            return torch._weight_int8pack_mm(flat, self.packed, self.scales)
        if self.on_cpu:
            # The one operator for this that torch.compile can lower: it takes the group size as a tensor.
            return torch.ops.quantized.int4mm_packed_weight_cpu(flat, self.packed, self.group, self.scales)
        return torch._weight_int4pack_mm(flat, self.packed, self.group_size, self.scales)

    def by_many(self, x: Tensor) -> Tensor:
        """X [..., in_features] by the dense twin, or by integers that are scaled out for this call."""
        if self.dense is not None:
            out: Tensor = self.dense(x)
            return out
        return nn.functional.linear(x, self.packed.to(x.dtype).mul_(self.scales[:, None]), self.bias)

    @property
    def takes_many(self) -> bool:
        """Whether there is another way for many rows."""
        return self.dense is not None or self.kernel == INT8


def _pack4(q: Tensor, device: str) -> Tensor:
    shifted = (q.to(torch.int32) + 8).to(device)
    if device == "cpu":
        return torch.ops.aten._convert_weight_to_int4pack_for_cpu(shifted, 1)
    # Two values a byte, the even column in the high half; tiles of 16 columns, as many as divide them.
    pairs = (shifted[:, ::2] << 4 | shifted[:, 1::2]).to(torch.uint8)
    tiles = next(tiles for tiles in INNER_TILES if q.shape[1] % (tiles * TILE) == 0)
    return torch._convert_weight_to_int4pack(pairs, tiles)


def _scales4(weights: IntWeights) -> Tensor:
    """Scales and offsets [K / g, N, 2] of w = (q - 8) * scale + offset, q from 0 to 15."""
    scales = weights.scales.to(torch.bfloat16)
    offsets = torch.zeros_like(scales) if weights.zeros is None else (-weights.zeros.float() * scales).to(scales)
    return torch.stack([scales.t(), offsets.t()], dim=-1).contiguous()


def set_many(layers: Sequence[KernelLinear]) -> int | None:
    """Set `many` of layers of one shape to the row count from which their other way is faster, and return it.

    None: the kernel stays faster up to 128 rows, or there is no other way. Each timed call takes the next of all
    the layers, round and round: a layer's weights are read again only after those of all others of the shape, so
    they come from memory as in decoding unless the whole shape fits the processor's cache. On CUDA, where a
    launch takes longer than a layer, a timed turn is a walk through all of them.
    """
    many = None
    if layers[0].takes_many:
        turns = cycle([layers] if layers[0].packed.is_cuda else [[layer] for layer in layers])
        many = next((rows for rows in _ROWS if _other_is_faster(turns, rows)), None)
    for layer in layers:
        layer.many = many
    return many


@torch.inference_mode()
def _other_is_faster(turns: Iterator[Sequence[KernelLinear]], rows: int) -> bool:
    """Whether by median the other way takes a turn of layers no slower; the first turn of each way warms up."""
    first = next(turns)[0]
    x = torch.randn(rows, first.in_features, dtype=torch.bfloat16, device=first.packed.device)
    sync = torch.cuda.synchronize if x.is_cuda else _nothing
    spent: tuple[list[float], list[float]] = ([], [])
    began = now()
    while len(spent[1]) <= _TRIES or now() - began < _SECONDS:
        for times, way in zip(spent, (KernelLinear.by_kernel, KernelLinear.by_many), strict=True):
            layers = next(turns)
            sync()
            start = now()
            for layer in layers:
                way(layer, x)
            sync()
            times.append(now() - start)
    return statistics.median(spent[1][1:]) <= statistics.median(spent[0][1:])


def _nothing() -> None:
    """The CPU has done its work when a call returns."""
