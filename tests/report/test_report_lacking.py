"""What would change a recommendation: of each arm what it lacks, and nothing that another kind of lever would."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import eval_runs
import pytest
from test_report_quality import of_w

from specq.core.evaluated import EvalAnswer
from specq.report import Report
from specq.report.audit_found import Audit
from specq.report.case import Case, Ground
from specq.report.judged import Judged
from specq.report.lacking import of_decided, of_undecided
from specq.report.speed import Compared
from specq.report.verdict import Verdict

OFF: dict[str, Any] = {"audit": {"enabled": False}, "lookup_times": 1.0}


def changes(report: Report) -> str:
    return report.recommendation.partition("What would change this: ")[2]


def example(report: Report) -> dict[str, float]:
    """The line to paste, read as TOML."""
    line = changes(report).partition("for example: ")[2].partition("}")[0] + "}"
    found: dict[str, float] = tomllib.loads(line)["quality"]
    return found


def test_an_arm_without_a_margin_is_told_to_ask_more_prompts(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path / "many", margin=None, **OFF)
    assert "for w a margin for its quality in [floor], for example: quality = { set = 0.02 }" in changes(report)
    assert "draft" not in changes(report).partition("for lookup")[0]
    # Fewer items decide a wider margin alone; the line is one that the plan takes.
    assert example(eval_runs.report(tmp_path / "few", n=60, margin=None, **OFF)) == {"set": 0.05}


def test_a_margin_is_proposed_that_the_items_can_never_decide(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, n=6, margin=None, probe_worse=3, **OFF)
    assert "for example" not in changes(report)
    assert "for w more items, for 6 items cannot decide even 20 points; " in changes(report)


def test_a_margin_that_cannot_be_told_asks_for_no_count_of_items(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path / "a", worse=12, better=10, **OFF)
    assert "for w about " in changes(report)
    assert " more items in set" in changes(report)
    assert "its quality is undecided and needs about " in report.recommendation
    at_the_margin = eval_runs.report(tmp_path / "b", worse=8, **OFF)
    assert "more items in set (how many cannot be told: what was seen lies at the margin" in changes(at_the_margin)


def test_an_arm_that_is_not_served_is_forgotten_beside_one_that_is(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, margin=None, audit={"enabled": False})
    assert report.recommendation.startswith("Serve with lookup")
    assert "for w a margin for its quality in [floor]" in changes(report)


def test_an_eval_that_is_deaf_asks_for_more_prompts(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, probe_worse=0, **OFF)
    assert "for w an eval that notices a loss, for set did not notice its probe" in changes(report)


def test_scores_that_are_missing_are_not_asked_for(tmp_path: Path) -> None:
    def fails(record: EvalAnswer) -> EvalAnswer:
        lost = record.arm == "w#1" and int(record.item[1:]) >= 399
        return replace(record, score=None, why="it raised", finish="failed") if lost else record

    report = eval_runs.report(tmp_path, change=fails, **OFF)
    assert "for w a score for 1 item of set more" in changes(report)
    assert "set: 1 item that the baseline has a score for has none, and counts for nothing" in of_w(report)


def test_a_margin_is_asked_for_only_when_the_missing_scores_are_there(tmp_path: Path) -> None:
    def fails(record: EvalAnswer) -> EvalAnswer:
        lost = record.arm == "w#1"
        return replace(record, score=None, why="it raised", finish="failed") if lost else record

    report = eval_runs.report(tmp_path / "a", change=fails, margin=None, **OFF)
    assert "scores on set" in changes(report)
    assert "a margin for its quality in [floor]" in changes(report)
    set_ = eval_runs.report(tmp_path / "b", change=fails, **OFF)
    assert "scores on set" in changes(set_)
    assert "a margin" not in changes(set_)


def test_a_quantized_arm_that_was_turned_down_is_told_of_drafts(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, worse=40, **OFF)
    assert "for w nothing, for it is decided; try more bits, smaller groups or another method" in changes(report)


def case(label: str, *kinds: str, quality: Judged | None = None) -> Case:
    compared = Compared(decode=None, e2e=None, prompts=0, turns=0, dropped=0, by_process=(), e2e_by_process=())
    return Case(
        arm=f"{label}#1",
        label=label,
        measures={},
        compared=compared,
        strata=(),
        audit=Audit(status="passed"),
        faults=(),
        kinds=kinds,
        quality=quality,
    )


def turned_down(*floor: str) -> Verdict:
    return Verdict(kind="reject", sentence="", floor=floor)


@pytest.mark.parametrize(
    ("kinds", "floor", "quality", "words"),
    [
        (("draft",), (), None, "another draft, another k, or prompts of another kind"),
        (("quantize",), (), None, "another kernel, engine or machine"),
        (("kv_cache",), ("f",), "reject", "a cache of more bits"),
        (("draft", "lossy"), ("f",), "reject", "a stricter threshold or an exact rule"),
        (("quantize",), ("the floor's peak_bytes is breached",), None, "another floor, or another lever"),
    ],
)
def test_what_to_try_does_not_fit_the_lever(
    kinds: tuple[str, ...], floor: tuple[str, ...], quality: Any, words: str
) -> None:
    judged = None if quality is None else Judged(kind=quality, sentences=("f",))
    one, other = case("a", *kinds, quality=judged), case("b", *kinds, quality=judged)
    verdicts = {"a#1": turned_down(*floor), "b#1": turned_down(*floor)}
    assert of_decided([one], verdicts) == [f"for a nothing, for it is decided; try {words}"]
    assert of_decided([one, other], verdicts) == [f"for a and b nothing, for they are decided; try {words}"]
    assert of_undecided([one], verdicts, Ground(floor={}, processes=1, audited=False)) == []
