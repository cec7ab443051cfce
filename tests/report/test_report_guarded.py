"""What quality in reports must not pass over: guards that were not measured, and critical items of any metric."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import eval_runs
import pytest
from test_report_quality import of_w

from specq.core.evaluated import PROBE, EvalAnswer
from specq.core.records import QuantizedModel
from specq.report import Report, charts
from specq.report.markdown import render


def small(folder: Path, **given: Any) -> Report:
    return eval_runs.report(folder, n=40, probe_worse=20, margin=None, **given)


def test_a_noise_floor_that_no_engine_could_measure_is_left_out(tmp_path: Path) -> None:
    def one_by_one(record: EvalAnswer) -> EvalAnswer | None:
        return None if record.arm == "baseline#2" else replace(record, batch_size=1)

    alone = {"batch_size": 1, "twin_batch_size": None}
    report = small(tmp_path, change=one_by_one, eval_table=alone, engine={"kind": "mlx"})
    why = "the engine mlx answers one prompt at a time, so there is no other batch size to compare"
    assert f"Noise floor: not measured: {why}." in render(report)
    chart = charts.quality(report.evals[0], "q")
    assert chart is not None
    assert f"The noise floor is not drawn, for it was not measured: {why}." in chart.lines


def test_a_noise_floor_that_came_to_nothing_is_left_out(tmp_path: Path) -> None:
    gone = small(tmp_path / "a", change=lambda r: None if r.arm == "baseline#2" else r)
    assert "Noise floor: not measured: it has no answers." in render(gone)
    void = small(tmp_path / "b", change=lambda r: replace(r, prompt_sha256="x") if r.arm == "baseline#2" else r)
    assert "Noise floor: not measured: set: 40 prompts are not the baseline's" in render(void)
    scored = small(tmp_path / "c", output="choice")
    assert "Noise floor: not measured: texts are scored prompt by prompt" in render(scored)


def test_a_probe_that_was_not_asked_for_or_has_no_score_is_left_out(tmp_path: Path) -> None:
    off = small(tmp_path / "a", change=lambda r: None if r.arm == PROBE else r, eval_table={"probe": 0})
    assert "Sensitivity probe: not measured: probe = 0 in its table; what loss" in render(off)
    lost = small(tmp_path / "b", change=lambda r: replace(r, score=None, why="it fell") if r.arm == PROBE else r)
    assert "Sensitivity probe: not measured: 40 of 40 items have no score, first i0: it fell; what" in render(lost)


def test_a_calibration_that_nobody_looked_at_passes_for_one_without_overlap(tmp_path: Path) -> None:
    report = small(tmp_path / "a")
    assert report.evals[0].unmeasured == {
        "calibration overlap of w": "what its weights were calibrated on, if anything, is not known"
    }
    assert "Calibration overlap of w: not measured: what its weights" in render(report)


def test_a_calibration_on_the_models_own_text_passes_for_one_without_overlap() -> None:
    from types import SimpleNamespace

    from specq.report import guards

    made = QuantizedModel(
        process=0,
        label="r.toml of toy",
        folder="",
        key="",
        seconds=1.0,
        peak_bytes=1,
        recipe={"method": "gptq", "calibration": "self"},
        audit=None,
        notes=(),
    )
    run: Any = SimpleNamespace(
        info={"arms": [{"id": "baseline#1"}, {"id": "w#1"}]},
        baselines=["baseline#1"],
        labels={"w#1": "w"},
        target=lambda arm: {"recipe": "r.toml"} if arm == "w#1" else None,
        setting=lambda *keys, default: "toy",
        of=lambda kind: [made],
    )
    one = {"output": "choice", "twin_batch_size": None, "probe": 0, "overlap": {}}
    found = guards.unmeasured(run, one, None, None)
    assert found["calibration overlap of w"] == "it was calibrated on texts that the model wrote itself"


@pytest.mark.parametrize("score", [0.75, None])
def test_a_critical_item_is_let_through_for_its_metric_gives_shares(tmp_path: Path, score: float | None) -> None:
    def falls(record: EvalAnswer) -> EvalAnswer:
        return replace(record, score=score, why="a field") if (record.arm, record.item) == ("w#1", "i0") else record

    # The baseline has i0 in full and i1 not at all.
    report = small(tmp_path, change=falls, binary=False, critical=(0, 1))
    assert of_w(report).startswith("reject: ")
    assert "set: i0 fell from the full score and is critical" in of_w(report)
    text = "Critical: 2 items. The baseline has 1 of them with the full score (1), and an arm that loses one of those"
    assert f"{text} is rejected; the others cannot break." in render(report)
    low = small(tmp_path / "b", change=falls, binary=False, critical=(1,))
    assert not of_w(low).startswith("reject: ")
    assert "The baseline has 0 of them with the full score (1)" in render(low)
