"""Quantizing a bfloat16 model in float32 on processors that are slow in bfloat16."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from quantize_sources import WIDE, quantize, rows
from safetensors.torch import load_file

import tiny_models
from specq.models import headers
from specq.quantize import llmcompressor

TEXTS = rows(40, 96, 64)
METHODS = [
    {"method": "gptq", "bits": 4, "group_size": 32},
    {"method": "awq", "bits": 4, "group_size": 32},
    {"method": "w8a8"},
]


@pytest.fixture
def halved(tmp_path) -> Path:
    """A tiny model stored in bfloat16."""
    model = tiny_models.make("llama", **WIDE)
    return tiny_models.save(tmp_path / "halved", model, dtype=torch.bfloat16)


def computed_in(monkeypatch, slow: str) -> list[torch.dtype]:
    """The dtypes in which models were quantized, on a processor said to be slow or not."""
    seen: list[torch.dtype] = []
    real = llmcompressor._run

    def run(model, *rest):
        seen.append(model.dtype)
        real(model, *rest)

    monkeypatch.setattr(llmcompressor, "_run", run)
    monkeypatch.setattr(llmcompressor, "lacks_kernels", lambda *_: slow)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return seen


@pytest.mark.parametrize("recipe", METHODS, ids=lambda recipe: recipe["method"])
def test_a_widened_model_is_stored_in_another_dtype(halved, tmp_path, monkeypatch, recipe) -> None:
    found = {}
    for name, slow, dtype in (("quick", "", torch.bfloat16), ("slow", "no kernels", torch.float32)):
        with monkeypatch.context() as patch:
            seen = computed_in(patch, slow)
            quantize(halved, tmp_path / name, TEXTS, **recipe)
            assert seen == [dtype]
        found[name] = {key: (tensor.dtype, tensor.shape) for key, tensor in headers.tensors(tmp_path / name).items()}
    assert found["slow"] == found["quick"]


def test_a_weight_rounds_elsewhere_once_it_is_stored(halved, tmp_path, monkeypatch) -> None:
    """The codes of the stored folder are those of the float32 model before it was narrowed."""
    computed_in(monkeypatch, "no kernels")
    steps = {}
    real = llmcompressor._run

    def run(model, *rest):
        real(model, *rest)
        for name, module in model.named_modules():
            if hasattr(module, "weight_scale"):
                scale = module.weight_scale.detach().repeat_interleave(32, dim=1)
                steps[name] = torch.round(module.weight.detach() / scale).clamp(-8, 7)

    monkeypatch.setattr(llmcompressor, "_run", run)
    quantize(halved, tmp_path / "out", TEXTS, method="gptq", bits=4, group_size=32)
    stored = {key: value for file in headers.weight_files(tmp_path / "out") for key, value in load_file(file).items()}
    assert steps
    for name, wanted in steps.items():
        words = stored[f"{name}.weight_packed"]
        codes = torch.stack([(words >> (4 * i)) & 15 for i in range(8)], dim=-1).flatten(1)[:, : wanted.shape[1]] - 8
        assert torch.equal(codes, wanted.to(codes.dtype)), name


def test_models_of_other_dtypes_and_methods_without_texts_are_widened(halved, tmp_path, monkeypatch) -> None:
    seen = computed_in(monkeypatch, "no kernels")
    quantize(halved, tmp_path / "rtn", [], method="rtn", bits=4, group_size=32)
    whole = tiny_models.save(tmp_path / "whole", tiny_models.make("llama", **WIDE))
    quantize(whole, tmp_path / "gptq", TEXTS, method="gptq", bits=4, group_size=32)
    assert seen == [torch.bfloat16, torch.float32]
    assert headers.tensors(tmp_path / "gptq")["model.norm.weight"].dtype == "F32"
