"""Drafts of quantized targets, and recipes and caches of the two engines, as the plan sees them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from plan_models import WORDS, MakeModel

from specq.core.errors import ConfigError, ModelError, Unsupported, UserError
from specq.engines.base import Capabilities
from specq.experiment import config, plan
from specq.run import artifacts

EVERYTHING = Capabilities(
    rules=("rejection", "greedy_draft", "match", "block"),
    methods=("model", "lookup", "early_exit"),
    devices=("cpu",),
    step_traces=True,
    logprobs=True,
    batches=True,
)
W4 = 'method = "rtn"\nbits = 4\ngroup_size = 4\n'


def self_draft(**keys: Any) -> dict[str, Any]:
    return {"kind": "draft", "method": "model", "model": "self", "k": 2, **keys}


def make(folder: Path, levers: dict[str, Any], run: list[str], kind: str = "hf") -> plan.Plan:
    """The plan for a target folder and levers; levers of kind quantize are by the recipe beside the folder."""
    prompts = folder.parent / "prompts.jsonl"
    prompts.write_text(json.dumps({"id": "raw", "prompt": "one two three"}) + "\n")
    asked = config.from_resolved(
        {
            "name": "x",
            "target": {"model": str(folder)},
            "engine": {"kind": kind, "device": "cpu"},
            "workload": {"prompts": str(prompts), "max_new_tokens": 10},
            "levers": levers,
            "arms": {"run": run},
        }
    )
    return plan.make(asked, capabilities=EVERYTHING, available_bytes=1 << 30)


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
    assert arms["w4#1"].model_bytes != arms["baseline#1"].model_bytes
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


def test_scales_and_offsets_of_a_rounded_draft_take_no_memory(make_model: MakeModel) -> None:
    fine, coarse = (
        make(make_model(name), {"s": self_draft(bits=4, group_size=group)}, ["s"])
        for name, group in (("fine", 2), ("coarse", 4))
    )
    weights = coarse.models[0].facts.parameters - 8 * len(WORDS)
    assert fine.needed_bytes - coarse.needed_bytes == pytest.approx(weights * (4 / 2 - 4 / 4), abs=8)
