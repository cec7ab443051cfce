"""What is asked of an experiment file, which cells are run, and how they become arms; no model is loaded."""

from __future__ import annotations

from typing import Any

import pytest

from specq.core.errors import ConfigError
from specq.experiment.arms import arms
from specq.experiment.config import from_resolved
from specq.experiment.schema import Experiment
from specq.forecast import joint_live, joint_plan, of_file, scale
from specq.report.forecast_grid import BASELINE, GridCell

LOOKUP = {"kind": "draft", "method": "lookup", "k": 4}
SELF8 = {"kind": "draft", "method": "model", "model": "self", "bits": 8, "k": 4}
W4 = {"kind": "quantize", "recipe": "w4.toml"}
W8 = {"kind": "quantize", "recipe": "w8.toml"}
CACHE = {"kind": "kv_cache", "type": "q8"}


def asked(**levers: dict[str, Any]) -> Experiment:
    return from_resolved(
        {
            "name": "grid",
            "target": {"model": "m"},
            "workload": {"prompts": "p.jsonl", "repeats": 3, "memory": False},
            "levers": levers,
            "evals": [{"name": "sums", "items": "sums.jsonl", "metric": "number_match"}],
            "floor": {"quality": {"sums": 0.1}},
        }
    )


def cell(target: str, draft: str | None, speedup: float, width: float = 0.1, **more: Any) -> GridCell:
    k, rule = (None, None) if draft is None else (more.pop("k", 4), more.pop("rule", "rejection"))
    return GridCell(
        target=target,
        draft=draft,
        k=k,
        rule=rule,
        speedup=speedup,
        low=speedup - width,
        high=speedup + width,
        over_target=1.0,
        over_low=0.9,
        over_high=1.1,
        bytes=1,
        **more,
    )


CELLS = [
    cell("w4", "lookup", 2.4),
    cell("w4", None, 2.0),
    cell("w4", "early", 1.9),
    cell("w8", "lookup", 1.8),
    cell(BASELINE, "self8", 1.5),
    cell("w8", None, 1.4),
    cell(BASELINE, "lookup", 1.3),
    cell(BASELINE, None, 1.0, width=0.0),
    GridCell(target="w4", draft="self8", why_not="it cannot be rounded once more"),
]


def names(cells: tuple[GridCell, ...]) -> list[tuple[str, str | None]]:
    return [(one.target, one.draft) for one in cells]


def test_a_file_without_drafts_is_studied_or_refused_without_what_to_do() -> None:
    for levers, kinds in (({"c8": CACHE}, "kv_cache: c8"), ({"w4": W4}, "quantize: w4"), ({}, "are none")):
        with pytest.raises(ConfigError, match=f"no lever of kind draft.*{kinds}.*specq run FILE"):
            of_file.ask(asked(**levers), targets=True)


def test_levers_that_propose_the_same_are_studied_twice_and_lossy_ones_under_a_lossy_rule() -> None:
    lossy = SELF8 | {"rule": "lossy_threshold", "threshold": 0.3}
    found = of_file.ask(
        asked(k1=SELF8 | {"k": 1}, k8=SELF8 | {"k": 8}, lossy=lossy, near=LOOKUP, w4=W4, c8=CACHE), targets=True
    )
    assert (found.targets, found.drafts) == (("w4",), ("k1", "near"))
    assert list(found.experiment.levers) == ["w4", "k1", "near"]
    assert found.experiment.evals
    said = " ".join(found.notes)
    assert "k8, lossy propose as k1 does" in said
    assert "lossy: lossy_threshold is lossy" in said
    assert "c8 change the cache" in said
    assert len(found.notes) == 3
    (alone,) = of_file.ask(asked(lossy=lossy), targets=False).experiment.levers.values()
    assert (alone.rule, alone.threshold) == ("rejection", None)


@pytest.mark.parametrize("targets", [True, False])
def test_answers_of_one_token_are_told_after_the_models_were_loaded_and_measured(targets: bool) -> None:
    short = asked(near=LOOKUP, w4=W4)
    short = short.model_copy(update={"workload": short.workload.model_copy(update={"max_new_tokens": 1})})
    with pytest.raises(ConfigError, match=r"^grid: workload.max_new_tokens = 1: .*allowed is 2 or more"):
        of_file.ask(short, targets=targets)


@pytest.mark.parametrize("targets", [True, False])
def test_levers_that_no_forecast_knows_are_dropped_in_silence(targets: bool) -> None:
    others = {
        "tidy": {"kind": "prompt"},
        "warm": {"kind": "prefix_cache"},
        "b4": {"kind": "batch", "size": 4},
        "c8": CACHE,
    }
    found = of_file.ask(asked(near=LOOKUP, **others), targets=targets)
    assert list(found.experiment.levers) == ["near"]
    left_out = {note.split()[0]: note for note in found.notes}
    assert set(left_out) == set(others)
    assert all(note.endswith("left out: specq run measures them") for note in left_out.values())
    assert "tidy change the prompts" in left_out["tidy"]


def test_targets_are_dropped_in_silence_where_drafts_alone_are_asked() -> None:
    found = of_file.ask(asked(near=LOOKUP, w4=W4), targets=False)
    assert (found.targets, list(found.experiment.levers)) == ((), ["near"])
    assert any("w4 change the target" in note for note in found.notes)
    assert of_file.changes_target(asked(near=LOOKUP, w4=W4))
    assert not of_file.changes_target(asked(near=LOOKUP, c8=CACHE))


