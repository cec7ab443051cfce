"""Do a model's weights lie on a coarse grid? Then they were quantized once and dequantized again.

A block of weights lies on a k-bit grid when its values are b + s q with integers q that span at most
2^k - 1, each up to the rounding of the dtype it is stored in. Both s and b are unknown. The smallest
value serves as anchor, so that b drops out; the largest distance from it is m steps for some whole m,
which gives an interval for s; every other value, small ones first, cuts that interval. Where a cut leaves
nothing, m is wrong. What is left could still be chance, above all at 8 bits in bfloat16, whose own steps
are as coarse: so the probability that values off any grid would fit this one as well is counted along.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from specq.models import headers
from specq.models.headers import TensorInfo
from specq.quantize.recipes import ROW

BLOCKS = (128, 64, 32, 16)
LAYERS = 16
_LEVELS = 256
_SCREEN, _PROOF = 8, 48
# Values of a whole row that are looked at: any part of a row lies on the row's grid.
_ROW = 384
# A screen of eight blocks may hold one odd block (all zeros, a dead column); the proof may hold three.
_SHARE = 0.93
_CHANCE = math.log(0.05)
_SIGNIFICANT = {"BF16": 8, "F16": 11, "F32": 24}
_FLOAT8_STEPS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Where the weights of one layer lie: `bits` wide grids over blocks of `block` columns (0: whole rows).

    `bits` None: not on an even grid, but each value is a float8 number (e4m3) times the block's scale.
    """

    bits: int | None
    block: int

    def words(self) -> str:
        """For example "a 4-bit grid, blocks of 32"."""
        place = f"blocks of {self.block}" if self.block else "one a row"
        return "float8 values (e4m3) times a scale" if self.bits is None else f"a {self.bits}-bit grid, {place}"


def source_grid(folder: Path, names: Sequence[str]) -> str | None:
    """In words, on which grid the named tensors of a folder lie; None when no more than stray ones do.

    Up to LAYERS of them are read, spread evenly, one at a time.

    Args:
        folder: safetensors files.
        names: tensors of linear layers, [rows, columns]; others than float ones are passed over.
    """
    infos = headers.tensors(folder)
    usable = [name for name in names if _usable(infos, name)]
    if not usable:
        return None
    picked = [usable[i] for i in sorted({round(i) for i in np.linspace(0, len(usable) - 1, LAYERS)})]
    found: dict[Grid, int] = {}
    for weights, dtype in _read(folder, picked, infos):
        if (grid := detect(weights, dtype)) is not None:
            found[grid] = found.get(grid, 0) + 1
    if not found:
        return None
    grid, count = max(found.items(), key=lambda item: item[1])
    if sum(found.values()) * 2 < len(picked):
        return None
    others = sum(found.values()) - count
    more = f", {others} more on others" if others else ""
    return f"weights lie on {grid.words()} ({count} of {len(picked)} layers looked at{more}; there are {len(usable)})"


def detect(weights: np.ndarray, dtype: str) -> Grid | None:
    """The grid that a layer's weights lie on, or None.

    Weights on a grid over blocks of 64 also lie on one over blocks of 32, and few values of narrow grids may
    all lie on one wide grid: of the grids that hold, the one with the fewest bits a weight is told, where each
    block pays 16 bits for its scale.

    Args:
        weights: [rows, columns] float32, as stored in `dtype`.
        dtype: as safetensors names it: BF16, F16 or F32.
    """
    columns = weights.shape[1]
    significant = _significant(weights, dtype)
    found: dict[Grid, float] = {}
    for size in (ROW, *(size for size in BLOCKS if columns % size == 0 and size < columns)):
        blocks = _blocks(weights, size)
        # Most layers lie on no grid, and a few blocks tell that.
        if _bits_of(_spread(blocks, _SCREEN), significant) and (bits := _bits_of(_spread(blocks, _PROOF), significant)):
            found[Grid(bits=bits, block=size)] = bits + 16 / (size or columns)
    if found:
        return min(found, key=lambda grid: found[grid])
    return Grid(bits=None, block=ROW) if _on_float8(_spread(_blocks(weights, ROW), _SCREEN), significant) else None


def _usable(infos: Mapping[str, TensorInfo], name: str) -> bool:
    info = infos.get(name)
    return info is not None and info.dtype in _SIGNIFICANT and len(info.shape) == 2 and info.shape[1] >= min(BLOCKS)


def _read(folder: Path, names: Sequence[str], infos: Mapping[str, TensorInfo]) -> Iterator[tuple[np.ndarray, str]]:
    from safetensors import safe_open

    for path in headers.weight_files(folder):
        here = headers.read_header(path)
        with safe_open(path, "pt") as file:
            for name in names:
                if name in here:
                    yield file.get_tensor(name).float().numpy(), infos[name].dtype


def _significant(weights: np.ndarray, dtype: str) -> int:
    """Bits of the significand that the values need: a float32 file may hold bfloat16 values."""
    bits = weights.ravel()[: 1 << 16].view(np.uint32)
    if dtype == "F32" and not (bits & 0xFFFF).any():
        return 8
    return _SIGNIFICANT[dtype]


