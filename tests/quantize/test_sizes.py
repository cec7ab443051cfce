from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import audit_folders as made
import pytest
import torch

from specq.quantize import contents, sizes
from specq.quantize.schemes import Scheme

STORED = [*(name for name in made.PRESETS if name != "ignored"), "mlx", "mlx-mixed", "mlx-mxfp4", "gptq", "awq"]


@pytest.mark.parametrize("name", STORED)
def test_predicted_bytes_of_a_layer_are_not_those_on_disk(folders: Callable[[str], Path], name: str) -> None:
    found = contents.read(folders(name))
    layers = [layer for layer in found.layers.values() if layer.scheme is not None]
    assert len(layers) >= 14
    for layer in layers:
        assert layer.scheme is not None
        assert layer.bytes == sizes.quantized_bytes(layer.scheme, rows=layer.rows, columns=layer.columns)


def test_experts_in_one_tensor_are_counted_once(folders: Callable[[str], Path], tmp_path: Path) -> None:
    def stack(held: dict[str, torch.Tensor]) -> None:
        held["model.layers.0.mlp.experts.up_proj"] = torch.zeros(4, 96, 64, dtype=torch.bfloat16)

    source = contents.read(made.changed(folders("source"), tmp_path / "stacked", tensors=stack))
    layer = source.layers["model.layers.0.mlp.experts.up_proj"]
    assert (layer.count, layer.rows, layer.columns, layer.role) == (4, 96, 64, "linear")
    scheme = Scheme(format="mlx affine", bits=4, group_size=32, symmetric=False)
    saved = sizes.predicted_bytes(source, {}) - sizes.predicted_bytes(source, {contents.canonical(layer.name): scheme})
    # 16 bits become 4 and two 16-bit numbers for 32 weights; the headers of two more tensors are small.
    assert saved == pytest.approx(4 * 96 * 64 * (16 - 5) / 8, rel=0.02)
