"""Mixtures of experts: what is quantized one by one loads again, or is refused before any weight is read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import audit_folders
import pytest
from quantize_sources import logits, quantize, rows, save_mixture, sentence, write_texts
from transformers import AutoModelForCausalLM

from specq.core.errors import ModelError, Unsupported
from specq.models import refs
from specq.quantize import artifact, audit, compare, contents, experts, fits, prepare, recipes
from specq.quantize.load import check_readable, load_quantized

QWEN = {"num_experts": 4, "moe_intermediate_size": 32}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "mixtral": ("MixtralConfig", {}),
    "qwen3_moe": ("Qwen3MoeConfig", {**QWEN, "head_dim": 16}),
    "gpt_oss": ("GptOssConfig", {"head_dim": 16}),
}
TEXTS = rows(60, 90)


@pytest.fixture(scope="module")
def mixture(tmp_path_factory, one_thread):
    root = tmp_path_factory.mktemp("experts")

    def get(kind: str) -> Path:
        name, more = KINDS[kind]
        out = root / kind
        return out if out.exists() else save_mixture(out, name, max_position_embeddings=128, **more)

    return get


@pytest.mark.parametrize("kind", ["mixtral", "qwen3_moe"])
@pytest.mark.parametrize(
    "recipe",
    [
        {"method": "rtn", "bits": 8},
        {"method": "rtn", "bits": 8, "group_size": 32, "symmetric": False},
        {"method": "fp8"},
        {"method": "mxfp4"},
    ],
    ids=lambda recipe: "-".join(map(str, recipe.values())),
)
def test_experts_come_back_as_others_or_not_at_all(mixture, tmp_path, kind, recipe) -> None:
    source = mixture(kind)
    quantize(source, tmp_path / "out", TEXTS, **recipe)
    check_readable(tmp_path / "out")
    right = logits(AutoModelForCausalLM.from_pretrained(source), TEXTS[1])
    found = logits(load_quantized(tmp_path / "out", dtype="float32").model, TEXTS[1])
    worst = 0.3 if recipe["method"] == "mxfp4" else 0.1
    assert 0 < (found - right).norm() < worst * right.norm()
    seen = compare.distance(contents.read(source), contents.read(tmp_path / "out"))
    assert seen.kl_mean is not None, seen.notes


def test_a_kernel_is_named_that_no_expert_runs_on(mixture, tmp_path) -> None:
    quantize(mixture("mixtral"), tmp_path / "out", TEXTS, method="rtn", group_size=32)
    kernel = audit.audit_folder(tmp_path / "out", None).kernel
    assert "no kernel here: transformers holds the experts of a layer as one tensor (12 layers)" in kernel


@pytest.mark.parametrize(
    ("kind", "recipe", "words"),
    [
        (
            "gpt_oss",
            {"method": "rtn", "group_size": 32},
            "GptOssForCausalLM one by one, and transformers knows them as",
        ),
        ("qwen3_moe", {"method": "nvfp4", "calibration": "texts"}, "cannot put together again.*allowed is rtn, gptq"),
        ("qwen3_moe", {"method": "w8a8", "calibration": "texts"}, "cannot put together again|does not know which"),
    ],
)
def test_a_folder_that_nothing_here_loads_is_made(mixture, tmp_path, monkeypatch, kind, recipe, words) -> None:
    texts = write_texts(tmp_path / "texts", [{"text": sentence(i, 90)} for i in range(8)])
    given = {key: str(texts) if value == "texts" else value for key, value in recipe.items()}
    never = classmethod(lambda *_, **__: pytest.fail("weights were loaded"))
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", never)
    with pytest.raises(Unsupported, match=words):
        artifact.make(str(mixture(kind)), recipes.make(given), tmp_path / "out", lambda *_: None)
    # What is kept in floats needs nobody to put it together.
    mlx = recipes.make({"method": "mlx-rtn", "group_size": 32})
    assert prepare.plan(refs.resolve(str(mixture("mixtral"))), mlx, tmp_path / "out").recipe == mlx


def test_a_folder_of_experts_that_nobody_joins_is_loaded(mixture, tmp_path) -> None:
    """Loaded all the same, transformers would draw experts at random, or leave their scales out."""
    source = mixture("qwen3_moe")
    quantize(source, tmp_path / "nvfp4", TEXTS, method="nvfp4")
    quantize(source, tmp_path / "w4", TEXTS, method="rtn", group_size=32)

    def rename(held):
        for name in [name for name in held if ".gate_proj." in name]:
            held[name.replace(".gate_proj.", ".w1.")] = held.pop(name)

    renamed = audit_folders.changed(tmp_path / "w4", tmp_path / "renamed", tensors=rename)
    shutil.copytree(tmp_path / "w4", tmp_path / "stacked")
    audit_folders.edit(tmp_path / "stacked" / "config.json", lambda held: held.update(model_type="granitemoe"))
    for folder, words in (
        (tmp_path / "nvfp4", "holds experts as nvfp4-pack-quantized"),
        (renamed, r"names its experts otherwise than transformers reads them \(first: .*\.w1\."),
        (tmp_path / "stacked", "those of a granitemoe model as one tensor only"),
    ):
        for refuse in (experts.check_folder, check_readable, load_quantized):
            with pytest.raises(ModelError, match=rf"{words}.*: quantize its source anew .* or serve it"):
                refuse(folder)
    # The plan of an experiment asks this way.
    with pytest.raises(ModelError, match="names its experts otherwise"):
        fits.check_quantized(contents.read(renamed), "hf")
    fits.check_quantized(contents.read(tmp_path / "w4"), "hf")
    experts.check_folder(source)
