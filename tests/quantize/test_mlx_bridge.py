"""compressed-tensors folders turned into MLX folders: the same numbers, or a refusal by name."""

from __future__ import annotations

import json

import numpy as np
import packed_folders
import pytest
import quantize_sources
import torch
from safetensors.torch import load_file, save_file

import tiny_models as tiny
from specq.core.errors import ConfigError, ModelError, Unsupported
from specq.models import headers, refs
from specq.quantize import artifact, mlx, mlx_bridge, recipes

RECIPE = recipes.make({"method": "mlx-from-ct"})
IDS = [5, 9, 14, 22, 8, 31, 7, 12, 5, 44]
GRIDS = [(4, 32, True), (4, 64, False), (2, 32, True), (8, 32, True), (8, 0, True), (8, 0, False), (4, 128, True)]


def turn_over(source, out):
    told = []
    made = mlx_bridge.turn_over(refs.resolve(str(source)), RECIPE, out, lambda *a: told.append(a))
    return made, told


def mlx_logits(folder, *, dtype="float32"):
    import mlx.core as mx
    from mlx.utils import tree_map

    model = mlx.load("it", folder)
    cast = getattr(mx, dtype)
    model.update(tree_map(lambda v: v.astype(cast) if mx.issubdtype(v.dtype, mx.floating) else v, model.parameters()))
    return np.array(model(mx.array([IDS])).astype(mx.float32))[0]


def spread(differences):
    return float(np.sqrt((differences**2).mean()))


@torch.inference_mode()
def torch_logits(folder, dtype=torch.float32):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    return model(input_ids=torch.tensor([IDS])).logits[0].float().numpy()


@pytest.mark.parametrize(("bits", "group", "symmetric"), GRIDS)
def test_the_numbers_change_on_the_way(tmp_path, one_thread, bits, group, symmetric):
    """In float32, where nothing is rounded: torch's dequantized weights and MLX's give the same logits."""
    source = packed_folders.write(
        tmp_path / "ct", bits=bits, group=group, symmetric=symmetric, dtype=torch.float32, num_hidden_layers=1
    )
    made, told = turn_over(source, tmp_path / "out")
    assert np.abs(mlx_logits(tmp_path / "out") - torch_logits(source)).max() < 1e-3
    assert told[-1][:2] == (7, 7)
    assert any("one scale a row" in note for note in made.notes) == (group == 0)
    assert not any("8-bit zero points" in note for note in made.notes)
    source_tensors, tensors = load_file(source / headers.SINGLE), load_file(tmp_path / "out" / headers.SINGLE)
    name = "model.layers.0.mlp.down_proj"
    assert torch.equal(tensors[f"{name}.weight"].view(torch.int32), source_tensors[f"{name}.weight_packed"])


@pytest.mark.parametrize("symmetric", [True, False])
def test_bfloat16_moves_the_logits_further_than_its_rounding(tmp_path, one_thread, symmetric):
    """What bfloat16 does to the same dequantized model in torch is the measure; MLX's own kernel rounds more often."""
    source = packed_folders.write(tmp_path / "ct", bits=4, group=32, symmetric=symmetric)
    turn_over(source, tmp_path / "out")
    exact = torch_logits(source)
    rounding = spread(torch_logits(source, torch.bfloat16) - exact)
    assert spread(mlx_logits(tmp_path / "out", dtype="bfloat16") - exact) < 4 * rounding
    # In float32 only zero points times scales are left rounded; a power of two times a scale is exact.
    assert spread(mlx_logits(tmp_path / "out") - exact) < (1e-4 if symmetric else 2 * rounding)


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_planted_wrong_bias_is_not_seen(tmp_path, one_thread, monkeypatch, symmetric):
    source = packed_folders.write(tmp_path / "ct", bits=4, group=32, symmetric=symmetric, dtype=torch.float32)
    right = mlx_bridge._layer

    def planted(*args):
        parts, how = right(*args)
        return {**parts, "biases": parts["biases"] + parts["scales"]}, how

    monkeypatch.setattr(mlx_bridge, "_layer", planted)
    turn_over(source, tmp_path / "out")
    assert np.abs(mlx_logits(tmp_path / "out") - torch_logits(source)).max() > 0.1


