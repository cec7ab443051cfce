"""Which runs are marked stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specq.cli import output, views
from specq.core import hashes
from specq.experiment import config
from specq.models import facts
from specq.run import catalog, inputs, stale
from specq.run.provenance import hide_home, package_versions

TOML = """
question = "which?"
[target]
model = "m"
[engine]
dtype = "float32"
[workload]
prompts = "p.jsonl"
[levers.w8]
kind = "quantize"
model = "w8"
[levers.q8]
kind = "kv_cache"
type = "q8"
"""


@pytest.fixture
def info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The run.json of a run whose every input lies in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("e.toml").write_text(TOML, encoding="utf-8")
    Path("p.jsonl").write_text('{"id": "a", "prompt": "b"}\n', encoding="utf-8")
    Path("m").mkdir()
    Path("m/config.json").write_text("{}", encoding="utf-8")
    Path("m/model.safetensors").write_bytes(b"weights")
    experiment = config.load(Path("e.toml"), ("workload.limit=3",))
    return {
        "config": hide_home(experiment.resolved()),
        "origin": inputs.origin(experiment),
        "data": {"prompts": "p.jsonl", "sha256": hashes.of_file(Path("p.jsonl"))},
        "models": {"target m": {"folder": "m", "weights_sha256": facts.hash_of_weights(Path("m"))}},
        "provenance": {"packages": package_versions()},
    }


def test_a_run_that_rests_on_what_it_did_is_stale(info: dict[str, Any]) -> None:
    assert stale.reasons(info) == ()
    assert info["origin"] == {"file": "e.toml", "set": ["workload.limit=3"], "smoke": False}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('model = "m"', 'model = "n"', 'e.toml: target.model: "m" -> "n"'),
        ('"float32"', '"bfloat16"', 'e.toml: engine.dtype: "float32" -> "bfloat16"'),
        ('"q8"', '"q4"', 'e.toml: levers.q8.type: "q8" -> "q4"'),
        ('model = "w8"', 'model = "w4"', 'e.toml: levers.w8.model: "w8" -> "w4"'),
        ("[workload]", "[price]\nper_hour = 2.5\n[workload]", "e.toml: price: null -> "),
        ("[workload]", "[worklod]", "e.toml is not the experiment that it was: "),
    ],
)
def test_a_setting_changes_unseen(info: dict[str, Any], old: str, new: str, told: str) -> None:
    Path("e.toml").write_text(TOML.replace(old, new), encoding="utf-8")
    (found,) = stale.reasons(info)
    assert found.startswith(told)


def test_words_for_the_reader_make_a_run_stale(info: dict[str, Any]) -> None:
    Path("e.toml").write_text(TOML.replace("which?", "which one?"), encoding="utf-8")
    assert stale.reasons(info) == ()


def test_prompts_weights_or_packages_change_unseen(info: dict[str, Any]) -> None:
    Path("p.jsonl").write_text('{"id": "a", "prompt": "c"}\n', encoding="utf-8")
    Path("m/model.safetensors").write_bytes(b"other weights")
    info["provenance"]["packages"] = {**package_versions(), "torch": "1.0"}
    prompts, weights, packages = stale.reasons(info)
    assert prompts == "the prompts in p.jsonl"
    assert weights == "the weights of target m"
    assert packages == f"torch 1.0 -> {package_versions()['torch']}"


def test_a_gguf_file_that_changes_is_not_seen(info: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "w.gguf"
    file.write_bytes(b"GGUF of four bits")
    known = stale.weights(["w.gguf", str(file), "none.gguf"])
    assert known == {"w.gguf": {"file": "w.gguf", "weights_sha256": hashes.of_file(file)}}
    info["models"] |= known
    assert stale.reasons(info) == ()
    file.write_bytes(b"GGUF of five bits")
    assert stale.reasons(info) == ("the weights of w.gguf",)
    file.unlink()
    assert stale.reasons(info) == ()


def test_what_is_not_here_makes_a_run_stale(
    info: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert stale.reasons(info) == ()


def test_a_run_of_an_older_version_is_refused(info: dict[str, Any]) -> None:
    assert stale.reasons({"config": info["config"]}) == ()


def test_an_experiment_made_in_python_is_compared_with_a_file(info: dict[str, Any]) -> None:
    made = config.from_resolved(config.load(Path("e.toml")).resolved())
    assert made.origin is None
    assert inputs.origin(made) is None
    assert stale.reasons({**info, "origin": None}) == ()


def test_the_list_hides_what_changed(info: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("r1", "r2"):
        folder = Path("results/e") / name
        folder.mkdir(parents=True)
        told = {**info, "created": "20261130T210446Z", "experiment": "e", "question": "which?"}
        (folder / "run.json").write_text(json.dumps(told), encoding="utf-8")
    Path("p.jsonl").write_text("", encoding="utf-8")
    found = catalog.list_runs(Path("results"))
    assert [one.stale for one in found] == [("the prompts in p.jsonl",)] * 2
    output.show(views.runs(found, Path("results")))
    shown = capsys.readouterr().out
    assert shown.count("unfinished, stale") == 2
    assert "stale: r1, r2: changed since: the prompts in p.jsonl" in shown
