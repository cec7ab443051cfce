"""Quality in reports: what a floor decides, and faults planted in the answers that must be found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import eval_runs
import pytest

from specq.core.evaluated import PROBE, EvalAnswer, EvalProof
from specq.core.nouns import counted
from specq.report import Report, layout_quality
from specq.report.markdown import render


def of_w(report: Report) -> str:
    verdict = report.arm("w#1").verdict
    assert verdict is not None
    return f"{verdict.kind}: {verdict.sentence}"


def test_a_lever_within_the_floor_is_kept(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, worse=2, better=2, audit={"enabled": False})
    assert of_w(report).startswith("keep: w is 1.30 times as fast")
    assert "set: +0.0 points, 2 items worse and 2 better of 400; at worst" in of_w(report)
    assert "allowed -2.0 points" in of_w(report)


def test_a_floor_is_ignored(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, worse=40)
    assert of_w(report).startswith("reject: ")
    assert "set: -10.0 points, 40 items worse and 0 better of 400; at best" in of_w(report)
    verdict = report.arm("w#1").verdict
    assert verdict is not None
    assert any("set: -10.0 points" in why for why in verdict.floor), "the gate asks the floor"


def test_what_cannot_be_told_is_kept(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, worse=12, better=10)
    assert of_w(report).startswith("undecided: ")
    assert "more items would decide" in of_w(report)


def test_a_lever_is_kept_though_no_margin_was_set(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, margin=None)
    assert of_w(report).startswith("undecided: ")
    assert "the floor names no margin" in of_w(report)


def test_a_tag_of_its_own_floor_is_not_asked(tmp_path: Path) -> None:
    def only_turkish(record: EvalAnswer) -> EvalAnswer:
        bad = record.arm == "w#1" and int(record.item[1:]) % 4 == 0 and int(record.item[1:]) < 160
        return replace(record, score=0.0) if bad else record

    report = eval_runs.report(tmp_path, margin=None, quality={"set:tr": 0.05}, change=only_turkish)
    assert of_w(report).startswith("reject: ")
    assert "set (tr): -40.0 points, 40 items worse and 0 better of 100" in of_w(report)


def test_a_critical_item_is_outweighed_by_others(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, worse=1, better=9, critical=(0,))
    assert of_w(report).startswith("reject: ")
    assert "set: i0 went from right to wrong and is critical" in of_w(report)


def test_an_eval_that_is_deaf_finds_no_loss(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, probe_worse=0)
    assert of_w(report).startswith("undecided: ")
    assert "did not notice weights perturbed by 20 %" in of_w(report)
    assert any("did not notice weights perturbed" in flag for flag in report.flags)


def test_a_draft_takes_over_scores_without_proof(tmp_path: Path) -> None:
    proved = eval_runs.report(tmp_path / "a").evals[0].arm("lookup#1")
    assert proved is not None
    assert proved.source == "baseline#1"
    assert "20 of 20 items in float32" in proved.how
    broken = EvalProof(arm="lookup#1", items=20, equal=19, first_difference="set/i3", message="")
    report = eval_runs.report(tmp_path / "b", proof=broken)
    other = report.evals[0].arm("lookup#1")
    assert other is not None
    assert (other.source, other.slices) == ("", ())
    verdict = report.arm("lookup#1").verdict
    assert verdict is not None
    assert verdict.kind == "undecided"


@pytest.mark.parametrize("what", ["another chat template", "another bos"])
def test_the_prompts_of_an_arm_are_not_the_baselines(tmp_path: Path, what: str) -> None:
    some = range(400) if what == "another chat template" else range(1)

    def change(record: EvalAnswer) -> EvalAnswer:
        other = record.arm == "w#1" and int(record.item[1:]) in some
        return replace(record, prompt_sha256="another") if other else record

    report = eval_runs.report(tmp_path, change=change)
    assert of_w(report).startswith("invalid: ")
    assert f"{counted(len(some), 'prompt is', 'prompts are')} not the baseline's, token by token, first i0" in of_w(
        report
    )


def test_an_item_is_missing_in_one_arm(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, change=lambda r: None if (r.arm, r.item) == ("w#1", "i7") else r)
    assert "set: 1 of 400 items have no answer, first i7" in of_w(report)
    assert of_w(report).startswith("invalid: ")


def test_an_arm_was_answered_in_another_batch_size(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, change=lambda r: replace(r, batch_size=1) if r.arm == "w#1" else r)
    assert of_w(report).startswith("invalid: ")
    assert "set: answered 1 prompts at a time, the baseline 8" in of_w(report)


def test_an_arm_silently_ran_on_the_baselines_weights(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path / "a", own_sha256="ab")
    assert of_w(report).startswith("invalid: ")
    assert "evaluated on the baseline's weights (sha256 ab)" in of_w(report)

    def same(record: EvalAnswer) -> EvalAnswer:
        place = int(record.item[1:])
        return replace(record, logprobs=(-1.0 - place, -2.0)) if record.arm == "w#1" else record

    report = eval_runs.report(tmp_path / "b", output="choice", change=same)
    assert "every log-probability is the baseline's to the last bit" in of_w(report)


def test_scores_are_read_from_another_arm(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, worse=40, better=3)
    one = report.evals[0].arm("w#1")
    assert one is not None
    assert one.all is not None
    assert (one.all.change.worse, one.all.change.better) == (40, 3)
    assert one.all.rate.value == pytest.approx((200 - 40 + 3) / 400)
    assert report.evals[0].baseline is not None
    assert report.evals[0].baseline.value == 0.5
    flips = {flip.item: flip for flip in one.flips}
    assert flips["i0"].before == "right 0"
    assert flips["i0"].after == "wrong"
    assert flips["i0"].worse
    assert not flips["i1"].worse


def test_an_arm_is_kept_though_items_have_no_score(tmp_path: Path) -> None:
    def fails(record: EvalAnswer) -> EvalAnswer:
        lost = record.arm == "w#1" and int(record.item[1:]) >= 250
        return replace(record, score=None, why="it raised", finish="failed") if lost else record

    report = eval_runs.report(tmp_path, change=fails, audit={"enabled": False})
    assert of_w(report).startswith("undecided: ")
    assert "set: 150 items that the baseline has a score for have none" in of_w(report)


def test_a_critical_item_without_a_score_is_let_through(tmp_path: Path) -> None:
    def fails(record: EvalAnswer) -> EvalAnswer:
        lost = (record.arm, record.item) == ("w#1", "i0")
        return replace(record, score=None, why="it raised") if lost else record

    assert of_w(eval_runs.report(tmp_path, change=fails, critical=(0,))).startswith("reject: ")


def test_the_margin_of_a_tag_without_scores_vanishes(tmp_path: Path) -> None:
    def fails(record: EvalAnswer) -> EvalAnswer:
        lost = record.arm == "w#1" and int(record.item[1:]) % 4 == 0
        return replace(record, score=None, why="it raised") if lost else record

    report = eval_runs.report(tmp_path, quality={"set:tr": 0.05}, change=fails, audit={"enabled": False})
    assert "set (tr): it has no scores there" in of_w(report)
    assert of_w(report).startswith("undecided: ")


def test_a_probe_that_raised_counts_as_noticed(tmp_path: Path) -> None:
    def fails(record: EvalAnswer) -> EvalAnswer:
        return replace(record, score=None, why="no linear layers", finish="failed") if record.arm == PROBE else record

    report = eval_runs.report(tmp_path, change=fails, audit={"enabled": False})
    assert of_w(report).startswith("undecided: ")
    assert any("the probe of set says nothing: " in flag and "no linear layers" in flag for flag in report.flags)


def test_a_draft_that_is_no_twin_of_its_target_is_not_told(tmp_path: Path) -> None:
    proof = EvalProof(arm="lookup#1", items=20, equal=3, first_difference="set/i4", message="")

    own = [eval_runs.answer("lookup#1", place, float(place % 2 == 0)) for place in range(400)]
    report = eval_runs.report(tmp_path, proof=proof, extra=own)
    assert any("lookup on set: 3 of 20 answers have its target's ids in float32" in flag for flag in report.flags)


def test_the_noise_floor_is_void_and_nobody_says_so(tmp_path: Path) -> None:
    report = eval_runs.report(
        tmp_path, change=lambda r: replace(r, prompt_sha256="another") if r.arm == "baseline#2" else r
    )
    assert any("the noise floor of set says nothing: set: 400 prompts are not" in flag for flag in report.flags)


def test_failed_items_count_as_wrong_ones(tmp_path: Path) -> None:
    report = eval_runs.report(
        tmp_path, change=lambda r: replace(r, score=None, why="it raised") if (r.arm, r.item) == ("w#1", "i0") else r
    )
    one = report.evals[0].arm("w#1")
    assert one is not None
    assert one.all is not None
    assert (one.failed, one.all.change.n, one.all.change.worse) == (1, 399, 0)
    assert any("1 of 400 items have no score, first i0: it raised" in flag for flag in report.flags)


def test_the_baseline_differs_from_itself_and_nobody_says_so(tmp_path: Path) -> None:
    def noisy(record: EvalAnswer) -> EvalAnswer:
        bad = record.arm == "baseline#2" and int(record.item[1:]) < 80
        return replace(record, score=0.0) if bad else record

    report = eval_runs.report(tmp_path, change=noisy)
    assert any("set: the baseline differs from itself at batch size 4: -10.0 points" in flag for flag in report.flags)


def test_calibration_on_the_items_is_not_told(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, overlap={"r.toml": ["i4", "i5"]})
    assert any("2 of 400 items share text with what r.toml was calibrated on, first i4" in f for f in report.flags)


def test_identical_outputs_prove_anything(tmp_path: Path) -> None:
    report = eval_runs.report(tmp_path, n=60, margin=0.02)
    one = report.evals[0].arm("w#1")
    assert one is not None
    assert one.all is not None
    assert one.all.change.value == 0
    assert one.all.change.low < -0.02
    assert of_w(report).startswith("undecided: ")


def test_clusters_count_as_many_items(tmp_path: Path) -> None:
    alone = eval_runs.report(tmp_path / "a", worse=16).evals[0].arm("w#1")
    together = eval_runs.report(tmp_path / "b", worse=16, per_cluster=10).evals[0].arm("w#1")
    assert alone is not None
    assert together is not None
    assert alone.all is not None
    assert together.all is not None
    width = [one.all.change.high - one.all.change.low for one in (alone, together) if one.all]
    assert width[1] > 1.2 * width[0]


def test_holm_is_forgotten_where_several_levers_are_asked(tmp_path: Path) -> None:
    from specq.report.judged import judge

    report = eval_runs.report(tmp_path, worse=3, better=3).evals[0]
    (one,) = (arm for arm in report.arms if arm.arm == "w#1")
    assert one.all is not None
    p = one.all.change.p_within(0.02)
    assert p < 0.05
    many = replace(report, arms=tuple(replace(one, arm=f"w{k}#1") for k in range(int(0.05 / p) + 2)))
    assert judge([report], [])["w#1"].kind == "keep"
    assert {found.kind for found in judge([many], []).values()} == {"undecided"}


def test_a_report_leaves_quality_out(tmp_path: Path) -> None:
    text = render(eval_runs.report(tmp_path, worse=40, better=3, critical=(0,)))
    for part in ("Quality: set", "Flips: set", "Guards: set", "Noise floor", "Sensitivity probe", "CRITICAL"):
        assert part in text, part
    assert PROBE not in text


def test_an_arm_that_breaks_a_critical_item_has_no_outcome_where_no_margin_is_set(tmp_path: Path) -> None:
    (found,) = eval_runs.report(tmp_path, worse=1, critical=(0,), margin=None).evals
    one = found.arm("w#1")
    assert one is not None
    assert layout_quality._row(found, one)[-1] == "critical"
