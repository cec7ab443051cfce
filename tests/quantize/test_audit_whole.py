"""A tensor that the model needs and the folder lacks must be refused; one that nothing reads must be told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import audit_folders as made
import pytest
import quantize_sources
import torch
import transformers
from torch import Tensor

import tiny_models
from specq.core.errors import ModelError
from specq.quantize import contents, fits
from specq.quantize.audit import audit_folder

Folders = Callable[[str], Path]
NORM = "model.layers.1.post_attention_layernorm.weight"
CACHE = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}

pytestmark = pytest.mark.usefixtures("one_thread")


def checked(folder: Path) -> list[str]:
    return fits.check(contents.read(folder))


def without(*names: str) -> Callable[[dict[str, Tensor]], None]:
    def change(held: dict[str, Tensor]) -> None:
        for name in names:
            del held[name]

    return change


@pytest.mark.parametrize("name", ["source", "w4", "fp8", "gptq", "mlx"])
@pytest.mark.parametrize("tensor", [NORM, "model.norm.weight", "model.embed_tokens.weight"])
def test_a_tensor_that_is_not_there_is_not_missed(folders: Folders, tmp_path: Path, name: str, tensor: str) -> None:
    folder = made.changed(folders(name), tmp_path / "less", tensors=without(tensor))
    with pytest.raises(ModelError, match=rf"{folder} lacks 1 of the tensors .* \(first: {tensor}\)"):
        audit_folder(folder, None, forward=False)


def test_a_bias_that_is_not_there_is_not_missed(tmp_path: Path) -> None:
    source = tiny_models.save(tmp_path / "qwen2", tiny_models.make("qwen2"))
    bias = "model.layers.2.self_attn.k_proj.bias"
    with pytest.raises(ModelError, match=rf"lacks 1 of the tensors .* \(first: {bias}\)"):
        checked(made.changed(source, tmp_path / "less", tensors=without(bias)))


def test_a_layer_that_is_no_linear_one_is_not_missed(tmp_path: Path) -> None:
    source = tiny_models.save(tmp_path / "gpt2", tiny_models.make("gpt2"))
    assert checked(source) == []
    with pytest.raises(ModelError, match=r"lacks 1 of the tensors .*first: transformer\.h\.1\.mlp\.c_fc\.weight"):
        checked(made.changed(source, tmp_path / "less", tensors=without("transformer.h.1.mlp.c_fc.weight")))


@pytest.mark.parametrize("kind", ["GPTNeoXConfig", "OPTConfig", "Gemma2Config", "BloomConfig", "Phi3Config"])
def test_a_sound_family_is_refused(tmp_path: Path, kind: str) -> None:
    """Families that join, rename or tie what others have apart."""
    config = getattr(transformers, kind)
    told = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    told |= {"vocab_size": tiny_models.V, "num_key_value_heads": 4, "head_dim": 16, "ffn_dim": 64, "n_head": 4}
    told |= {"word_embed_proj_dim": 64, "n_layer": 2, "pad_token_id": 3}
    known = config()
    given = {key: value for key, value in told.items() if hasattr(known, key)}
    source = tiny_models.save(tmp_path / "m", transformers.AutoModelForCausalLM.from_config(config(**given)))
    assert checked(source) == []


def test_an_expert_that_is_not_there_is_not_missed(tmp_path: Path) -> None:
    source = quantize_sources.save_mixture(tmp_path / "mixture", "MixtralConfig")
    gone = "model.layers.0.block_sparse_moe.experts.3.w2.weight"
    with pytest.raises(ModelError, match=r"lacks 1 of the 4 experts of .*down_proj .*\(first: number 3\)"):
        checked(made.changed(source, tmp_path / "less", tensors=without(gone)))


def test_scales_of_a_quantized_cache_are_not_missed(folders: Folders, tmp_path: Path) -> None:
    def scales(held: dict[str, Tensor]) -> None:
        held |= {f"model.layers.{i}.self_attn.{part}_scale": torch.ones(1) for i in range(2) for part in "kv"}

    def cache(config: dict[str, Any]) -> None:
        config["quantization_config"]["kv_cache_scheme"] = CACHE

    whole = made.changed(folders("w4"), tmp_path / "whole", tensors=scales, config=cache)
    assert checked(whole) == []
    less = made.changed(whole, tmp_path / "less", tensors=without("model.layers.1.self_attn.v_scale"))
    with pytest.raises(ModelError, match=r"lacks 1 of the scales that kv_cache_scheme .*layers\.1\.self_attn\.v_scale"):
        checked(less)
    # Where config.json says nothing of the cache, nothing reads them.
    (note,) = checked(made.changed(folders("w4"), tmp_path / "more", tensors=scales))
    assert note.startswith("4 tensors are stored that the model of config.json has no place for")


def test_tensors_that_nothing_reads_are_not_told(folders: Folders, tmp_path: Path) -> None:
    def plant(held: dict[str, Tensor]) -> None:
        held["model.layers.0.self_attn.q_norm.weight"] = torch.ones(16)
        held["model.layers.0.mlp.up_proj.weight"] = torch.zeros(128, 64)
        # Older versions of transformers stored it, and newer ones pass over it.
        held["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(8)

    found = audit_folder(made.changed(folders("w4"), tmp_path / "more", tensors=plant), None, forward=False)
    (note,) = [note for note in found.notes if "nothing reads them" in note]
    assert note.startswith("2 tensors are stored")
    assert "q_norm.weight" in note
    assert "up_proj.weight" in note


@pytest.mark.parametrize(("factor", "words"), [(1.0, "with the same numbers"), (2.0, "with OTHER numbers")])
def test_a_second_head_is_not_told(folders: Folders, tmp_path: Path, factor: float, words: str) -> None:
    def plant(held: dict[str, Tensor]) -> None:
        held["lm_head.weight"] = held["model.embed_tokens.weight"] * factor

    (note,) = checked(made.changed(folders("w4"), tmp_path / "head", tensors=plant))
    assert note.startswith("config.json says that the head is the embedding, and lm_head.weight is stored beside it")
    assert words in note


def test_a_family_that_cannot_be_built_is_passed_over_in_silence(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(*args: object, **more: object) -> object:
        raise ImportError("needs the package timm")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_config", lacks)
    (note,) = checked(folders("w4"))
    assert note.startswith("whether a tensor is missing was not looked at: transformers lacks a package")