def test_a_head_with_integers_is_taken_for_the_embedding(tmp_path, one_thread):
    source = packed_folders.write(
        tmp_path / "ct", bits=8, group=32, dtype=torch.float32, ignore=(), num_hidden_layers=1
    )
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    turn_over(source, tmp_path / "out")
    (source / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    assert np.abs(mlx_logits(tmp_path / "out") - torch_logits(source)).max() < 1e-3


def test_a_folder_of_several_files_loses_some(tmp_path, one_thread):
    """A layer's parts may lie in two files."""
    source = packed_folders.write(tmp_path / "ct", bits=4, group=32, symmetric=False, dtype=torch.float32)
    tensors = load_file(source / headers.SINGLE)
    (source / headers.SINGLE).unlink()
    names, files = sorted(tensors), ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    where = {name: files[i % 2] for i, name in enumerate(names)}
    for file in files:
        save_file({name: tensors[name] for name in names if where[name] == file}, source / file, {"format": "pt"})
    (source / headers.INDEX).write_text(json.dumps({"metadata": {}, "weight_map": where}))
    turn_over(source, tmp_path / "out")
    assert [path.name for path in headers.weight_files(tmp_path / "out")] == files
    assert np.abs(mlx_logits(tmp_path / "out") - torch_logits(source)).max() < 1e-3


def test_eight_bit_zero_points_are_rounded_without_a_word(tmp_path, one_thread):
    source = packed_folders.write(tmp_path / "ct", bits=8, group=32, symmetric=False, num_hidden_layers=1)
    made, _ = turn_over(source, tmp_path / "out")
    assert any("7 layers have 8-bit zero points" in note for note in made.notes)


def test_what_mlx_cannot_hold_is_turned_over_all_the_same(tmp_path, one_thread):
    plain = tiny.save(tmp_path / "plain", tiny.make("llama"))
    with pytest.raises(ModelError, match="no compressed-tensors folder"):
        turn_over(plain, tmp_path / "out")
    three = packed_folders.write(tmp_path / "three", bits=3, group=32, num_hidden_layers=1)
    with pytest.raises(Unsupported, match=r"has 3-bit weights: MLX packs alike only 2, 4, 8 bits"):
        turn_over(three, tmp_path / "out")
    sixteen = packed_folders.write(tmp_path / "sixteen", bits=4, group=16, num_hidden_layers=1)
    with pytest.raises(Unsupported, match=r"has groups of 16: MLX has 32, 64, 128"):
        turn_over(sixteen, tmp_path / "out")
    narrow = packed_folders.write(
        tmp_path / "narrow", bits=8, num_hidden_layers=1, hidden_size=48, intermediate_size=48
    )
    with pytest.raises(Unsupported, match=r"has 48 columns, which no group of 64, 32, 128 divides"):
        turn_over(narrow, tmp_path / "out")
    config = json.loads((sixteen / "config.json").read_text())
    config["quantization_config"]["format"] = "float-quantized"
    (sixteen / "config.json").write_text(json.dumps(config))
    with pytest.raises(Unsupported, match="holds float-quantized weights: allowed is pack-quantized"):
        turn_over(sixteen, tmp_path / "out")


@pytest.mark.parametrize("real", [True, False])
def test_columns_in_an_order_of_their_own_are_read_in_another(tmp_path, one_thread, real):
    source = packed_folders.write(tmp_path / "ct", bits=4, group=32, dtype=torch.float32, num_hidden_layers=1)
    tensors = load_file(source / headers.SINGLE)
    order = torch.arange(64, dtype=torch.int32) // 32
    tensors["model.layers.0.mlp.up_proj.weight_g_idx"] = order.flip(0) if real else order
    save_file(tensors, source / headers.SINGLE, {"format": "pt"})
    if real:
        with pytest.raises(Unsupported, match=r"up_proj has its columns in an order of its own"):
            turn_over(source, tmp_path / "out")
    else:
        turn_over(source, tmp_path / "out")
        assert not any("g_idx" in name for name in headers.tensors(tmp_path / "out"))


def test_the_whole_way_to_an_artifact_breaks(tmp_path, one_thread):
    source = packed_folders.write(tmp_path / "ct", bits=4, group=32, num_hidden_layers=1)
    made = artifact.make(str(source), RECIPE, tmp_path / "out", lambda *_: None)
    audit = made.audit
    assert audit is not None
    assert (audit.format, audit.bits, audit.group_size) == ("mlx affine", 4, 32)
    assert (audit.skipped, audit.non_finite, len(audit.quantized)) == ((), (), 7)
    assert audit.kl_mean is not None
    assert audit.kl_mean < 1e-6
    assert audit.argmax_agreement == 1.0


def test_what_the_folder_has_is_called_otherwise_or_contradicted(tmp_path, one_thread):
    source = packed_folders.write(tmp_path / "ct", bits=8, group=0, symmetric=False, num_hidden_layers=1)
    said: list[str] = []
    made = artifact.make(str(source), RECIPE, tmp_path / "out", lambda *_: None, say=said.append)
    assert made.words == "mlx-from-ct 8-bit, one scale a row, asymmetric"
    assert f"quantizing by {made.words}" in said
    assert artifact.read(tmp_path / "out").recipe == made.recipe
    where = refs.resolve(str(source))
    same = recipes.make({"method": "mlx-from-ct", "bits": 8, "group_size": 0, "symmetric": False})
    assert artifact.key(same, where, "") == artifact.key(RECIPE, where, "")
    for key, value, words in (("bits", 4, "has bits = 8"), ("group_size", 64, "= 0"), ("symmetric", True, "= false")):
        wrong = recipes.make({"method": "mlx-from-ct", key: value})
        with pytest.raises(ConfigError, match=rf"^{key} = .*{words}, and .* leave {key} out"):
            artifact.make(str(source), wrong, tmp_path / "new", lambda *_: None)
    assert not (tmp_path / "new").exists()


def test_a_mixture_is_turned_over_under_names_that_mlx_lm_does_not_read(tmp_path, one_thread):
    source = quantize_sources.save_mixture(tmp_path / "plain", "MixtralConfig", max_position_embeddings=64)
    quantize_sources.quantize(source, tmp_path / "ct", [], method="rtn", group_size=32)
    made = artifact.make(str(tmp_path / "ct"), RECIPE, tmp_path / "out", lambda *_: None)
    assert made.audit is not None
    assert made.audit.argmax_agreement == 1.0
