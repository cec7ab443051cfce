"""The forecast as it is shown: in tables, in pictures with their words, and with foreign text in its names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from forecast_runs import cell, forecast_run, ran
from page_reports import Page

from specq import report
from specq.report import forecast_charts, page
from specq.report.assemble import Report
from specq.report.layout import sections
from specq.report.markdown import render
from specq.report.runfile import load


def built(folder: Path, **changes: Any) -> Report:
    return report.build(forecast_run(folder, **changes))


def rows(found: Report, title: str) -> list[dict[str, str]]:
    (section,) = (one for one in sections(found) if one.title == title)
    return [dict(zip(section.columns, row, strict=True)) for row in section.rows]


def test_the_tables_lack_a_number_that_the_file_has(tmp_path: Path) -> None:
    found = built(tmp_path / "run", more_prompts=7)
    (beside,) = rows(found, "Forecast")
    assert (beside["arm"], beside["forecast"], beside["tokens/step forecast"], beside["inside"]) == (
        *("lookup", "1.60", "2.00"),
        "yes",
    )
    (split,) = rows(found, "Forecast: where the difference comes from")
    assert (split["acceptance"], split["draft"]) == ("0.750", "1.000")
    best = rows(found, "Forecast: ranking")
    assert [(one["draft"], one["k"], one["run as"]) for one in best] == [("lookup", "3", "lookup"), ("self8", "3", "-")]
    assert [one["ceiling"] for one in rows(found, "Forecast: ceilings")] == ["1.80", "3.20"]
    assert [(one["part"], one["faster"]) for one in rows(found, "Forecast: strata")] == [("writing", "0 %")]
    said = render(found)
    assert "self8 is hopeless here: verifying 4 tokens takes 5 plain steps." in said
    # The other draft is slower than none, so that none is what the best is held against.
    assert "lookup and plain decoding are not apart; about 7 more prompts like these would part them" in said
    assert "curves 5.00 s, texts 4.00 s, reading 1.00 s" in said


def test_what_was_run_is_not_in_the_ranking_where_another_k_is_faster(tmp_path: Path) -> None:
    cells = [cell(k=5, speedup=1.7), cell(), cell("self8", speedup=0.9)]
    best = rows(built(tmp_path / "run", cells=cells), "Forecast: ranking")
    assert [(one["draft"], one["k"], one["run as"]) for one in best] == [
        ("lookup", "5", "-"),
        ("self8", "3", "-"),
        ("lookup", "3", "lookup"),
    ]


def test_the_waterfall_ends_beside_what_was_measured(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    assert found.forecast is not None
    (gap,) = found.forecast.gaps
    levels = forecast_charts.levels(gap)
    assert (levels[0], len(levels)) == (1.6, 5)
    assert levels[-1] == pytest.approx(gap.speedup.value)
    fall = forecast_charts.pictures(found.forecast)[0]
    assert [row[0] for row in fall.rows] == ["forecast", "acceptance", "draft", "verify", "rest", "measured"]
    assert fall.rows[0][2] == "1.60"
    assert fall.rows[1][1:3] == ("0.750", "1.20")
    assert fall.rows[-1][2] == fall.rows[-2][2] == f"{gap.speedup.value:.2f}"
    assert "acceptance: factor 0.750, speed-up 1.20." in fall.said
    # What made it slower looks as such, and what made it faster too.
    assert "var(--bad)" in fall.svg
    assert "var(--good)" in fall.svg


def test_a_measured_point_stands_at_another_k_or_draft(tmp_path: Path) -> None:
    found = built(tmp_path / "run")
    assert found.forecast is not None
    curve = forecast_charts.pictures(found.forecast)[-1]
    measured = {row[0]: row[4] for row in curve.rows}
    assert measured["lookup k = 1"] == measured["self8 k = 3"] == "-"
    assert measured["lookup k = 3"] == f"{found.forecast.gaps[0].speedup.value:.2f}"
    assert not [line for line in curve.lines if "not in the picture" in line]


def test_a_point_that_no_curve_has_is_left_out_in_silence(tmp_path: Path) -> None:
    cells = [cell(rule="rejection", speedup=1.7), cell()]
    found = built(tmp_path / "run", cells=cells)
    curve = forecast_charts.pictures(found.forecast)[-1]
    assert any(line.endswith("not in the picture: lookup.") for line in curve.lines)


def test_a_forecast_without_arms_or_cells_breaks_the_page(tmp_path: Path) -> None:
    for name, changes in {"no arms": {"arms": []}, "nothing": {"arms": [], "cells": [], "points": []}}.items():
        folder = forecast_run(tmp_path / name, **changes)
        found = report.write(folder)
        assert Page(page.render(found, load(folder).info)).faults == []
    assert [section.title for section in sections(found) if section.title.startswith("Forecast")] == [
        "Forecast",
        "Forecast: strata",
    ]


def test_a_name_in_the_file_is_obeyed_by_the_page(tmp_path: Path) -> None:
    hostile = '<script>alert(1)</script>"\u202e$x^2$'
    cells = [cell(), cell(hostile, speedup=0.9)]
    folder = forecast_run(
        tmp_path / "run",
        cells=cells,
        arms=[ran(), ran("<b>#1", hostile)],
        hopeless={hostile: hostile},
        grid=[{"target": hostile, "draft": None, "why_not": hostile}],
    )
    found = report.build(folder)
    shown = Page(page.render(found, load(folder).info))
    assert shown.faults == []
    assert not shown.all("script")
    assert not shown.all("b")
    assert "\u202e" not in shown.html
    assert "<script" not in render(found)


def test_pictures_share_an_id_or_lack_words(tmp_path: Path) -> None:
    folder = forecast_run(tmp_path / "run")
    html = page.render(report.build(folder), load(folder).info)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    for name in ("forecast-1", "forecast-k"):
        assert f'<desc id="{name}-said">' in html
    assert html.index('id="forecast"') < html.index('id="forecast-1-title"') < html.index('id="forecast-k-title"')
