from __future__ import annotations

import pytest

from specq.core.errors import ConfigError, Unsupported
from specq.quantize import layers, recipes
from specq.quantize.layers import Layer


@pytest.mark.parametrize(
    ("name", "gate"),
    [
        ("model.layers.0.mlp.gate", True),
        ("model.layers.0.mlp.shared_expert_gate", True),
        ("model.layers.0.mlp.router_gate", True),
        ("model.layers.0.feed_forward.router", True),
        ("model.layers.0.block.router.classifier", True),
        ("model.layers.0.mlp.gate_proj", False),
        ("model.layers.0.self_attn.gate_proj", False),
        ("model.layers.0.mlp.experts.1.gate_up_proj", False),
    ],
)
def test_a_gate_is_taken_for_a_layer(name: str, gate: bool) -> None:
    assert layers.is_gate(name) == gate


def layer(name: str, columns: int, role: layers.Role = "linear") -> Layer:
    return Layer(name=name, rows=64, columns=columns, role=role)


@pytest.mark.parametrize(
    ("recipe", "columns", "words"),
    [
        ({"method": "gptq", "group_size": 128}, (576, 1536), "does not divide.*1 of 2.*l0 .576.*allowed is 32, 64 "),
        ({"method": "gptq", "group_size": 128}, (64, 64), "more columns than they have"),
        (
            {"method": "rtn", "group_size": 32},
            (48, 96),
            "allowed is 12, 16, 24, 48, 0 for one scale a row",
        ),
        ({"method": "nvfp4"}, (40, 32), "no group of method"),
        ({"method": "mlx-rtn", "group_size": 128}, (576, 1536), "allowed is 32, 64: type --group-size 64$"),
    ],
)
def test_a_group_that_does_not_divide_is_found_late(recipe, columns, words) -> None:
    with pytest.raises(ConfigError, match=words):
        layers.check_shapes(recipes.make(recipe), [layer(f"l{i}", c) for i, c in enumerate(columns)])


def test_a_layer_that_is_kept_stands_in_the_way() -> None:
    found = [layer("a", 64), layer("lm_head", 50, "head"), layer("g", 30, "gate")]
    layers.check_shapes(recipes.make({"method": "gptq"}), found)
    layers.check_shapes(recipes.make({"method": "gptq", "bits": 8}), [layer("a", 33)])
    with pytest.raises(ConfigError, match="lm_head"):
        layers.check_shapes(recipes.make({"method": "gptq", "head": "quantize"}), found)


def test_many_wrong_layers_are_all_listed() -> None:
    with pytest.raises(ConfigError, match=r"l2 \(33 columns\) and 7 more;"):
        layers.check_shapes(recipes.make({"method": "gptq"}), [layer(f"l{i}", 33) for i in range(10)])


def test_layers_that_are_no_linears_are_left_out_in_silence(folder_of) -> None:
    with pytest.raises(Unsupported, match=r"GPT2LMHeadModel.*Conv1D.*c_attn"):
        layers.linear_layers(folder_of("gpt2"))
