"""A config.json of another model than the one stored must be refused, by the audit and by the plan."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import audit_folders as made
import pytest
import quantize_sources
import torch

import tiny_models
from specq.core.errors import ModelError
from specq.experiment import models
from specq.experiment.schema import Engine
from specq.quantize import contents, fits
from specq.quantize.audit import audit_folder

Folders = Callable[[str], Path]
FORMATS = ("source", "w4", "w8a8", "mlx", "gptq", "awq")

pytestmark = pytest.mark.usefixtures("one_thread")

# What config.json says instead of 2 layers, 64 wide, with 4 heads of 16 and 2 of keys, 128 between and 50 tokens.
LIES: dict[str, tuple[dict[str, Any], str]] = {
    "fewer layers": ({"num_hidden_layers": 1}, r"says 1 layers, and 2 are stored \(the last with model\.layers\.1\."),
    "more layers": ({"num_hidden_layers": 3}, r"says 3 layers, and 2 are stored"),
    "hidden size": ({"hidden_size": 32}, r"embed_tokens\.weight holds 50 x 64 weights, .* says hidden_size = 32"),
    "vocabulary": ({"vocab_size": 40}, r"embed_tokens\.weight holds 50 x 64 weights, .* says vocab_size = 40"),
    "between": ({"intermediate_size": 256}, r"(down|gate|up)_proj.* holds .*128.* makes the layer .*256"),
    "heads of keys": ({"num_key_value_heads": 4}, r"(k|v)_proj.* holds 32 x 64 weights, .* makes the layer 64 x 64"),
}


def lying(folders: Folders, out: Path, name: str, said: dict[str, Any]) -> Path:
    def change(config: dict[str, Any]) -> None:
        config.update(said)
        config.pop("layer_types", None)  # as long as there are layers

    return made.changed(folders(name), out, config=change)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", LIES)
def test_the_config_of_another_model_is_believed(folders: Folders, tmp_path: Path, name: str, case: str) -> None:
    said, words = LIES[case]
    folder = lying(folders, tmp_path / "other", name, said)
    with pytest.raises(ModelError) as caught:
        audit_folder(folder, None, forward=False)
    assert re.search(words, str(caught.value)), str(caught.value)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_layer_that_is_not_there_is_not_missed(folders: Folders, tmp_path: Path) -> None:
    def drop(held: dict[str, torch.Tensor]) -> None:
        for name in [name for name in held if name.startswith("model.layers.0.mlp.up_proj.")]:
            del held[name]

    folder = made.changed(folders("w4"), tmp_path / "less", tensors=drop)
    with pytest.raises(ModelError, match=r"lacks 1 of the 14 linear layers .* \(first: model\.layers\.0\.mlp\.up_proj"):
        audit_folder(folder, None, forward=False)


def test_layers_that_predict_further_tokens_are_taken_for_too_many(folders: Folders, tmp_path: Path) -> None:
    folder = lying(folders, tmp_path / "next", "source", {"num_hidden_layers": 1, "num_nextn_predict_layers": 1})
    fits.check(contents.read(folder))


@pytest.mark.parametrize("kind", tiny_models.CONFIGS)
def test_a_sound_model_of_another_kind_is_refused(tmp_path: Path, kind: str) -> None:
    fits.check(contents.read(tiny_models.save(tmp_path / "m", tiny_models.make(kind))))


@pytest.mark.parametrize("kind", ["MixtralConfig", "Qwen2MoeConfig", "OlmoeConfig", "DeepseekV3Config", "GptOssConfig"])
def test_a_sound_mixture_is_refused(tmp_path: Path, kind: str) -> None:
    more = {"n_routed_experts": 4, "n_group": 1, "topk_group": 1} if kind.startswith("Deepseek") else {}
    fits.check(contents.read(quantize_sources.save_mixture(tmp_path / "m", kind, **more)))


PLANNED: dict[str, tuple[str, str, Callable[[dict[str, Any]], None], str]] = {
    "group": (
        "w4",
        "hf",
        lambda c: c["quantization_config"]["config_groups"]["group_0"]["weights"].update(group_size=64),
        "that is groups of 32, and config.json says groups of 64",
    ),
    "layers": ("w4", "hf", lambda c: c.update(num_hidden_layers=1), "says 1 layers, and 2 are stored"),
    "gptq bits": ("gptq", "hf", lambda c: c["quantization_config"].update(bits=8), "says 8 bits"),
    "mlx group": ("mlx", "mlx", lambda c: c["quantization"].update(group_size=64), "the scales hold 256"),
    "gptq on mlx": ("gptq", "mlx", lambda c: None, 'engine kind "mlx" does not read: type --set engine.kind=hf'),
    "a package": (
        "source",
        "hf",
        lambda c: c.update(quantization_config={"quant_method": "hqq", "quant_config": {}}),
        "is quantized by hqq, and the package that reads it is not installed",
    ),
    "no object": (
        "source",
        "hf",
        lambda c: c.update(quantization_config="x"),
        'quantization_config is "x", expected an object',
    ),
    "no object beside an MLX one": (
        "mlx",
        "hf",
        lambda c: c.update(quantization_config=["x"]),
        'quantization_config is ["x"], expected an object',
    ),
    "a format": (
        "w4",
        "hf",
        lambda c: c["quantization_config"].update(format="weird"),
        "the format 'weird' (unknown here), and nothing here reads it",
    ),
}


@pytest.mark.parametrize("case", PLANNED)
def test_a_plan_takes_what_a_run_refuses(folders: Folders, tmp_path: Path, case: str) -> None:
    name, kind, change, words = PLANNED[case]
    folder = made.changed(folders(name), tmp_path / "planned", config=change)
    with pytest.raises(ModelError) as caught:
        models.planned("target", str(folder), Engine(kind=kind, device="cpu"))
    assert words in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("name", ["w4", "w8a8", "gptq", "awq", "fp8", "nvfp4"])
def test_a_plan_refuses_what_a_run_takes(folders: Folders, name: str) -> None:
    found = models.planned("target", str(folders(name)), Engine(kind="hf", device="cpu", dtype="bfloat16"))
    kernels = {"w4": "int4pack", "gptq": "int4pack", "awq": "int4pack"}
    assert kernels.get(name, "no kernel here") in found.held.kernels[0]
