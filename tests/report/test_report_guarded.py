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
from specq.report.layout import sections
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


def flagged(report: Report, part: str) -> list[str]:
    return [flag for flag in report.flags if part in flag]


def test_critical_items_that_protect_nothing_are_told_deep_in_the_report_alone(tmp_path: Path) -> None:
    # The baseline has every other item right.
    report = small(tmp_path / "a", critical=(0, 1, 3, 4, 5))
    told = "set: 3 of 5 critical items protect nothing: the baseline has them wrong; first i1"
    assert flagged(report, "critical") == [told]
    assert sections(report)[0].title == "Read this first"
    assert told in sections(report)[0].lines
    one = small(tmp_path / "b", critical=(0, 1), binary=False)
    why = "the baseline has not the full score (1) on it"
    assert flagged(one, "critical") == [f"set: 1 of 2 critical items protects nothing: {why}; first i1"]
    assert flagged(small(tmp_path / "c", critical=(0, 2)), "critical") == []


def test_critical_items_protect_though_no_score_of_the_metric_is_full(tmp_path: Path) -> None:
    def nats(record: EvalAnswer) -> EvalAnswer:
        return replace(record, score=-1.5)

    report = small(tmp_path, change=nats, binary=False, critical=(0, 1), eval_table={"metric": "mine.py:nats"})
    (told,) = flagged(report, "critical")
    assert told.startswith("set: 2 of 2 critical items protect nothing: the metric mine.py:nats has no full score of 1")


def test_a_critical_item_without_a_score_counts_as_a_wrong_one(tmp_path: Path) -> None:
    def lost(record: EvalAnswer) -> EvalAnswer | None:
        return replace(record, score=None, why="it raised") if record.item == "i0" else record

    (told,) = flagged(small(tmp_path, change=lost, critical=(0, 1)), "critical items")
    assert told.endswith("the baseline has them wrong, or no score there (1); first i0")


def test_a_baseline_that_has_nothing_right_cannot_lose_and_nobody_says_so(tmp_path: Path) -> None:
    report = small(tmp_path / "a", change=lambda r: replace(r, score=0.0))
    assert flagged(report, "right") == ["set: the baseline has none of 40 items right, so that no loss can show there"]
    assert flagged(small(tmp_path / "b"), "no loss can show") == []


def test_answers_that_are_mostly_none_are_judged_like_answers(tmp_path: Path) -> None:
    def blank(record: EvalAnswer) -> EvalAnswer:
        return replace(record, answer=" \n", score=0.0) if record.arm != PROBE and record.item != "i3" else record

    report = small(tmp_path / "a", change=blank)
    (told,) = flagged(report, "are empty")
    assert told.startswith(
        "set: most answers are empty: the baseline (39 of 40), w (39 of 40); their scores say little"
    )

    def loops(record: EvalAnswer) -> EvalAnswer:
        many = record.arm == "w#1" and int(record.item[1:]) < 21
        return replace(record, repeated_share=0.9) if many else record

    (told,) = flagged(small(tmp_path / "b", change=loops), "repeat themselves")
    assert told.startswith("set: most answers repeat themselves: w (21 of 40); the baseline's are answers")

    def some(record: EvalAnswer) -> EvalAnswer:
        place = int(record.item[1:]) if record.arm == "w#1" else 40
        return replace(record, answer="" if place < 15 else "x", repeated_share=0.9 if place < 25 else 0.0)

    (told,) = flagged(small(tmp_path / "c", change=some), "are empty or repeat themselves")
    assert "w (25 of 40)" in told
    assert flagged(small(tmp_path / "d"), "most answers") == []


def test_an_arm_says_the_same_to_every_item(tmp_path: Path) -> None:
    def same(record: EvalAnswer) -> EvalAnswer:
        return replace(record, answer="no") if record.arm == "w#1" else record

    (told,) = flagged(small(tmp_path / "a", change=same), "most answers")
    assert told.startswith("set: most answers are one and the same text, whatever is right: w (all 40); ")
    # Of texts that are scored the likeliest may well be one.
    assert flagged(small(tmp_path / "b", change=same, output="choice"), "most answers") == []


def test_a_reason_that_all_arms_share_is_told_once_an_arm(tmp_path: Path) -> None:
    def fails(record: EvalAnswer) -> EvalAnswer:
        return replace(record, score=None, why="no judge answers", finish="failed")

    report = small(tmp_path, change=fails)
    assert flagged(report, "no judge answers") == [
        "the baseline, w, the noise floor, the probe on set: 40 of 40 items have no score, first i0: no judge answers"
    ]
