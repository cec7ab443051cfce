"""What `specq run` prints of a run that came to its end though an arm of it has nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from specq import api, cli
from specq.core.errors import RunFailed

sys.path.insert(0, str(Path(__file__).parent / "report"))
from report_runs import whole_run

WHY = "w#1 and probe#1 have no score on any of 4 items of set, first on i0: no judge answers"


def test_a_run_that_ends_with_1_prints_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = whole_run(tmp_path / "run")

    def ends(*_: Any, **__: Any) -> Path:
        error = RunFailed(WHY)
        error.finished = folder
        raise error

    monkeypatch.setattr(api, "load_experiment", lambda *_, **__: None)
    monkeypatch.setattr(api, "run_experiment", ends)
    assert cli.main(["run", "file.toml"]) == 1
    said = capsys.readouterr()
    assert "Recommendation" in said.out
    assert str(folder / "report.html") in said.out
    assert said.err.count("no judge answers") == 1
    assert cli.main(["run", "file.toml", "--json"]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["run"] == str(folder)


def test_a_run_that_broke_prints_a_report_of_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(*_: Any, **__: Any) -> Path:
        raise RunFailed("a worker died")

    monkeypatch.setattr(api, "load_experiment", lambda *_, **__: None)
    monkeypatch.setattr(api, "run_experiment", breaks)
    assert cli.main(["run", "file.toml"]) == 1
    assert capsys.readouterr().out == ""
