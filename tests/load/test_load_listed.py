"""Load runs beside others: listed with what has changed since, shown, and derived anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from load_runs import prompts
from load_servers import experiment, loaded, served_stubs

from specq import cli
from specq.engines.served import stub
from specq.load.running import measure_load


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specq.load.charts.pictures", lambda found: ())
    monkeypatch.setattr("specq.load.here.measured", lambda files, asked, say: files)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """A run on a stub."""
    body = {"stub": {"tokens": 4}}
    with stub.started() as (url, _):
        yield measure_load(
            url, prompts(tmp_path), concurrency=[1], requests=4, model="m", body=body, out=tmp_path / "out"
        ).run


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert cli.main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_load_run_cannot_be_shown_or_is_written_by_showing(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in run.iterdir()}
    out = str(tmp_path / "out")
    shown = told(capsys, "show", run.name, "--out", out)
    assert (shown["run"], len(shown["levels"])) == (str(run), 1)
    assert cli.main(["show", str(run)]) == 0
    assert "Throughput and latency" in capsys.readouterr().out
    assert {path.name: path.stat().st_mtime_ns for path in run.iterdir()} == before
    (run / "report.md").unlink()
    assert told(capsys, "report", str(run)) == shown
    assert "Throughput and latency" in (run / "report.md").read_text()
    assert cli.main(["report", str(run), "--gate"]) == 2
    assert "is of specq load, which has none" in capsys.readouterr().err


def test_an_unfinished_load_run_cannot_be_shown(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "done.json").unlink()
    (run / "report.html").unlink()
    assert cli.main(["show", str(run)]) == 0
    said = capsys.readouterr().out
    assert "not complete" in said
    assert "report.html" not in said


def test_changed_prompts_go_unsaid(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = told(capsys, "ls", "--out", str(tmp_path / "out"))["runs"]
    assert (one["experiment"], one["state"], one["stale"]) == ("load", "done", [])
    prompts(tmp_path, count=3)
    (one,) = told(capsys, "ls", "--out", str(tmp_path / "out"))["runs"]
    assert one["stale"] == [f"the prompts in {tmp_path / 'prompts.jsonl'}"]


def test_the_options_of_a_load_pass_for_changes_of_its_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder_of: Any
) -> None:
    served_stubs.install(tmp_path, monkeypatch, plain={"tokens": 4})
    file = experiment(tmp_path, model=folder_of("llama"), more="")
    found = loaded(file, tmp_path, slots=3)
    out = str(tmp_path / "out")
    (one,) = told(capsys, "ls", "--out", out)["runs"]
    assert one["stale"] == []
    info = json.loads((found.run / "run.json").read_text())
    assert [model["weights_sha256"] != "" for model in info["models"].values()] == [True]
    file.write_text(file.read_text().replace("max_new_tokens = 4", "max_new_tokens = 5"))
    (one,) = told(capsys, "ls", "--out", out)["runs"]
    assert one["stale"] == [f"{file}: workload.max_new_tokens: 4 -> 5"]
