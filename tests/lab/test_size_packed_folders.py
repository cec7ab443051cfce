"""The bytes of a quantized model by its config.json alone are those of its tensors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from size_configs import folder

sys.path.insert(0, str(Path(__file__).parents[1] / "quantize"))
import older_folders
from quantize_sources import WIDE, quantize, rows, save_mixture

from specq.lab.size import size_models
from specq.lab.size_weights import Weights
from specq.models import headers

RAGGED = rows(40, 96, 64)
INTEGERS = {"group_size": 32}


def alone(path: Path, config: Path, **changed: Any) -> Weights:
    """What a folder with nothing but this config.json is sized with."""
    told = json.loads((config / "config.json").read_text())
    return size_models(str(folder(path, {**told, **changed}))).models[0].model.weights


@pytest.fixture(scope="module")
def llama(folder_of: Callable[..., Path]) -> Path:
    return folder_of("llama", **WIDE)


@pytest.mark.parametrize(
    "recipe",
    [
        {"method": "rtn", "bits": 4, **INTEGERS},
        {"method": "rtn", "bits": 4, "symmetric": False, **INTEGERS},
        {"method": "rtn", "bits": 3, **INTEGERS},
        {"method": "rtn", "bits": 8},
        {"method": "w8a8"},
        {"method": "fp8"},
        {"method": "nvfp4"},
        {"method": "mxfp4"},
    ],
    ids=lambda recipe: "-".join(map(str, recipe.values())),
)
def test_the_bytes_of_a_config_are_not_those_of_its_tensors(
    llama: Path, tmp_path: Path, recipe: dict[str, Any]
) -> None:
    quantize(llama, tmp_path / "out", RAGGED, **recipe)
    stored = sum(one.size for one in headers.tensors(tmp_path / "out").values())
    found = alone(tmp_path / "alone", tmp_path / "out")
    assert found.origin == "counted"
    assert found.bytes == pytest.approx(stored, rel=0.01)
    whole = size_models(str(tmp_path / "out")).models[0].model.weights
    assert found.parameters == whole.parameters
    assert found.read() == pytest.approx(whole.read(), rel=0.01)


def test_what_a_config_leaves_unpacked_is_counted_packed(llama: Path, tmp_path: Path) -> None:
    quantize(llama, tmp_path / "out", RAGGED, method="rtn", bits=4, **INTEGERS)
    packed, dense = headers.tensors(tmp_path / "out"), headers.tensors(llama)
    kept = sum(one.size for name, one in packed.items() if "down_proj" not in name)
    left = sum(one.size for name, one in dense.items() if "down_proj" in name)
    how = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]
    how["ignore"] = [*how["ignore"], "re:.*down_proj$"]
    found = alone(tmp_path / "alone", tmp_path / "out", quantization_config=how)
    assert found.bytes == pytest.approx(kept + left, rel=0.01)


def test_experts_are_counted_in_16_bits(tmp_path: Path) -> None:
    source = save_mixture(tmp_path / "moe", "MixtralConfig")
    quantize(source, tmp_path / "out", RAGGED, method="rtn", bits=4, **INTEGERS)
    stored = sum(one.size for one in headers.tensors(tmp_path / "out").values())
    found, whole = (
        alone(tmp_path / "alone", tmp_path / "out"),
        size_models(str(tmp_path / "out")).models[0].model.weights,
    )
    assert found.bytes == pytest.approx(stored, rel=0.01)
    assert found.expert == pytest.approx(whole.expert, rel=0.01)
    assert found.read() == pytest.approx(whole.read(), rel=0.01)


@pytest.mark.parametrize("method", ["gptq", "awq"])
@pytest.mark.parametrize("left", [False, True])
def test_an_older_folder_is_counted_without_its_scales(llama: Path, tmp_path: Path, method: str, left: bool) -> None:
    size = 0
    for name, one in headers.tensors(llama).items():
        kept = left and name.endswith("mlp.down_proj.weight")
        if len(one.shape) == 1 or name.startswith(("model.embed", "lm_head")) or kept:
            size += one.size
            continue
        layer = older_folders.rounded(torch.zeros(one.shape), 4, 32, symmetric=False)
        made = older_folders.gptq(layer, 4) if method == "gptq" else older_folders.awq(layer)
        size += sum(tensor.nbytes for tensor in made.values())
    how: dict[str, Any] = {"quant_method": method, "bits": 4, "group_size": 32}
    if left:
        how |= {"dynamic": {r"-:.*down_proj$": {}}} if method == "gptq" else {"modules_to_not_convert": ["down_proj"]}
    found = alone(tmp_path / "alone", llama, quantization_config=how)
    assert found.bytes == size
