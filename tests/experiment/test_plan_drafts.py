"""Drafts of quantized targets, and recipes and caches of the two engines, as the plan sees them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plan_models import MakeModel
from safetensors.numpy import load_file, save_file

from specq.cli import views
from specq.core.errors import ConfigError, ModelError, Unsupported, UserError
from specq.core.types import RULES
from specq.engines.base import Capabilities
from specq.experiment import config, plan
from specq.models import refs
from specq.run import artifacts

EVERYTHING = Capabilities(
    rules=("rejection", "greedy_draft", "match", "block"),
    methods=("model", "lookup", "early_exit"),
    devices=("cpu",),
    step_traces=True,
    logprobs=True,
    batches=True,
)
MLX = replace(EVERYTHING, rules=("match",), methods=("model",))
W4 = 'method = "rtn"\nbits = 4\ngroup_size = 4\n'


def self_draft(**keys: Any) -> dict[str, Any]:
    return {"kind": "draft", "method": "model", "model": "self", "k": 2, **keys}


def make(
    folder: Path,
    levers: dict[str, Any],
    run: list[str],
    kind: str = "hf",
    dtype: str = "auto",
    able: Capabilities = EVERYTHING,
) -> plan.Plan:
    """The plan for a target folder and levers; levers of kind quantize are by the recipe beside the folder."""
    prompts = folder.parent / "prompts.jsonl"
    prompts.write_text(json.dumps({"id": "raw", "prompt": "one two three"}) + "\n")
    asked = config.from_resolved(
        {
            "name": "x",
            "target": {"model": str(folder)},
            "engine": {"kind": kind, "device": "cpu", "dtype": dtype},
            "workload": {"prompts": str(prompts), "max_new_tokens": 10},
            "levers": levers,
            "arms": {"run": run},
        }
    )
    return plan.make(asked, capabilities=able, available_bytes=1 << 30)


def recipe(tmp_path: Path, text: str = W4) -> str:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return str(path)


def told(made: plan.Plan) -> list[tuple[str | None, type[UserError]]]:
    return [(refusal.arm, refusal.error) for refusal in made.refusals]


def test_bits_on_a_quantized_target_pass_the_plan(make_model: MakeModel, tmp_path: Path) -> None:
    levers = {"w4": {"kind": "quantize", "recipe": recipe(tmp_path)}, "self8": self_draft(bits=8)}
    made = make(make_model(), levers, ["self8", "w4 + self8"])
    assert told(made) == [("self8+w4#1", ModelError)]
    assert "is quantized already" in made.refusals[0].reason


def test_self_on_a_quantized_target_is_counted_as_the_target_in_floats(make_model: MakeModel, tmp_path: Path) -> None:
    levers = {
        "w4": {"kind": "quantize", "recipe": recipe(tmp_path), "prefill": "packed"},
        "me": self_draft(),
        "made": self_draft(recipe=recipe(tmp_path), prefill="packed"),
    }
    made = make(make_model(), levers, ["me", "w4 + me", "w4 + made"])
    made.check()
    arms = {arm.id: arm for arm in made.arms}
    # Groups of 4 have no kernel, so the layers are as dense as before.
    assert arms["w4#1"].model_bytes == arms["baseline#1"].model_bytes
    assert arms["w4#1"].no_kernel
    assert not arms["baseline#1"].no_kernel
    assert arms["me+w4#1"].model_bytes == arms["w4#1"].model_bytes
    assert arms["me+w4#1"].bytes_per_step == 3 * arms["w4#1"].bytes_per_step
    assert arms["me#1"].model_bytes == arms["baseline#1"].model_bytes
    # A recipe of "self" quantizes the experiment's target, here as in the run that makes it.
    assert arms["made+w4#1"].model_bytes == 2 * arms["w4#1"].model_bytes
    (one,) = artifacts.wanted(made.experiment)
    assert one.model == made.experiment.target.model


def test_a_recipe_of_self_is_applied_to_a_target_that_is_quantized_already(
    make_model: MakeModel, tmp_path: Path
) -> None:
    folder = make_model("packed")
    settings = json.loads((folder / "config.json").read_text())
    given = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {}}
    (folder / "config.json").write_text(json.dumps({**settings, "quantization_config": given}))
    levers = {
        "q": {"kind": "quantize", "model": str(folder)},
        "made": self_draft(recipe=recipe(tmp_path)),
        "self8": self_draft(bits=8),
    }
    made = make(make_model(), levers, ["q + made", "q + self8"])
    assert told(made) == [("q+self8#1", ModelError)]


def test_a_group_of_a_self_draft_is_found_wrong_only_after_loading(make_model: MakeModel) -> None:
    made = make(make_model(), {"s": self_draft(bits=4, group_size=48)}, ["s"])
    assert told(made) == [("s#1", ConfigError)]
    assert "group_size = 48 is more columns than they have" in made.refusals[0].reason


@pytest.mark.parametrize(
    ("kind", "text", "reader"),
    [("mlx", W4, "hf"), ("hf", 'method = "mlx-rtn"\n', "mlx"), ("hf", 'method = "mlx-from-ct"\n', "mlx")],
)
def test_a_recipe_of_the_other_engine_passes_the_plan(
    make_model: MakeModel, tmp_path: Path, kind: str, text: str, reader: str
) -> None:
    levers = {"w": {"kind": "quantize", "recipe": recipe(tmp_path, text)}}
    made = make(make_model(), levers, ["w"], kind)
    assert told(made) == [("w#1", ModelError)]
    assert f'that engine kind "{reader}" reads, not "{kind}"' in made.refusals[0].reason


def test_a_cache_that_mlx_cannot_quantize_passes_the_plan(make_model: MakeModel) -> None:
    folder = make_model()
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "rms_norm_eps": 1e-5}))
    made = make(folder, {"q8": {"kind": "kv_cache", "type": "q8"}}, ["q8"], "mlx")
    assert told(made) == [("q8#1", Unsupported)]
    assert "have 4 columns, which no group of 32, 64 or 128 divides" in made.refusals[0].reason


def test_a_rounded_self_draft_of_mlx_passes_the_plan_with_groups_that_do_not_divide(make_model: MakeModel) -> None:
    """8 bits say 0, one scale a row, which mlx reads as its own groups of 64."""
    made = make(make_model(), {"s": self_draft(bits=8)}, ["s"], "mlx")
    assert told(made) == [("s#1", ConfigError)]
    assert "group_size = 64 is more columns than they have" in made.refusals[0].reason


@pytest.mark.parametrize("bits", [4, 8])
def test_a_draft_flattered_by_an_earlier_quantization_goes_unsaid(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch, bits: int
) -> None:
    read: list[str] = []

    def found(folder: Path, names: Sequence[str]) -> str:
        read.extend(names)
        return "weights lie on a 4-bit grid"

    monkeypatch.setattr("specq.quantize.grid.source_grid", found)
    made = make(make_model(), {"s": self_draft(bits=bits, group_size=4 if bits == 4 else None)}, ["s"])
    assert any("the target's own weights lie on a 4-bit grid: a 4-bit draft" in note for note in made.notes) == (
        bits == 4
    )
    assert ("model.layers.0.self_attn.q_proj.weight" in read) == (bits == 4)


def test_scales_and_offsets_of_a_rounded_draft_take_no_memory(folder_of: Callable[..., Path]) -> None:
    folder = folder_of("llama", hidden_size=64, intermediate_size=128, num_hidden_layers=2)
    fine, coarse = (
        make(folder, {"s": self_draft(bits=4, group_size=group, prefill="packed")}, ["s"], dtype="bfloat16")
        for group in (32, 64)
    )
    weights = sum(layer.weights for layer in coarse.models[0].weights.contents.of("linear"))
    assert coarse.models[1].weight_bytes == weights // 2 + weights // 64 * 4
    assert fine.needed_bytes - coarse.needed_bytes == weights // 32 * 4 - weights // 64 * 4


def test_a_rule_that_mlx_lacks_is_refused_without_a_word_to_type(make_model: MakeModel) -> None:
    made = make(make_model(), {"me": self_draft()}, ["me"], "mlx", able=MLX)
    assert told(made) == [("me#1", Unsupported)]
    assert 'rule = "rejection": engine kind "mlx" allows match; type --set levers.me.rule=match' in str(
        made.refusals[0].reason
    )
    # What it says to type is heard.
    make(make_model("other"), {"me": self_draft(rule="match")}, ["me"], "mlx", able=MLX).check()


def test_a_lossy_rule_reaches_mlx_or_the_word_to_type_keeps_its_threshold(make_model: MakeModel) -> None:
    lossy = self_draft(rule="lossy_threshold", threshold=0.3)
    made = make(make_model(), {"me": lossy}, ["me"], "mlx", able=MLX)
    assert told(made) == [("me#1", Unsupported)]
    assert str(made.refusals[0].reason) == (
        'rule = "lossy_threshold": engine kind "mlx" allows match; type --set levers.me.rule=match and take its '
        "threshold out"
    )


def test_two_thresholds_on_one_draft_take_the_memory_of_two_drafts(make_model: MakeModel) -> None:
    able = replace(EVERYTHING, rules=RULES)
    folder, small = make_model(), make_model("small", layers=2)
    of_small = {"kind": "draft", "method": "model", "model": str(small), "rule": "lossy_threshold"}
    levers = {f"t{n}": {**of_small, "threshold": n / 10} for n in (3, 5)}
    one, two = (make(folder, levers, run, able=able) for run in (["t3"], ["t3", "t5"]))
    assert len(one.models) == len(two.models) == 2
    assert one.needed_bytes == two.needed_bytes


def test_the_plan_hides_that_a_rule_is_lossy(make_model: MakeModel) -> None:
    levers = {"fast": self_draft(rule="lossy_threshold", threshold=0.3)}
    made = make(make_model(), levers, ["fast"], able=replace(EVERYTHING, rules=RULES))
    made.check()
    (table,) = (part for part in views.plan(made.to_json()) if "ceiling, tokens/s" in getattr(part, "columns", ()))
    row = next(row for row in table.rows if row[0] == "fast#1")
    assert row[2] == "model self, k = 2, lossy_threshold 0.3"


def test_an_arm_that_is_refused_has_sizes_and_a_ceiling(make_model: MakeModel) -> None:
    small = {"kind": "draft", "method": "model", "model": str(make_model("small", context=12)), "k": 2}
    early = {"kind": "draft", "method": "early_exit", "layers": 9}
    lookup = {"kind": "draft", "method": "lookup"}
    made = make(make_model(), {"early": early, "small": small, "lookup": lookup}, ["each"])
    arms = {arm.id: arm for arm in made.arms}
    for name in ("early#1", "small#1"):
        assert arms[name].refused
        assert (arms[name].model_bytes, arms[name].cache_bytes, arms[name].bytes_per_step) == (None, None, None)
    assert not arms["lookup#1"].refused
    assert arms["lookup#1"].bytes_per_step
    # Nor is its model counted among those that the run loads.
    assert [model.role for model in made.models] == ["target"]


def test_a_refusal_names_a_folder_in_the_cache(make_model: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_model()
    tensors = load_file(folder / "model.safetensors")
    tensors.pop("model.layers.1.mlp.down_proj.weight")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    # A folder that the user gave stays as it was given.
    assert f"{folder} lacks 1 of the weights" in make(folder, {}, []).refusals[0].reason
    cached = replace(refs.resolve(str(folder)), name="builtin:tiny", kind="builtin")
    monkeypatch.setattr(refs, "resolve", lambda name, **_: cached)
    (refusal,) = make(folder, {}, []).refusals
    assert refusal.reason.startswith("builtin:tiny lacks 1 of the weights")
    assert str(folder) not in refusal.reason
