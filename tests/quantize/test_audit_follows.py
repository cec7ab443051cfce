"""Weights, rows and scales that lie in the wrong place must be named, and those of a sound folder must not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import audit_folders as made
import pytest
import torch
from torch import Tensor

from specq.quantize import compare, contents, follows, passes
from specq.quantize.schemes import Scheme

Folders = Callable[[str], Path]
Change = Callable[[dict[str, Tensor]], None]
FIRST, SECOND = (f"model.layers.{i}.self_attn.q_proj" for i in range(2))

pytestmark = pytest.mark.usefixtures("one_thread")


def notes(folders: Folders, folder: Path) -> list[str]:
    found = contents.read(folder)
    return follows.notes(contents.read(folders("source")), found, passes.opened(found))


def swapped(part: str) -> Change:
    def change(held: dict[str, Tensor]) -> None:
        one, other = f"{FIRST}.{part}", f"{SECOND}.{part}"
        held[one], held[other] = held[other], held[one]

    return change


def reordered(part: str, *, axis: int = 0) -> Change:
    def change(held: dict[str, Tensor]) -> None:
        values = held[f"{FIRST}.{part}"]
        held[f"{FIRST}.{part}"] = values.flip(axis) if values.dtype != torch.uint32 else _flipped(values)

    return change


def _flipped(values: Tensor) -> Tensor:
    return values.view(torch.int32).flip(0).view(torch.uint32)


# The format, what is done to it, which layers are named, and as what.
DAMAGE: dict[str, tuple[str, Change, int, str]] = {
    "weights of two layers": ("w4", swapped("weight_packed"), 2, "weights"),
    "weights of two MLX layers": ("mlx", swapped("weight"), 2, "weights"),
    "weights of two 8-bit floats": ("fp8", swapped("weight"), 2, "weights"),
    "rows": ("w4", reordered("weight_packed"), 1, "weights"),
    "rows of an MLX layer": ("mlx", reordered("weight"), 1, "weights"),
    "rows of a gptq layer": ("gptq", reordered("qweight", axis=1), 1, "weights"),
    "scales of two layers": ("w4", swapped("weight_scale"), 2, "scales"),
    "scales of two layers at 3 bits": ("w3", swapped("weight_scale"), 2, "scales"),
    # MLX gives scales a sign, so the weights turn over.
    "scales of two MLX layers": ("mlx", swapped("scales"), 2, "weights"),
    "one scale a row of two layers": ("w8", swapped("weight_scale"), 2, "scales"),
    "exponents of two layers": ("mxfp4", swapped("weight_scale"), 2, "scales"),
    "scales of two groups": ("w4", reordered("weight_scale", axis=1), 1, "scales"),
    "scales of rows": ("w8", reordered("weight_scale"), 1, "scales"),
    "zero points of two layers": ("w4-asym", swapped("weight_zero_point"), 2, "scales"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_what_lies_in_the_wrong_place_is_not_named(folders: Folders, tmp_path: Path, case: str) -> None:
    name, change, count, what = DAMAGE[case]
    (note,) = notes(folders, made.changed(folders(name), tmp_path / "damaged", tensors=change))
    assert note.startswith(f"{what} of {count} layers")
    assert FIRST in note
    assert (SECOND in note) == (count == 2)


def test_the_audit_does_not_say_what_lies_in_the_wrong_place(folders: Folders, tmp_path: Path) -> None:
    folder = made.changed(folders("w4"), tmp_path / "damaged", tensors=swapped("weight_scale"))
    found = compare.distance(contents.read(folders("source")), contents.read(folder))
    assert [note for note in found.notes if note.startswith("scales of 2 layers do not fit the source's weights: ")]


def test_layers_that_cannot_be_compared_are_passed_over_in_silence(folders: Folders) -> None:
    found = contents.read(folders("w4"))
    (note,) = follows.notes(found, found, passes.opened(found))
    assert note.startswith("14 quantized layers were not compared with the source's one by one: model.layers.*.")


@dataclass(frozen=True, kw_only=True)
class Rounded:
    """A layer [R, K] on a grid: whole numbers, and for each group a scale and a zero point [R, G]."""

    numbers: Tensor
    scales: Tensor
    zeros: Tensor

    def dense(self, scales: Tensor | None = None) -> Tensor:
        grouped = self.numbers.reshape(*self.scales.shape, -1)
        values = (grouped - self.zeros[..., None]) * (self.scales if scales is None else scales)[..., None]
        return values.reshape(self.numbers.shape)


def weights(seed: int = 0) -> Tensor:
    return torch.randn(96, 256, generator=torch.Generator().manual_seed(seed))


def rounded(values: Tensor, bits: int, group: int, *, symmetric: bool) -> Rounded:
    grouped = values.reshape(len(values), -1, group or values.shape[1])
    low, high = grouped.amin(2).clamp_max(0), grouped.amax(2).clamp_min(0)
    if symmetric:
        high = torch.maximum(high, -low)
        low = -high
    scales = (high - low) / (2**bits - 1)
    zeros = torch.full_like(scales, 2 ** (bits - 1)) if symmetric else (-low / scales).round()
    numbers = (grouped / scales[..., None] + zeros[..., None]).round().clamp(0, 2**bits - 1)
    return Rounded(numbers=numbers.reshape(values.shape), scales=scales, zeros=zeros)


def followed(mine: Tensor, other: Tensor, bits: int, group: int, *, symmetric: bool = True) -> follows.Followed:
    scheme = Scheme(format="pack-quantized", bits=bits, group_size=group, symmetric=symmetric)
    return follows.followed(lambda part: mine[part], other.numpy(), scheme)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("group", [0, 32])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_sound_weights_are_called_damaged(bits: int, group: int, symmetric: bool) -> None:
    """Plain ones, and ones whose columns and rows a method multiplied before it rounded them."""
    mine, random = weights(), torch.Generator().manual_seed(1)
    columns, rows = (torch.empty(n).log_normal_(0, 0.5, generator=random) for n in (256, 96))
    plain = followed(mine, rounded(mine, bits, group, symmetric=symmetric).dense(), bits, group, symmetric=symmetric)
    assert (plain.lost, plain.moved, plain.plain, plain.scales, plain.factor) == (0, False, True, True, True)
    moved = mine * columns * rows[:, None]
    found = followed(mine, rounded(moved, bits, group, symmetric=symmetric).dense(), bits, group, symmetric=symmetric)
    assert (found.lost, found.moved, found.scales) == (0, True, True)


def test_clipped_weights_are_called_damaged() -> None:
    """A method may cut off the largest: what is left tells the scale."""
    mine = weights()
    clipped = rounded(mine.clamp(-1.6, 1.6), 4, 32, symmetric=True)
    assert followed(mine, clipped.dense(), 4, 32).scales


@pytest.mark.parametrize("columns", [1.0, 3.0])
def test_two_scales_that_were_swapped_are_not_seen(columns: float) -> None:
    mine = weights()
    mine[5, 64:96] *= 3
    held = rounded(mine * torch.linspace(1, columns, 256), 4, 32, symmetric=True)
    scales = held.scales.clone()
    scales[5, [2, 3]] = scales[5, [3, 2]]
    found = followed(mine, held.dense(scales), 4, 32)
    assert (found.lost, found.moved, found.plain, found.scales) == (0, columns > 1, False, False)


def test_a_layer_that_is_another_times_too_large_is_not_seen() -> None:
    mine = weights()
    found = followed(mine, 1.2 * rounded(mine, 4, 32, symmetric=True).dense(), 4, 32)
    assert (found.plain, found.scales, found.factor) == (True, True, False)


def test_rows_of_a_layer_behind_a_norm_are_taken_for_multiplied() -> None:
    """SmoothQuant multiplies columns behind norms, and no rows; AWQ multiplies rows where it multiplies o_proj."""
    one = follows.Followed(rows=8, lost=0, moved=False, scales=True, plain=False, factor=True)
    assert not follows._is_sound("a.v_proj", one, {"q_proj", "gate_proj"})
    assert follows._is_sound("a.v_proj", one, {"q_proj", "o_proj"})
    assert not follows._is_sound("a.q_proj", one, {"q_proj", "o_proj"})
