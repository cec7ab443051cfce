"""Where mlx-lm writes garbage, skips or guesses without a word: mended, said or refused."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import numpy as np
import pytest
import quantize_sources as sources
import torch
from mlx_folders import TEXTS, config, logits, packed, quantize, recipe

import tiny_models as tiny
from specq.core.errors import ConfigError, RunFailed, Unsupported
from specq.models import headers, refs
from specq.quantize import layers, mlx, mlx_methods, recipes


@pytest.fixture(scope="module")
def source(tmp_path_factory, one_thread):
    folder = tmp_path_factory.mktemp("mlx") / "source"
    return tiny.save(folder, tiny.make("llama", **sources.WIDE, num_hidden_layers=2), dtype=torch.bfloat16)


def test_gptq_on_bfloat16_sums_is_taken_for_gptq(source, tmp_path, monkeypatch):
    """Products of one repeated token, rounded to bfloat16, are no Hessian; in float32 they are one."""
    same = [[5] * 64] * 4
    assert quantize(source, tmp_path / "right", "mlx-gptq", texts=same).fallen_back == ()

    @contextmanager
    def planted(model):
        yield

    monkeypatch.setattr(mlx_methods, "_in_float32", planted)
    made = quantize(source, tmp_path / "planted", "mlx-gptq", texts=same)
    assert any("not positive definite" in why for _, why in made.fallen_back)


def test_a_layer_without_a_hessian_stops_the_work(tmp_path, monkeypatch, one_thread):
    """A norm of zeros feeds two layers nothing: they are rounded to nearest, and listed."""
    model = tiny.make("llama", **sources.WIDE, num_hidden_layers=1)
    model.model.layers[0].post_attention_layernorm.weight.data.zero_()
    source = tiny.save(tmp_path / "source", model)
    dead = [f"model.layers.0.mlp.{name}_proj" for name in ("gate", "up", "down")]
    made = quantize(source, tmp_path / "gptq", "mlx-gptq")
    assert sorted(name for name, _ in made.fallen_back) == sorted(dead)
    quantize(source, tmp_path / "rtn")
    from safetensors.torch import load_file

    mine, nearest = (load_file(tmp_path / name / headers.SINGLE) for name in ("gptq", "rtn"))
    for name in dead:
        assert torch.equal(mine[f"{name}.weight"].view(torch.int32), nearest[f"{name}.weight"].view(torch.int32))
    monkeypatch.setattr(mlx_methods, "_is_positive", lambda hessian: True)
    with pytest.raises(RunFailed, match="could not quantize"):
        quantize(source, tmp_path / "planted", "mlx-gptq")


def test_values_that_are_not_finite_are_written(source, tmp_path, monkeypatch):
    import mlx.core as mx

    right = mlx_methods.round_to_nearest

    def planted(model, recipe, roles):
        right(model, recipe, roles)
        layer = model.model.layers[1].self_attn.k_proj
        layer.scales = layer.scales * mx.array(float("inf"))

    monkeypatch.setattr(mlx_methods, "round_to_nearest", planted)
    with pytest.raises(RunFailed, match=r"first: model\.layers\.1\.self_attn\.k_proj\.scales"):
        quantize(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("method", ["mlx-rtn", "mlx-gptq", "mlx-mixed"])
def test_layers_that_do_not_divide_stay_in_floats_without_a_word(tmp_path, one_thread, method):
    odd = tiny.make("llama", hidden_size=64, intermediate_size=80, num_hidden_layers=1)
    source = tiny.save(tmp_path / "source", odd, dtype=torch.bfloat16)
    made = quantize(source, tmp_path / "out", method)
    assert "model.layers.0.mlp.down_proj" not in packed(tmp_path / "out")
    assert any("1 of 7 layers stay in floats" in n and "model.layers.0.mlp.down_proj" in n for n in made.notes)


def test_awq_stops_in_the_middle_at_a_layer_that_does_not_divide(tmp_path, one_thread):
    odd = tiny.make("llama", hidden_size=64, intermediate_size=80, num_hidden_layers=1)
    source = tiny.save(tmp_path / "source", odd, dtype=torch.bfloat16)
    with pytest.raises(ConfigError, match=r"group_size = 32 .* \(first: model\.layers\.0\.mlp\.down_proj\)"):
        quantize(source, tmp_path / "out", "mlx-awq")


def test_a_mixture_of_bits_loses_its_group_or_its_second_width(source, tmp_path):
    chosen = recipes.make({"method": "mlx-mixed", "mix": "mixed_3_6"})
    mlx.quantize(refs.resolve(str(source)), recipe("mlx-mixed", mix="mixed_3_6"), [], tmp_path / "out", lambda *_: None)
    said = config(tmp_path / "out")["quantization"]
    assert (said["bits"], said["group_size"], said["mode"]) == (chosen.bits, 32, "affine")
    ours = [how for how in said.values() if isinstance(how, dict)]
    assert ours
    assert all(how == {"group_size": 32, "bits": 6, "mode": "affine"} for how in ours)
    mlx.load("out", tmp_path / "out")


def test_awq_guesses_at_an_architecture_that_it_does_not_know(tmp_path, one_thread):
    folder = sources.save_mixture(tmp_path / "source", "MixtralConfig")
    with pytest.raises(Unsupported, match=r"AWQ does not know which layers of a mixtral model"):
        quantize(folder, tmp_path / "out", "mlx-awq")
    with pytest.raises(Unsupported, match="no model of the model_type 'opt'"):
        mlx.check(recipe("mlx-rtn"), {"model_type": "opt"})


@pytest.mark.parametrize("method", ["mlx-rtn", "mlx-gptq"])
def test_a_router_gate_is_quantized(tmp_path, one_thread, method):
    folder = sources.save_mixture(tmp_path / "source", "MixtralConfig")
    made = quantize(folder, tmp_path / "out", method)
    found = packed(tmp_path / "out")
    assert any("switch_mlp" in name for name in found)
    assert not any(name.endswith("gate") for name in found)
    assert made.notes == ()


def test_a_block_that_awq_does_not_help_is_not_told(source, tmp_path, monkeypatch):
    """mlx-lm says so beside its progress bar only."""
    from mlx_lm.quant import awq

    right = awq.mse
    # Every block's error after scaling looks larger than before.
    seen = []

    def planted(x, y):
        seen.append(None)
        return right(x, y) + len(seen)

    monkeypatch.setattr(awq, "mse", planted)
    made = quantize(source, tmp_path / "out", "mlx-awq")
    asked = [layer.name for layer in layers.asked(recipe("mlx-awq"), layers.linear_layers(source))]
    assert sorted(name for name, _ in made.fallen_back) == sorted(asked)


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_the_base_of_positions_is_lost_on_the_way_to_mlx(tmp_path, one_thread, kind, monkeypatch):
    """transformers 5 writes it where mlx-lm does not look; both, the folder and its quantized twin, must have it."""
    rope = {"rope_theta": 123.0, "rope_type": "default"}
    model = tiny.make(kind, **sources.WIDE, num_hidden_layers=1, rope_parameters=rope)
    source = tiny.save(tmp_path / "source", model)
    assert "rope_theta" not in config(source)
    ids = TEXTS[0]
    wanted = sources.logits(model, ids).numpy()
    assert np.abs(logits(mlx.load("source", source), ids) - wanted).max() < 1e-3
    quantize(source, tmp_path / "out", bits=8)
    from mlx_lm.utils import load_model

    plain, _ = load_model(tmp_path / "out")
    near = np.abs(logits(plain, ids) - wanted).max()
    monkeypatch.setattr(mlx, "in_its_words", lambda *_: {})
    far = np.abs(logits(mlx.load("source", source), ids) - wanted).max()
    assert near < 0.3 < far


def test_scaled_positions_and_untold_tying_are_lost():
    llama3 = {"rope_theta": 5e5, "rope_type": "llama3", "factor": 8.0}
    said = mlx.in_its_words({"rope_parameters": llama3}, ["lm_head.weight"])
    assert said == {
        "rope_theta": 5e5,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0},
        "tie_word_embeddings": False,
    }
    kinds = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    said = mlx.in_its_words({"rope_parameters": kinds, "tie_word_embeddings": True}, [])
    assert said == {"rope_theta": 1e6, "rope_local_base_freq": 1e4}
    assert mlx.in_its_words({"rope_theta": 7.0, "rope_parameters": {"rope_theta": 8.0}}, []) == {
        "tie_word_embeddings": True
    }


def test_a_machine_without_mlx_gets_a_traceback(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlx_lm", None)
    with pytest.raises(Unsupported, match=r"mlx cannot be imported here .*: type: pip install"):
        mlx.check(recipe("mlx-rtn"), {"model_type": "llama"})
