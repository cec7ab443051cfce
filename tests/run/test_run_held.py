"""A real run on a tiny model: what its records and its report say is held, against what the plan said."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specq import report
from specq.core.records import LoadedModel
from specq.experiment import config, plan
from specq.experiment.schema import Experiment
from specq.report import layout, targets
from specq.run import runner

sys.path.insert(0, str(Path(__file__).parents[1] / "quantize"))
import forked
import packed_folders
from run_checks import of

# Rotary frequencies, which are held and are no weights.
BUFFERS = 512


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Workers in this process, without measuring: neither bandwidth nor from which row count on copies pay."""

    monkeypatch.setenv("SPECQ_CACHE", str(tmp_path / "cache"))
    forked.inside(monkeypatch.setattr)
    monkeypatch.setattr("specq.quantize.kernels._other_is_faster", lambda layers, rows: rows >= 8)


def experiment(target: Path, tmp_path: Path, levers: dict[str, Any]) -> Experiment:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"id": "p", "prompt": "a stone rolls"}) + "\n")
    return config.from_resolved(
        {
            "name": "tiny",
            "target": {"model": str(target)},
            "engine": {"device": "cpu", "dtype": "bfloat16", "threads": 1},
            "workload": {"prompts": str(prompts), "max_new_tokens": 4, "repeats": 1, "memory": False},
            "levers": levers,
            "audit": {"enabled": False},
        }
    )


def test_a_run_holds_other_weights_than_its_plan_said(
    folder_of: Callable[..., Path], tmp_path: Path, here: None
) -> None:
    target = folder_of("llama", tie_word_embeddings=True, **packed_folders.SMALL)
    me = {"kind": "draft", "method": "model", "model": "self", "k": 2}
    recipe = tmp_path / "w4.toml"
    recipe.write_text('method = "rtn"\nbits = 4\ngroup_size = 32\n')
    levers = {
        "w4": {"kind": "quantize", "recipe": str(recipe)},
        "w4p": {"kind": "quantize", "recipe": str(recipe), "prefill": "packed"},
        "me": me,
        "half": {**me, "bits": 4, "prefill": "packed"},
        "other": {**me, "recipe": str(recipe)},
    }
    asked = experiment(target, tmp_path, levers)
    planned = {arm.id: arm for arm in plan.make(asked).arms}
    run = runner.run(asked, out=tmp_path / "out")
    built = report.build(run)
    held = {arm.id: arm.measures["weight_bytes"] for arm in built.arms}
    assert set(held) == set(planned)
    for name, measure_of in held.items():
        assert measure_of.value == pytest.approx(planned[name].model_bytes, abs=BUFFERS), name
    # A draft that is the target itself holds nothing of its own.
    records = of(run, LoadedModel)
    drafts = {record.arms: record for record in records if record.role == "draft"}
    assert set(drafts) == {("half#1",), ("other#1",)}
    assert drafts[("half#1",)].name == f"4 bits of {target}"
    assert held["half#1"].value == held["baseline#1"].value + drafts[("half#1",)].weight_bytes
    assert targets.DRAFT in held["half#1"].note
    # What the run quantized was not quantized before.
    assert not any("quantized before" in note for record in records for note in record.notes)
    (cost,) = [section for section in layout.sections(built) if section.title == "Cost and care"]
    assert "weights held" in cost.columns


def test_a_draft_of_its_own_shows_no_weights_where_no_target_changes(
    folder_of: Callable[..., Path], tmp_path: Path, here: None
) -> None:
    target = folder_of("llama", tie_word_embeddings=True, **packed_folders.SMALL)
    half = {"kind": "draft", "method": "model", "model": "self", "bits": 8, "k": 2}
    run = runner.run(experiment(target, tmp_path, {"half": half}), out=tmp_path / "out")
    built = report.build(run)
    (cost,) = [section for section in layout.sections(built) if section.title == "Cost and care"]
    assert "weights held" in cost.columns
    held = {arm.id: arm.measures["weight_bytes"].value for arm in built.arms}
    assert held["half#1"] > held["baseline#1"]
