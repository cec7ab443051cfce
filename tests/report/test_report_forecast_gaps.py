"""Forecast beside measurement: factors that multiply, the right cell beside each arm, and arms without numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from forecast_runs import ARM, cell, forecast, forecast_run, ran
from report_runs import ARMS, FINISHED, MACHINE, PROMPTS, info, turns, write_run

from specq import report
from specq.report import forecast_gaps, page
from specq.report.forecast_file import FILE, Cell, Ran
from specq.report.forecast_gaps import FACTORS, Gap
from specq.report.forecast_layout import sections
from specq.report.markdown import render
from specq.report.runfile import load


def gap_of(folder: Path, **changes: Any) -> Gap:
    found = report.build(forecast_run(folder, **changes)).forecast
    assert found is not None
    assert found.fault == ""
    (gap,) = found.gaps
    return gap


def test_factors_do_not_multiply_to_measured_over_forecast(tmp_path: Path) -> None:
    gap = gap_of(tmp_path / "run")
    assert gap.speedup.value is not None
    assert gap.speedup.value == pytest.approx(1.5, rel=0.02)
    assert math.prod(gap.factors) == pytest.approx(gap.speedup.value / gap.cell.speedup)
    # Tokens per step fell from 2 to 1.5, drafting cost what was expected, verifying 0.6 of a plain step, not 0.8.
    assert gap.acceptance == pytest.approx(0.75)
    assert gap.draft == pytest.approx(1.0, rel=0.01)
    assert gap.verify == pytest.approx(1.25 / 1.05, rel=0.02)
    assert gap.rest == pytest.approx(1.05 / 1.0, rel=0.02)


EXPECTED = Ran(**ran(draft_share=0.2, verify_share=0.8, rest_share=0.25))


@pytest.mark.parametrize(
    ("fault", "live"),
    [
        ("acceptance", {"tokens_per_step": 1.0, "speedup": 0.8}),
        ("draft", {"draft": 0.4, "speedup": 2 / 1.45}),
        ("verify", {"verify": 1.0, "speedup": 2 / 1.45}),
        ("rest", {"speedup": 1.5}),
    ],
)
def test_a_fault_of_one_part_is_laid_at_another(fault: str, live: dict[str, float]) -> None:
    """Each part alone is put off in turn; only its own factor may move."""
    usual = {"speedup": 1.6, "tokens_per_step": 2.0, "draft": 0.2, "verify": 0.8}
    found = forecast_gaps.factors(Cell(**cell()), EXPECTED, **{**usual, **live})
    assert found is not None
    assert math.prod(found.values()) == pytest.approx({**usual, **live}["speedup"] / 1.6)
    assert found[fault] < 0.99
    assert [found[name] for name in FACTORS if name != fault] == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("live", [{"speedup": math.nan}, {"tokens_per_step": 0.0}, {"draft": math.inf}])
def test_a_number_that_is_none_becomes_a_factor(live: dict[str, float]) -> None:
    usual = {"speedup": 1.6, "tokens_per_step": 2.0, "draft": 0.2, "verify": 0.8}
    assert forecast_gaps.factors(Cell(**cell()), EXPECTED, **{**usual, **live}) is None


def test_the_seconds_of_a_plain_step_are_those_of_one_baseline_alone(tmp_path: Path) -> None:
    def slow(g: Any) -> Any:
        if g.arm != "baseline#2":
            return g
        steps = tuple((*step[:4], *(2 * part for part in step[4:])) for step in g.steps)
        return type(g)(**{**{name: getattr(g, name) for name in g.__dataclass_fields__}, "steps": steps})

    folder = write_run(tmp_path / "run", info(ARMS, PROMPTS), [*MACHINE, *turns(slow), *FINISHED])
    (folder / FILE).write_text(json.dumps(forecast()))
    found = report.build(folder).forecast
    assert found is not None
    # A plain step takes 0.05 s and 0.1 s, so that drafting takes 0.01 of 0.075.
    assert found.gaps[0].draft == pytest.approx(1.25 / (1.05 + 0.01 / 0.075), rel=0.01)


def test_the_forecast_of_another_cell_stands_beside_an_arm(tmp_path: Path) -> None:
    """Two arms whose forecasts are swapped, of the same k and rule: only the draft tells them apart."""
    arms = (*ARMS, "other#1")
    about = info(arms, PROMPTS)
    about["arms"][3]["draft"] = {"method": "early_exit", "layers": 2, "k": 3}
    other = forecast_gaps.draft_sha256(about["arms"][3]["draft"])
    cells = [cell(), cell("other", speedup=1.1, low=1.0, high=1.2, tokens_per_step=1.375)]
    right = [ran(), ran("other#1", "other", draft_sha256=other)]
    swapped = [ran("other#1"), ran("lookup#1", "other", draft_sha256=other)]
    lines = [*MACHINE, *turns(), *FINISHED]
    for given, whys in ((right, ["", "the run has no answer of it"]), (swapped, ["the arm's draft is not"] * 2)):
        folder = write_run(tmp_path / f"{given is right}", about, lines, done=False)
        (folder / FILE).write_text(json.dumps(forecast(about, cells=cells, arms=given)))
        found = report.build(folder).forecast
        assert found is not None
        assert all(gap.why.startswith(why) for gap, why in zip(found.gaps, whys, strict=True))
        if given is swapped:
            assert [(gap.speedup.value, gap.factors, gap.inside) for gap in found.gaps] == [(None, (), None)] * 2


@pytest.mark.parametrize("lost", ["the arm", "the baselines", "everything"])
def test_a_report_breaks_on_an_arm_that_is_missing_after_an_interrupted_run(tmp_path: Path, lost: str) -> None:
    def keep(g: Any) -> Any:
        drafted = g.arm == "lookup#1"
        return None if lost == "everything" or drafted == (lost == "the arm") else g

    about = info(ARMS, PROMPTS)
    folder = write_run(tmp_path / "run", about, [*MACHINE, *turns(keep)], done=False)
    (folder / FILE).write_text(json.dumps(forecast(about)))
    found = report.write(folder)
    assert found.forecast is not None
    (gap,) = found.forecast.gaps
    assert gap.why
    assert gap.factors == ()
    shown = sections(found.forecast)[0]
    assert any(line.startswith(f"{gap.label}: {gap.why}") for line in shown.lines)
    assert shown.rows[0][1:4] == ("1.60", "1.40 to 1.80", "-")
    assert json.loads((folder / "report.json").read_text())["forecast"]["gaps"][0]["why"] == gap.why
    assert gap.why in render(found)
    assert "From forecast to measured" not in page.render(found, load(folder).info)


def test_an_arm_that_the_run_never_had_is_passed_over_in_silence(tmp_path: Path) -> None:
    gap = gap_of(tmp_path / "run", arms=[ran("gone#1")])
    assert (gap.label, gap.why) == ("gone#1", "the run has no such arm")


@pytest.mark.parametrize(("low", "high", "inside"), [(1.4, 1.8, True), (1.55, 1.8, False), (None, None, None)])
def test_a_measured_value_outside_the_forecasts_interval_passes_for_inside(
    tmp_path: Path, low: float | None, high: float | None, inside: bool | None
) -> None:
    gap = gap_of(tmp_path / "run", cells=[cell(low=low, high=high)])
    assert gap.inside is inside


def test_the_hash_of_a_draft_hangs_on_the_order_of_its_keys() -> None:
    assert forecast_gaps.draft_sha256(dict(reversed(ARM.items()))) == forecast_gaps.draft_sha256(ARM)
