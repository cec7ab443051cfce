"""Levers of two kinds in one arm, in a whole run on tiny models: each does its part, and each is held to its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiny_models
from specq import report
from specq.core import hashes
from specq.core.records import Audited, EvalAnswer, EvalProof, Failed, Generated, LoadedModel
from specq.experiment import config
from specq.models import refs, tokenizers
from specq.run import runner

sys.path.insert(0, str(Path(__file__).parents[1] / "quantize"))
import forked
import packed_folders
from run_checks import of

SAID = "so it goes, so it goes and so on."
TWICE = f"{SAID}\n\none two.\n\n{SAID}\n\nthree?"
ONCE = f"{SAID}\n\none two.\n\nthree?"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPECQ_CACHE", str(tmp_path / "cache"))
    forked.inside(monkeypatch.setattr)


def ran(target: Path, where: Path, levers: dict[str, Any], run: list[str]) -> tuple[Path, report.Report]:
    (where / "prompts.jsonl").write_text(
        "".join(json.dumps({"id": f"p{n}", "prompt": f"{TWICE}{n}"}) + "\n" for n in range(2))
    )
    (where / "items.jsonl").write_text(
        "".join(json.dumps({"id": f"i{n}", "prompt": f"{TWICE}{n}", "reference": "a"}) + "\n" for n in range(3))
    )
    values = {
        "name": "tiny",
        "target": {"model": str(target)},
        "engine": {"device": "cpu", "dtype": "float32", "threads": 1},
        "workload": {"prompts": str(where / "prompts.jsonl"), "max_new_tokens": 4, "repeats": 1, "memory": False},
        "levers": {"tidy": {"kind": "prompt"}, "warm": {"kind": "prefix_cache"}, **levers},
        "arms": {"run": run},
        "evals": [
            {
                "name": "set",
                "items": str(where / "items.jsonl"),
                "metric": "contains",
                "max_new_tokens": 4,
                "probe": 0.0,
            }
        ],
    }
    made = runner.run(config.from_resolved(values), out=where / "out")
    assert not of(made, Failed)
    found = report.build(made)
    assert [arm.faults for arm in found.arms] == [()] * len(found.arms)
    return made, found


def read(run: Path, arm: str) -> dict[str, Generated]:
    return {r.prompt: r for r in of(run, Generated) if r.arm == arm}


@pytest.mark.usefixtures("here")
def test_fewer_tokens_before_quantized_weights_leave_one_of_them_out(
    folder_of: Callable[..., Path], tmp_path: Path
) -> None:
    target = folder_of("llama", tie_word_embeddings=True, **packed_folders.SMALL)
    recipe = tmp_path / "w4.toml"
    recipe.write_text('method = "rtn"\nbits = 4\ngroup_size = 32\n')
    w4 = {"kind": "quantize", "recipe": str(recipe)}
    run, found = ran(target, tmp_path, {"w4": w4}, ["w4", "tidy + w4", "tidy + w4 + warm"])
    tokens = {arm: read(run, arm)["p0"].prompt_tokens for arm in ("baseline#1", "w4#1", "tidy+w4#1")}
    assert tokens["baseline#1"] == tokens["w4#1"] > tokens["tidy+w4#1"]
    held = {arm for r in of(run, LoadedModel) if r.role == "target" and str(recipe) in r.name for arm in r.arms}
    assert held == {"w4#1", "tidy+w4#1", "tidy+w4+warm#1"}
    # What is kept of a prompt is held against the same weights and the same shorter prompts.
    warm, cold = read(run, "tidy+w4+warm#1"), read(run, "tidy+w4#1")
    assert {r.arm for r in of(run, Audited)} == {"baseline#2", "tidy+w4+warm#1"}
    assert [warm[prompt].output_sha256 for prompt in cold] == [cold[prompt].output_sha256 for prompt in cold]
    assert (warm["p1"].cached_tokens or 0) > len(SAID)
    assert {(r.arm, r.holds) for r in of(run, EvalProof)} == {("tidy+w4+warm#1", True)}
    asked = {r.arm: r.prompt_tokens for r in of(run, EvalAnswer) if r.item == "i0"}
    assert asked["w4#1"] == asked["baseline#1"] > asked["tidy+w4#1"]
    arm = found.arm("tidy+w4#1")
    assert arm.audit.status == "changed"
    assert arm.measures["transform_s"].value > 0
    assert {one.arm: one.kinds for one in found.levers}["tidy+w4#1"] == ("quantize", "prompt")
    assert any("tidy + w4 touches the tokens that prefill reads" in line for line in found.binding)


@pytest.mark.usefixtures("here")
def test_fewer_tokens_for_another_model_are_counted_by_the_targets_tokenizer(
    folder_of: Callable[..., Path], tmp_path: Path
) -> None:
    made = tiny_models.make("llama", seed=5, num_hidden_layers=1)
    small = tiny_models.save(tmp_path / "small", made)
    # Another template, so that it reads other tokens of the same prompts.
    (small / "chat_template.jinja").write_text("{{ messages[0]['content'] }}!")
    lever = {"small": {"kind": "model", "model": str(small)}}
    run, found = ran(folder_of("llama"), tmp_path, lever, ["small", "small + tidy", "small + tidy + warm"])
    own = tokenizers.load(refs.resolve(str(small)))
    told = read(run, "small+tidy#1")["p0"]
    assert told.prompt_sha256 == hashes.of_ids(own(f"{ONCE}0")["input_ids"])
    assert told.prompt_tokens_before == len(own(f"{TWICE}0")["input_ids"])
    names = {(r.name, arm) for r in of(run, LoadedModel) if r.role == "target" for arm in r.arms}
    assert {(str(small), arm) for arm in ("small#1", "small+tidy#1", "small+tidy+warm#1")} <= names
    assert (read(run, "small+tidy+warm#1")["p1"].cached_tokens or 0) > len(SAID)
    assert {(r.arm, r.holds) for r in of(run, EvalProof)} == {("small+tidy+warm#1", True)}
    assert found.arm("small+tidy+warm#1").audit.against == "small + tidy"
    asked = {r.arm: r.prompt_tokens for r in of(run, EvalAnswer) if r.item == "i0"}
    assert asked["small#1"] > asked["small+tidy#1"]
    assert {one.arm: one.kinds for one in found.levers}["small+tidy#1"] == ("model", "prompt")
