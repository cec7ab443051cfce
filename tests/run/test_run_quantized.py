"""Runs with recipes: what a resume compares, and what is left of a run that a mistake ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import run_fakes
from run_checks import assert_complete, only_run, want

from specq.core.errors import ModelError, RunFailed, RunFolderError
from specq.core.records import Divergence, FirstTokens, GapNoise, Generated, QuantizedModel, Record
from specq.experiment import config
from specq.run import artifacts, mend, runner
from specq.run.folder import Contents


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    run_fakes.patch_parent(monkeypatch.setattr)
    monkeypatch.delenv("FAKE", raising=False)


def made(label: str = "r.toml of m") -> QuantizedModel:
    return QuantizedModel(
        process=0, label=label, folder="f", key="aa", seconds=1.0, peak_bytes=1, recipe={}, audit=None, notes=()
    )


def test_a_mistake_after_quantizing_leaves_half_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[Record] = [made()]

    def breaks(store: Any, task: Any, on_event: Any) -> None:
        for record in records:
            store.append(record)
        raise ModelError("the draft cannot be loaded")

    monkeypatch.setattr(runner, "run_worker", breaks)
    with pytest.raises(ModelError):
        runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out")
    assert not list((tmp_path / "out").glob("*/*"))
    records.append(GapNoise(prompt="p0", rows=5, positions=1, ties=0, moves=(0.1,)))
    with pytest.raises(ModelError):
        runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out")
    assert only_run(tmp_path / "out").is_dir()


def test_a_recipe_that_changed_since_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"r.toml of m": "aa", "s.toml of m": "cc"}
    monkeypatch.setattr(artifacts, "keys", lambda experiment: dict(now))
    want(monkeypatch, kill_after=4)
    with pytest.raises(RunFailed):
        runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out")
    want(monkeypatch)
    run = only_run(tmp_path / "out")
    assert json.loads((run / "run.json").read_text())["quantized"] == now
    now["s.toml of m"] = "dd"
    with pytest.raises(RunFolderError, match=r"the quantizer that makes s\.toml of m; put it back"):
        runner.run(None, resume=run)
    now["s.toml of m"] = "cc"
    runner.run(None, resume=run)
    assert_complete(run)


def test_a_key_stays_when_the_recipe_changes(tmp_path: Path, folder_of: Callable[..., Path]) -> None:
    model, recipe = str(folder_of("llama")), tmp_path / "recipe.toml"
    quantize = {"kind": "quantize", "recipe": str(recipe)}
    again = {"kind": "draft", "method": "model", "model": "self", "recipe": str(recipe)}
    asked = config.from_resolved(
        {
            "name": "x",
            "target": {"model": model},
            "workload": {"prompts": "p.jsonl"},
            "levers": {"w": quantize, "d": again},
        }
    )
    found = []
    for bits in (4, 3, 4):
        recipe.write_text(f'method = "rtn"\nbits = {bits}\n')
        found.append(artifacts.keys(asked))
    assert list(found[0]) == [artifacts.label(model, str(recipe))]
    assert found[0] == found[2] != found[1]


def answer(prompt: str) -> Generated:
    return Generated(
        process=0,
        arm="baseline#1",
        prompt=prompt,
        repeat=0,
        order=0,
        prompt_tokens=1,
        new_tokens=1,
        finish="length",
        ttft_s=0.1,
        e2e_s=0.1,
        rule=None,
        steps=(),
        past_stop=0,
        repeated_share=0.0,
        prompt_sha256="",
        output_sha256="",
    )


def test_audits_of_a_lost_answer_stay() -> None:
    def audits(prompt: str) -> list[Record]:
        return [
            Divergence(arm="w#1", prompt=prompt, positions=1, kl_sum=0.0, kl_worst=0.0, agreed=1),
            FirstTokens(arm="w#1", prompt=prompt, draws=1, cells=(1, -1), counts=(1, 0), expected=(1.0, 0.0)),
        ]

    lost = Contents(records=(made(), answer("p"), *audits("p"), *audits("other")), outputs=(), torn={}, done=None)
    assert mend.mended(lost)[0] == [made(), *audits("other")]


def test_a_method_without_layers_counts_one_and_no_time_is_left() -> None:
    assert artifacts.words(1, 1, 0.0) == "rounded"
    assert artifacts.words(0, 30, None) == "layer 0 of 30"
    assert artifacts.words(3, 30, 27.4) == "layer 3 of 30, about 27 s left"
    assert artifacts.words(30, 30, 0.0) == "layer 30 of 30"
