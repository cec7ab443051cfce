from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from specq.models import headers, refs
from specq.quantize.grid import Grid, detect, source_grid

DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
ROWS, COLUMNS = 96, 384

SHAPES: dict[str, Callable[[torch.Generator], torch.Tensor]] = {
    "gaussian": lambda g: torch.randn(ROWS, COLUMNS, generator=g) * 0.02,
    "uniform": lambda g: torch.rand(ROWS, COLUMNS, generator=g) - 0.5,
    "heavy": lambda g: torch.randn(ROWS, COLUMNS, generator=g) / torch.rand(ROWS, COLUMNS, generator=g).add(0.05),
    "low rank": lambda g: torch.randn(ROWS, 8, generator=g) @ torch.randn(8, COLUMNS, generator=g),
    # One octave of bfloat16 has 128 values, evenly spaced by the dtype itself.
    "one octave": lambda g: torch.rand(ROWS, COLUMNS, generator=g) + 1,
    "half zeros": lambda g: torch.randn(ROWS, COLUMNS, generator=g) * (torch.arange(COLUMNS) % 2),
}


def drawn(shape: str, seed: int = 0) -> torch.Tensor:
    return SHAPES[shape](torch.Generator().manual_seed(seed))


def rounded(weights: torch.Tensor, bits: int, group: int, symmetric: bool, dtype: torch.dtype) -> np.ndarray:
    """Rounded to nearest with scales in the weights' dtype and turned back into floats, as stored."""
    blocks = weights.float().reshape(len(weights), -1, group or weights.shape[1])
    if symmetric:
        scale = (blocks.abs().amax(-1, keepdim=True) / ((2**bits - 1) / 2)).to(dtype).float()
        back = torch.clamp(torch.round(blocks / scale), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1) * scale
    else:
        low = blocks.amin(-1, keepdim=True).to(dtype).float()
        scale = ((blocks.amax(-1, keepdim=True) - low) / (2**bits - 1)).to(dtype).float()
        back = torch.clamp(torch.round((blocks - low) / scale), 0, 2**bits - 1) * scale + low
    return back.reshape(weights.shape).to(dtype).float().numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_weights_that_were_never_quantized_are_called_a_grid(shape: str, dtype: str) -> None:
    for seed in range(3):
        assert detect(drawn(shape, seed).to(DTYPES[dtype]).float().numpy(), dtype) is None


def test_small_or_narrowed_weights_are_called_a_grid() -> None:
    for seed in range(8):
        assert detect(drawn("gaussian", seed)[:32, :64].bfloat16().float().numpy(), "BF16") is None
    # Files in a wide dtype may hold values that were stored in a narrow one before.
    assert detect(drawn("gaussian").bfloat16().float().numpy(), "F32") is None
    assert detect(drawn("gaussian").half().float().numpy(), "F32") is None
    assert detect(np.zeros((32, 64), np.float32), "BF16") is None


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(
    ("bits", "group"), [(2, 16), (2, 64), (3, 32), (4, 32), (4, 64), (4, 128), (4, 0), (6, 32), (8, 0)]
)
def test_a_grid_is_missed_or_taken_for_another(bits: int, group: int, symmetric: bool) -> None:
    found = detect(rounded(drawn("gaussian"), bits, group, symmetric, torch.bfloat16), "BF16")
    assert found == Grid(bits=bits, block=group)


@pytest.mark.parametrize("dtype", ["F16", "F32"])
def test_a_grid_in_another_dtype_is_missed(dtype: str) -> None:
    for bits, group in ((4, 64), (8, 32)):
        found = detect(rounded(drawn("uniform"), bits, group, False, DTYPES[dtype]), dtype)
        assert found == Grid(bits=bits, block=group)


def test_a_grid_that_was_widened_to_float32_is_missed() -> None:
    found = detect(rounded(drawn("gaussian"), 4, 64, False, torch.bfloat16), "F32")
    assert found == Grid(bits=4, block=64)


def test_few_values_that_are_not_evenly_spaced_are_called_a_grid() -> None:
    # Sixteen quantiles of a normal law, times a scale a block: narrow, but no even grid.
    levels = torch.special.ndtri(torch.linspace(0.03, 0.97, 16))
    blocks = drawn("gaussian").reshape(-1, 64)
    scale = blocks.abs().amax(1, keepdim=True) / levels.max()
    picked = levels[((blocks / scale)[..., None] - levels).abs().argmin(-1)] * scale
    assert detect(picked.reshape(ROWS, COLUMNS).bfloat16().float().numpy(), "BF16") is None


def test_a_grid_with_a_bias_that_was_rounded_too_is_missed() -> None:
    blocks = drawn("gaussian").reshape(-1, 64)
    low = blocks.amin(1, keepdim=True).bfloat16()
    scale = ((blocks.amax(1, keepdim=True) - low) / 15).bfloat16()
    back = torch.round((blocks - low) / scale).bfloat16() * scale + low  # two roundings
    assert detect(back.reshape(ROWS, COLUMNS).float().numpy(), "BF16") == Grid(bits=4, block=64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_float8_weights_are_missed(dtype: str) -> None:
    weights = drawn("gaussian")
    scale = (weights.abs().amax(1, keepdim=True) / 448).to(DTYPES[dtype]).float()
    back = ((weights / scale).to(torch.float8_e4m3fn).float() * scale).to(DTYPES[dtype])
    assert detect(back.float().numpy(), dtype) == Grid(bits=None, block=0)


def test_planted_noise_on_a_grid_is_not_noticed() -> None:
    weights = rounded(drawn("gaussian"), 4, 32, True, torch.bfloat16)
    assert detect(weights, "BF16") == Grid(bits=4, block=32)
    step = np.abs(weights).max() / 8
    noise = np.random.default_rng(0).normal(0, 0.1 * step, weights.shape)
    assert detect(torch.tensor(weights + noise).bfloat16().float().numpy(), "BF16") is None


def test_one_layer_on_a_grid_speaks_for_the_model(tmp_path: Path) -> None:
    grid = torch.tensor(rounded(drawn("gaussian"), 4, 32, True, torch.bfloat16)).bfloat16()
    plain = drawn("gaussian").bfloat16()
    layers = {f"layer.{i}.weight": grid.clone() if i == 0 else plain.clone() for i in range(6)}
    save_file(layers | {"norm": torch.ones(4)}, tmp_path / "model.safetensors")
    assert source_grid(tmp_path, [*layers, "norm", "gone"]) is None
    save_file(layers | {f"layer.{i}.weight": grid.clone() for i in range(4)}, tmp_path / "model.safetensors")
    assert source_grid(tmp_path, [*layers, "norm"]) == (
        "weights lie on a 4-bit grid, blocks of 32 (4 of 6 layers looked at; there are 6)"
    )


@pytest.mark.real_model
def test_the_built_in_model_is_not_known_to_be_quantized() -> None:
    folder = refs.resolve("builtin:smollm2-135m", fetch=False).folder
    names = [name for name in headers.tensors(folder) if name.endswith("proj.weight")]
    found = source_grid(folder, names)
    assert found == "weights lie on a 4-bit grid, blocks of 32 (16 of 16 layers looked at; there are 210)"
