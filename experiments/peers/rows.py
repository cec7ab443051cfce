"""Single layers by row count, for `kernels.py`: every timing walks through weights that no cache holds."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from specq.core import clock
from specq.quantize.dense import PackedLinear, blocked, repacks
from specq.quantize.kernels import INT4, INT8, KernelLinear
from specq.quantize.packed import round_to_nearest
from specq.quantize.replace import weight_of

TRIES = 5
UNKNOWN_CACHE = 64 * 2**20


def last_level_cache() -> int:
    """Bytes of the largest cache that Linux names, else 64 MiB."""
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    units = {"K": 2**10, "M": 2**20}
    return max((int(size[:-1]) * units[size[-1]] for size in sizes if size[-1] in units), default=UNKNOWN_CACHE)


def _copied(layer: nn.Module) -> nn.Module:
    """A layer of the same weights in memory of its own."""
    if isinstance(layer, KernelLinear):
        other = copy.copy(layer)
        other._buffers = {name: None if b is None else b.clone() for name, b in layer._buffers.items()}
        return other
    return copy.deepcopy(layer)


def layers_of(rows: int, columns: int, group: int, walk: int) -> dict[str, list[nn.Module]]:
    """For each format, as many layers of one shape as `walk` bytes hold, two at least."""
    plain = nn.Linear(columns, rows, bias=False, dtype=torch.bfloat16).requires_grad_(False)
    weight = plain.weight.detach()
    kinds: dict[str, tuple[nn.Module, float]] = {
        "bf16": (plain, 2.0),
        "bf16 packed": (plain, 2.0),
        "float32": (copy.deepcopy(plain).float(), 4.0),
        "float32 packed": (copy.deepcopy(plain).float(), 4.0),
        "8-bit": (KernelLinear(round_to_nearest(weight, 8, 0), INT8, bias=None, device="cpu"), 1.0),
        "4-bit": (KernelLinear(round_to_nearest(weight, 4, group), INT4, bias=None, device="cpu"), 0.5),
    }
    made = {}
    for name, (first, width) in kinds.items():
        many = max(2, -(-walk // int(rows * columns * width)))
        made[name] = [_copied(first) for _ in range(many)]
    for name, dtype in (("bf16 packed", "bfloat16"), ("float32 packed", "float32")):
        layers = made.pop(name)
        if repacks(dtype, "cpu"):
            made[name] = [blocked(layer) for layer in layers if isinstance(layer, nn.Linear)]
    return made


@torch.inference_mode()
def milliseconds(layers: Sequence[nn.Module], rows: int, columns: int) -> float:
    """A layer's time: one walk through all of them over their number."""
    wide = isinstance(layers[0], nn.Linear | PackedLinear) and weight_of(layers[0]).dtype == torch.float32
    x = torch.randn(rows, columns).to(torch.float32 if wide else torch.bfloat16)
    start = clock.now()
    for layer in layers:
        layer(x)
    return 1000 * (clock.now() - start) / len(layers)


def table_of_rows(
    console: Console, shapes: Sequence[str], counts: Sequence[int], group: int, walk: int | None
) -> dict[str, dict[str, list[float]]]:
    """Print and return the median of interleaved walks: [shape][format][row count] in milliseconds."""
    walk = 4 * last_level_cache() if walk is None else walk
    result: dict[str, dict[str, list[float]]] = {}
    for shape in shapes:
        rows, columns = (int(part) for part in shape.split("x"))
        kinds = layers_of(rows, columns, group, walk)
        times: dict[str, list[float]] = {name: [] for name in kinds}
        for count in counts:
            runs: dict[str, list[float]] = {name: [] for name in kinds}
            for _ in range(TRIES):
                for name, layers in kinds.items():
                    runs[name].append(milliseconds(layers, count, columns))
            for name in kinds:
                times[name].append(statistics.median(runs[name]))
        table = Table(f"{shape}, ms at rows", *map(str, counts))
        for name, row in times.items():
            table.add_row(name, *(f"{value:.3f}" for value in row))
        console.print(table)
        result[shape] = times
    return result
