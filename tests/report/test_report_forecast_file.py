"""forecast.json as it may lie in a folder: damaged, foreign, of another version, or not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from forecast_runs import cell, forecast, forecast_run, point, ran
from report_runs import whole_run

from specq import report
from specq.report import page
from specq.report.forecast_file import FILE
from specq.report.layout import sections
from specq.report.runfile import load


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in forecast().items() if name != key}


DAMAGED: dict[str, tuple[Any, str]] = {
    "torn": (json.dumps(forecast())[:200], "not JSON"),
    "empty": ("", "not JSON"),
    "NaN": (json.dumps(forecast(cells=[cell(p_faster=float("nan"))])), "NaN is no JSON number"),
    "too large": (json.dumps(forecast()).replace("32.0", "1e999"), "1e999 is too large"),
    "half a character": (json.dumps(forecast(target="\ud800")), "not JSON"),
    "a list": ([forecast()], "expected an object, found list"),
    "another schema": (forecast(schema=2), "its schema is 2, this version of specq reads 1"),
    "no schema": (without("schema"), "its schema is None"),
    "another run's": (forecast(config_sha256="00"), "it belongs to another run"),
    "lacks a key": (without("hopeless"), "lacks hopeless"),
    "an unknown key": (forecast(more=1), "unknown more"),
    "a cell that lacks a key": (forecast(cells=[{"draft": "x"}]), "cells[0]: lacks k,"),
    "a cell of text": (forecast(cells=["x"]), "cells[0]: expected an object"),
    "cells of text": (forecast(cells="x"), "cells must be a list"),
    "a text for a number": (forecast(cells=[cell(speedup="fast")]), "cells[0]: speedup must be a finite number"),
    "true for a number": (forecast(cells=[cell(k=True)]), "cells[0]: k must be a whole number"),
    "seconds below 0": (forecast(points=[point(draft_s=-0.1)]), "points[0]: draft_s must not be below 0"),
    "no speed": (forecast(cells=[cell(speedup=0.0)]), "cells[0]: k, tokens_per_step and speedup must be above 0"),
    "an arm of no cell": (forecast(arms=[ran(k=9)]), "arms[0]: there is no cell lookup k = 9 greedy_draft"),
    "parts of another step": (forecast(arms=[ran(verify_share=0.5)]), "arms[0]: the parts of a step are not"),
    "seconds in words": (forecast(seconds={"curves": "long"}), "seconds must be numbers from 0 on"),
    "hopeless in numbers": (forecast(hopeless={"self8": 1}), "hopeless must be texts"),
    "a grid of numbers": (forecast(grid=[1]), "grid must be a list of objects"),
}


@pytest.mark.parametrize("fault", DAMAGED)
def test_a_damaged_or_foreign_file_breaks_the_report_or_is_computed_with(tmp_path: Path, fault: str) -> None:
    value, says = DAMAGED[fault]
    folder = forecast_run(tmp_path / "run", value if isinstance(value, str) else json.dumps(value))
    found = report.write(folder)
    (told,) = (section for section in sections(found) if section.title.startswith("Forecast"))
    (line,) = told.lines
    assert line.startswith("forecast.json cannot be used: ")
    assert says in line
    assert "\n" not in line
    assert not told.rows
    assert '<h2 id="forecast"' in page.render(found, load(folder).info)
    assert found.recommendation == report.build(whole_run(tmp_path / "bare")).recommendation


def test_a_folder_in_the_files_place_breaks_the_report(tmp_path: Path) -> None:
    (whole_run(tmp_path / "run") / FILE).mkdir()
    found = report.build(tmp_path / "run").forecast
    assert found is not None
    assert "cannot be read" in found.fault


def test_a_run_without_a_forecast_speaks_of_one(tmp_path: Path) -> None:
    found = report.build(whole_run(tmp_path / "run"))
    assert found.forecast is None
    assert not [section for section in sections(found) if section.title.startswith("Forecast")]
    assert 'id="forecast"' not in page.render(found, load(tmp_path / "run").info)


def test_a_file_without_a_grid_is_refused_or_a_damaged_grid_takes_the_rest_away(tmp_path: Path) -> None:
    found = report.build(forecast_run(tmp_path / "run", json.dumps(without("grid")))).forecast
    assert found is not None
    assert found.forecasts is not None
    assert (found.forecasts.grid, found.grid) == ((), None)
    made = report.build(forecast_run(tmp_path / "grid", grid=[{"target": "w4", "speedup": -1.0}]))
    shown = {section.title: section for section in sections(made) if section.title.startswith("Forecast")}
    (line,) = shown["Forecast: targets and drafts"].lines
    assert "cannot be used" in line
    assert len(shown["Forecast"].rows) == 1


def test_a_report_derived_again_loses_the_forecast_or_changes_it(tmp_path: Path) -> None:
    folder = forecast_run(tmp_path / "run")
    before = (folder / FILE).read_bytes()
    first = report.write(folder).to_json()["forecast"]
    assert report.write(folder).to_json()["forecast"] == first
    assert json.loads((folder / "report.json").read_text())["forecast"]["forecasts"]["cells"] == forecast()["cells"]
    assert (folder / FILE).read_bytes() == before
