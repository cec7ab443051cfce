"""Targets and drafts together in a report: what was forecast beside what a run of known numbers measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from forecast_runs import forecast
from page_reports import Page
from quantized_runs import quantized_info, quantized_run

from specq import report
from specq.core.records import Generated, Record
from specq.report import page
from specq.report.forecast_file import FILE
from specq.report.forecast_grid import BASELINE, Beside, GridCell, GridReport, of_run
from specq.report.forecast_grid_layout import lines
from specq.report.layout import sections
from specq.report.measures import Measure
from specq.report.runfile import RunFile, load

TITLE = "Forecast: targets and drafts"


def row(target: str, draft: str | None, speedup: float, size: int, arm: str | None = None) -> dict[str, Any]:
    return {
        **{"target": target, "draft": draft, "k": 3 if draft else None, "rule": "greedy_draft" if draft else None},
        **{"speedup": speedup, "low": 0.9 * speedup, "high": 1.1 * speedup},
        **{
            "over_target": 1.5 if draft else 1.0,
            "over_low": 1.45 if draft else 1.0,
            "over_high": 1.55 if draft else 1.0,
        },
        **{"tokens_per_step": 3.0 if draft else 1.0, "tpot_s": 0.05 / speedup, "bytes": size},
        **{"arm": arm, "interplay": "add" if draft and target != BASELINE else None, "why_not": ""},
    }


ROWS = [
    row("w4", "lookup", 2.2, 250, "lookup+w4#1"),
    row("w4", None, 1.7, 250, "w4#1"),
    row("w4", "early", 1.5, 250),
    row(BASELINE, "lookup", 1.4, 1000, "lookup#1"),
    row(BASELINE, "early", 1.2, 1000),
    row(BASELINE, None, 1.0, 1000, "baseline#1"),
    {"target": "w4", "draft": "self8", "why_not": "w4 is quantized already"},
]


def built(folder: Path, rows: list[dict[str, Any]], slower: float = 1.0) -> report.Report:
    """A run with a forecast of those cells; both levers together are slower by that factor."""

    def change(lines: list[Record]) -> list[Record]:
        return [
            longer(one, slower) if isinstance(one, Generated) and one.arm == "lookup+w4#1" else one for one in lines
        ]

    quantized_run(folder, change)
    made = forecast(quantized_info(), arms=[], grid=rows)
    (folder / FILE).write_text(json.dumps(made), encoding="utf-8")
    return report.build(folder)


def longer(one: Generated, times: float) -> Generated:
    steps = tuple((*step[:4], *(times * part for part in step[4:])) for step in one.steps)
    return replace(one, steps=steps, e2e_s=one.ttft_s + times * (one.e2e_s - one.ttft_s))  # type: ignore[arg-type]


def grid(found: report.Report) -> GridReport:
    assert found.forecast is not None
    assert found.forecast.grid is not None
    return found.forecast.grid


def test_another_model_goes_unnamed_among_the_targets() -> None:
    lever = {"kind": "model", "model": "made/tiny-4"}
    info = quantized_info(levers={"small": lever, "w4": {"kind": "quantize", "recipe": "r"}})
    run = RunFile(folder=Path(), info=info, records=(), outputs=(), torn={}, losses=(), done=True)
    found = of_run(run, [], [], [row("small", None, 1.7, 250)])
    assert found is not None
    assert next(iter(lines(found))) == "small is another model in the target's place: made/tiny-4."


def test_a_cell_shows_another_arms_speed_or_a_forecast_passes_for_a_measurement(tmp_path: Path) -> None:
    found = built(tmp_path / "run", ROWS)
    cells = {(one.cell.target, one.cell.draft): one for one in grid(found).cells}
    for key, arm in ((("w4", "lookup"), "lookup+w4#1"), (("w4", None), "w4#1"), ((BASELINE, "lookup"), "lookup#1")):
        assert cells[key].speedup == found.arm(arm).measures["speedup"]
    assert [key for key, one in cells.items() if not one.is_measured] == [
        *(("w4", "early"), (BASELINE, "early"), ("w4", "self8")),
    ]
    assert cells[BASELINE, None].best is not None
    assert cells[BASELINE, None].best.value == 1.0
    # In the order of what is known of them: measured where it was.
    assert next(iter(cells)) == ("w4", "lookup")
    assert list(cells)[-1] == ("w4", "self8")


def test_levers_that_multiply_are_said_to_replace_each_other(tmp_path: Path) -> None:
    # 1.6 by four bits, 1.5 by the draft, 2.4 by both: quantized_runs makes them so.
    (one,) = [one for one in grid(built(tmp_path / "run", ROWS)).cells if one.interplay is not None]
    assert one.interplay is not None
    assert one.interplay.kind == "add"
    assert one.interplay.both.value == pytest.approx(2.4, rel=0.02)
    assert one.interplay.product.value == pytest.approx(2.4, rel=0.02)


def test_a_pair_is_held_against_the_baseline_where_its_own_target_counts(tmp_path: Path) -> None:
    # 2.0 by both: the draft gains 1.25 on four bits and 1.5 without them.
    (one,) = [one for one in grid(built(tmp_path / "run", ROWS, slower=1.2)).cells if one.interplay is not None]
    assert one.interplay is not None
    assert one.interplay.kind == "partly replace"
    assert one.interplay.both.value == pytest.approx(2.0, rel=0.02)


def test_a_pair_without_one_of_its_parts_is_judged_as_measured(tmp_path: Path) -> None:
    rows = [one | {"arm": None} if (one["target"], one["draft"]) == (BASELINE, "lookup") else one for one in ROWS]
    assert [one for one in grid(built(tmp_path / "run", rows)).cells if one.interplay is not None] == []


def test_the_section_leaves_cells_out_or_the_reason_why_one_is_none(tmp_path: Path) -> None:
    (shown,) = [one for one in sections(built(tmp_path / "run", ROWS)) if one.title == TITLE]
    assert [one[0] for one in shown.rows][:2] == ["w4 + lookup k = 3", "w4"]
    assert len(shown.rows) == 6
    assert len({len(one) for one in (*shown.rows, shown.columns)}) == 1
    said = " ".join(shown.lines)
    assert "w4 with self8 is no cell: w4 is quantized already." in said
    assert "Measured: The one pair: 1 add." in said
    assert "w4 and lookup add" in said
    # By the forecast alone, for it was not run.
    assert "Forecast: Of 2 pairs" in said
    assert "w4 and early" in said


def test_the_picture_shows_forecasts_as_measured_or_breaks_the_page(tmp_path: Path) -> None:
    found = built(tmp_path / "run", ROWS)
    html = page.render(found, load(tmp_path / "run").info)
    assert Page(html).faults == []
    assert '<desc id="forecast-grid-said">' in html
    assert "Hollow: forecast alone" in html


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"target": "w4"}, "names no target and no draft"),
        ({"target": "w4", "draft": None, "speedup": "fast"}, "speedup must be"),
        ({"target": "w4", "draft": None, "low": 0.0}, "low must be above 0"),
        ({"target": "w4", "draft": None, "colour": 1}, "unknown colour"),
    ],
)
def test_a_damaged_grid_is_computed_with(tmp_path: Path, bad: dict[str, Any], says: str) -> None:
    found = grid(built(tmp_path / "run", [*ROWS, bad]))
    assert found.cells == ()
    assert f"grid[{len(ROWS)}]" in found.fault
    assert says in found.fault


def beside(target: str, draft: str | None, speedup: float, size: int, change: float | None) -> Beside:
    quality = {} if change is None else {"sums": Measure(name="quality_change.sums", unit="", value=change)}
    cell = GridCell(target=target, draft=draft, speedup=speedup, bytes=size)
    return Beside(cell=cell, speedup=None, quality=quality, interplay=None, verdict="")


def test_the_front_holds_a_cell_that_is_beaten_or_lacks_one_that_is_not() -> None:
    cells = (
        beside("w4", "lookup", 2.4, 250, -0.2),
        beside("w4", None, 1.6, 250, -0.2),
        beside("w8", None, 1.4, 500, -0.01),
        beside("w8", "lookup", 1.3, 500, -0.01),
        beside(BASELINE, None, 1.0, 1000, 0.0),
        beside("w3", None, 9.0, 100, None),
    )
    front = GridReport(cells=cells, evals={"sums": True}).front()
    assert [(one.cell.target, one.cell.draft) for one in front] == [("w4", "lookup"), ("w8", None), (BASELINE, None)]
    # Without an eval there is no quality to be ahead in.
    bare = GridReport(cells=cells).front()
    assert [(one.cell.target, one.cell.draft) for one in bare] == [("w3", None)]