def test_another_model_is_no_target_of_the_grid_or_of_its_live_run() -> None:
    small = {"kind": "model", "model": "small"}
    experiment = asked(small=small, w4=W4, lookup=LOOKUP)
    assert of_file.changes_target(asked(small=small, near=LOOKUP))
    found = of_file.ask(experiment, targets=True)
    assert (found.targets, found.drafts) == (("small", "w4"), ("lookup",))
    whole = joint_plan.with_arms(found.experiment, ["each", "small + lookup"])
    keys = {arm.id: joint_plan.key(arm, whole) for arm in arms(whole)}  # type: ignore[arg-type]
    assert keys["small#1"] == ("small", None)
    assert keys["lookup+small#1"] == ("small", "lookup")
    made = joint_live.experiment(found.experiment, [cell("small", None, 2.0), cell("small", "lookup", 2.4)])
    assert [arm.id for arm in arms(made)][2:] == ["small#1", "lookup_k4+small#1"]
    assert arms(made)[3].target.source == "small"


def test_the_best_cell_runs_without_the_arms_that_it_is_held_against() -> None:
    found = joint_live.chosen(CELLS, 4)
    assert names(found.cells) == [("w4", "lookup"), ("w4", None), ("w8", None), (BASELINE, "lookup")]
    # Each target's best draft; w4 + early is apart from the best.
    assert names(found.left_out) == [("w8", "lookup"), (BASELINE, "self8")]
    assert names(joint_live.chosen(CELLS, 6).cells)[4:] == [("w8", "lookup"), (BASELINE, "self8")]


def test_what_the_forecast_cannot_part_from_the_best_is_not_run() -> None:
    near = [cell("w4", "early", 2.35), *(one for one in CELLS if one.draft != "early")]
    near.sort(key=lambda one: -(one.speedup or 0))
    assert ("w4", "early") in names(joint_live.chosen(near, 9).cells)
    vague = [GridCell(target=BASELINE, draft="a", k=1, rule="match", speedup=2.0), cell(BASELINE, "b", 1.1)]
    assert names(joint_live.chosen(vague, 9).cells) == [(BASELINE, "a"), (BASELINE, "b")]


def test_one_cell_that_is_asked_for_is_not_the_best_or_lacks_what_it_is_held_against() -> None:
    found = joint_live.chosen([cell("w8", "lookup", 1.8), cell("w4", None, 1.2), cell("w8", None, 1.1)], 1)
    # The arm of the pair brings its target's plain arm with it, as the experiment has it.
    assert names(found.cells) == [("w8", "lookup"), ("w8", None)]
    assert names(found.left_out) == [("w4", None)]
    made = joint_live.experiment(of_file.ask(asked(w8=W8, lookup=LOOKUP), targets=True).experiment, found.cells[:1])
    assert [arm.id for arm in arms(made)][2:] == ["w8#1", "lookup_k4+w8#1"]
    # A best draft of the plain target is held against the baseline, and a best target alone needs no other.
    assert names(joint_live.chosen([cell(BASELINE, "lookup", 1.8), cell("w4", None, 1.2)], 1).cells) == [
        (BASELINE, "lookup")
    ]
    assert names(joint_live.chosen(CELLS[1:], 1).cells) == [("w4", None)]
    assert names(joint_live.chosen([one for one in CELLS if one.draft is None][-1:], 6).cells) == []


def test_the_live_run_has_other_arms_settings_or_evals_than_were_asked() -> None:
    source = of_file.ask(asked(w4=W4, w8=W8, lookup=LOOKUP, self8=SELF8), targets=True).experiment
    cells = [
        cell("w4", None, 2.0),
        cell("w4", "lookup", 2.4, k=6, rule="greedy_draft"),
        cell(BASELINE, "lookup", 1.3, k=2, rule="greedy_draft"),
        cell(BASELINE, "self8", 1.2),
    ]
    made = joint_live.experiment(source, cells)
    assert [arm.id for arm in arms(made)] == [
        *("baseline#1", "baseline#2", "w4#1", "lookup_k6+w4#1", "lookup_k2#1", "self8_k4#1"),
    ]
    assert (made.levers["lookup_k6"].k, made.levers["lookup_k2"].k) == (6, 2)
    assert "w8" not in made.levers
    assert (made.workload.repeats, made.evals, made.floor) == (3, source.evals, source.floor)


def test_one_draft_under_two_rules_gets_one_name() -> None:
    cells = [cell("w4", "self8", 2.0, rule="block"), cell(BASELINE, "self8", 1.5, rule="rejection")]
    assert joint_live.levers(cells) == {("w4", "self8"): "self8_k4_block", (BASELINE, "self8"): "self8_k4_rejection"}


def test_targets_are_scaled_by_means_of_other_turns() -> None:
    # The machine slows down threefold from turn to turn; the ratio in each turn stays.
    drift = [1.0, 1.5, 2.0, 3.0]
    found = scale.scaled({BASELINE: [0.04 * one for one in drift], "w4": [0.02 * one for one in drift]})
    assert found[BASELINE].speedup.value == 1.0
    assert found["w4"].speedup.value == pytest.approx(2.0)
    assert found["w4"].speedup.low == pytest.approx(2.0)
    assert found["w4"].turns == 4
    uneven = scale.scaled({BASELINE: [1.0, 1.0, 1.0], "w4": [0.5, 0.4, 0.6]})["w4"].speedup
    assert uneven.low is not None
    assert uneven.high is not None
    assert uneven.low < 2.0 < uneven.high
