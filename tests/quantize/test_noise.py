"""Noise on weights: it must reach every kind of layer that holds a model's weights, row by row, and say where not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mlx_folders
import packed_folders
import pytest
import torch

import tiny_models as tiny
from specq.engines.hf import HFEngine
from specq.engines.mlx import MLXEngine
from specq.models import refs
from specq.quantize import mlx_noise
from specq.quantize.noise import Reach, add_noise, reach

pytestmark = pytest.mark.usefixtures("one_thread")
SHARE = 0.2


def moved(before: torch.Tensor, after: torch.Tensor, columns: int) -> float:
    """The middle row's noise as a share of the row's own spread; of rows along the other dimension it is no 0.2."""
    return float(((after - before).std(dim=columns) / before.std(dim=columns)).median())


@pytest.mark.parametrize(
    ("kind", "name", "columns"),
    [
        ("llama", "model.layers.0.mlp.down_proj.weight", 1),
        # [inputs, outputs]
        ("gpt2", "transformer.h.0.mlp.c_fc.weight", 0),
        # [experts, outputs, inputs]
        ("hybrid", "model.layers.0.mlp.experts.gate_up_proj", 2),
        ("hybrid", "model.layers.0.mlp.experts.down_proj", 2),
    ],
)
def test_a_kind_of_layer_gets_no_noise_or_that_of_its_columns(kind: str, name: str, columns: int) -> None:
    model = tiny.make(kind)
    weight = dict(model.named_parameters())[name]
    # Rows of very different spread, so that noise along the wrong dimension shows.
    rows = 1 - columns if weight.dim() == 2 else 1
    scale = torch.logspace(-2, 2, weight.shape[rows]).reshape([-1 if d == rows else 1 for d in range(weight.dim())])
    weight.mul_(scale)
    before = weight.clone()
    found = add_noise(model, SHARE)
    assert moved(before, weight, columns) == pytest.approx(SHARE, rel=0.3)
    lowest, highest = before.select(rows, 0), before.select(rows, -1)
    far = (weight - before).select(rows, 0).std() / lowest.std()
    assert float(far) == pytest.approx(SHARE, rel=0.6)
    assert float((weight - before).select(rows, -1).std() / highest.std()) == pytest.approx(SHARE, rel=0.6)
    assert found == reach(model)


def test_embeddings_head_or_short_convolutions_are_perturbed() -> None:
    model = tiny.make("conv")
    kept = [p for name, p in model.named_parameters() if ".conv.conv." in name or "embed" in name or "lm_head" in name]
    before = [one.clone() for one in kept]
    add_noise(model, SHARE)
    assert len(kept) >= 4
    assert all(torch.equal(one, other) for one, other in zip(kept, before, strict=True))


def test_weights_that_noise_does_not_reach_are_passed_over_in_silence() -> None:
    model = torch.nn.Module()
    model.linear = torch.nn.Linear(10, 10)
    model.own = torch.nn.Parameter(torch.ones(10, 30))
    assert reach(model) == Reach(noisy=100, all=400)
    assert reach(model).lacks.startswith("noise reaches 25 % of the weights")
    assert reach(tiny.make("gpt2")).lacks == ""


def test_a_quantized_target_takes_no_noise(tmp_path: Path) -> None:
    folder = packed_folders.write(tmp_path / "m", bits=4, group=32)
    engine = HFEngine(device="cpu")
    clean, noisy = (engine.open(str(folder), noise=noise).model for noise in (1e-6, SHARE))
    linears = [name for name, module in noisy.named_modules() if "_proj" in name]
    assert len(linears) == 14

    def weight(model: torch.nn.Module, name: str) -> torch.Tensor:
        module = model.get_submodule(name)
        return getattr(module, "dense_weight", getattr(module, "weight", None)).float()

    for name in linears:
        assert moved(weight(clean, name), weight(noisy, name), 1) == pytest.approx(SHARE, rel=0.3)


def test_an_mlx_target_in_few_bits_takes_no_noise(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    ids = tiny.prompt("a quick test").ids
    mlx_folders.quantize(folder_of("llama"), tmp_path / "q", group_size=32)
    model = MLXEngine(device="cpu").load(refs.resolve(str(tmp_path / "q")), "auto")
    before = mlx_folders.logits(model, ids)
    assert mlx_noise.add_noise(model, SHARE) == 7 * tiny.LAYERS
    assert abs(mlx_folders.logits(model, ids) - before).max() > 0.1


def test_experts_of_mlx_take_no_noise() -> None:
    import mlx.core as mx
    import mlx.nn as nn
    from mlx_lm.models.switch_layers import SwitchLinear

    model = nn.Module()
    model.experts = SwitchLinear(64, 48, 3, bias=False)
    before = torch.tensor(model.experts.weight.tolist())
    assert mlx_noise.add_noise(model, SHARE) == 1
    assert moved(before, torch.tensor(model.experts.weight.astype(mx.float32).tolist()), 2) == pytest.approx(
        0.2, rel=0.2
    )