def _blocks(weights: np.ndarray, size: int) -> np.ndarray:
    if size:
        return weights.reshape(-1, size)
    return weights[:, :: max(1, -(-weights.shape[1] // _ROW))]


def _spread(blocks: np.ndarray, count: int) -> np.ndarray:
    # An odd stride walks over all columns: an even one would see the same block of each row.
    step = max(1, len(blocks) // count) | 1
    return np.unique(blocks[(np.arange(min(count, len(blocks))) * step) % len(blocks)], axis=0)


def _bits_of(blocks: np.ndarray, significant: int) -> int | None:
    """Bits of the grid that nearly all blocks lie on beyond chance, or None."""
    blocks = blocks[np.ptp(blocks, axis=1) > 0]
    if len(blocks) < 2:
        return None
    for loose in (False, True):
        levels = _levels(blocks, significant, loose)
        if np.mean(levels > 0) >= _SHARE or (levels > 0).sum() >= len(levels) - 1 > 3:
            return max(2, math.ceil(math.log2(levels.max())))
    return None


def _levels(blocks: np.ndarray, significant: int, loose: bool) -> np.ndarray:
    """The fewest levels of an even grid that each block [B, n] lies on beyond chance; 0 for none."""
    blocks = blocks.astype(np.float64)
    rows = np.arange(len(blocks))
    anchor = np.abs(blocks).argmin(axis=1)
    own = tolerance = _rounding(blocks, significant)
    if loose:
        # Scale times integer and the bias added, each rounded on its own.
        tolerance = tolerance + np.ptp(blocks, axis=1, keepdims=True) * 2.0 ** -(significant + 1)
    tolerance = tolerance + tolerance[rows, anchor][:, None]
    away = blocks - blocks[rows, anchor][:, None]
    size = np.abs(away)
    far = size.argmax(axis=1)
    order = np.argsort(size, axis=1)
    m = np.arange(1, _LEVELS)[None, :]
    low = np.maximum(size[rows, far] - tolerance[rows, far], 1e-300)[:, None] / m
    high = (size[rows, far] + tolerance[rows, far])[:, None] / m
    alive = np.ones(low.shape, bool)
    for _ in range(2):  # what was ambiguous at first may be clear once the interval is narrow
        for column in order.T:
            value, slack = size[rows, column][:, None], tolerance[rows, column][:, None]
            first = np.ceil((value - slack) / high)
            last = np.floor((value + slack) / low)
            alive &= first <= last
            one = (first == last) & (first > 0)
            q = np.where(one, first, 1.0)
            low = np.where(one, np.maximum(low, (value - slack) / q), low)
            high = np.where(one, np.minimum(high, (value + slack) / q), high)
            alive &= low <= high * (1 + 1e-12)
    step = (low + high) / 2
    levels = np.round(np.ptp(away, axis=1)[:, None] / step) + 1
    alive &= (levels >= 2) & (levels <= _LEVELS)
    best = np.where(alive, levels, np.inf)
    pick = best.argmin(axis=1)
    fits = np.isfinite(best[rows, pick])
    s, width = step[rows, pick][:, None], np.maximum(high - low, 0)[rows, pick][:, None]
    # Stored values are discrete: as many of them lie within the tolerance as it is steps of theirs wide, and one.
    share = np.minimum(1.0, (2 * tolerance + 2 * own + np.round(size / s) * width) / s)
    share[rows, anchor] = share[rows, far] = 1.0
    # That a value comes twice speaks for this grid only where the grid is about as large as the set of values.
    ordered = np.sort(blocks, axis=1)
    again = np.zeros(blocks.shape, bool)
    np.put_along_axis(again, np.argsort(blocks, axis=1)[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    sparse = best[rows, pick] > 2 * (blocks.shape[1] - again.sum(axis=1))
    share[again & sparse[:, None]] = 1.0
    # So many grids were tried: one for each m, and as many shifts of s as there are values to tell them apart.
    chance = np.log(share).sum(axis=1) + np.log(best[rows, pick].clip(2, _LEVELS) * blocks.shape[1])
    return np.where(fits & (chance < _CHANCE), best[rows, pick], 0)


def _rounding(values: np.ndarray, significant: int) -> np.ndarray:
    """Half a unit in the last place of each value, and the float32 rounding of what it was computed from."""
    size = np.abs(values)
    _, exponent = np.frexp(size)
    last = np.where(size > 0, 2.0 ** (exponent - significant - 1), 0.0)
    return last * 1.001 + size.max(axis=1, keepdims=True) * 2.0**-22


def _on_float8(blocks: np.ndarray, significant: int) -> bool:
    """Whether nearly all rows are e4m3 numbers times a scale; scales a power of two apart are the same."""
    blocks = blocks[np.abs(blocks).max(axis=1) > 0].astype(np.float64)
    scales = 2.0 ** (np.arange(_FLOAT8_STEPS) / _FLOAT8_STEPS)
    good = 0
    for row in blocks:
        row = np.unique(np.abs(row[row != 0]))
        row = row[row > row.max() * 2.0**-10]  # below, e4m3 has subnormals
        scaled = row[None, :] / scales[:, None]
        _, exponent = np.frexp(scaled)
        spacing = 2.0 ** (exponent - 4)
        slack = scaled * 2.0**-significant + scaled / _FLOAT8_STEPS
        off = np.abs(scaled - np.round(scaled / spacing) * spacing) > slack
        chance = np.log(np.minimum(1.0, 2 * slack / spacing)).sum(axis=1) + math.log(_FLOAT8_STEPS)
        good += bool(((off.sum(axis=1) == 0) & (chance < _CHANCE)).any())
    return len(blocks) > 0 and good >= _SHARE * len(blocks)
