"""Arms: who is there, in which order, under which id."""

from __future__ import annotations

from typing import Any

from specq.experiment import config
from specq.experiment.arms import arms
from specq.experiment.schema import Experiment


def experiment(levers: list[str], run: list[str] | None = None) -> Experiment:
    values: dict[str, Any] = {
        "name": "x",
        "target": {"model": "a/b"},
        "workload": {"prompts": "p.jsonl"},
        "levers": {name: {"kind": "draft", "method": "lookup", "k": 2} for name in levers},
    }
    if run is not None:
        values["arms"] = {"run": run}
    return config.from_resolved(values)


def test_baseline_and_its_twin_are_always_there_and_first() -> None:
    alone = arms(experiment([]))
    assert [(arm.id, arm.levers, arm.replica, arm.draft) for arm in alone] == [
        ("baseline#1", (), 1, None),
        ("baseline#2", (), 2, None),
    ]
    assert [arm.id for arm in arms(experiment(["b", "a"]))] == ["baseline#1", "baseline#2", "b#1", "a#1"]


def test_ids_do_not_depend_on_the_order_of_levers_or_of_the_run_list() -> None:
    one = {arm.id: arm for arm in arms(experiment(["a", "b"], ["a", "b"]))}
    other = {arm.id: arm for arm in arms(experiment(["b", "a"], ["b", "a"]))}
    assert one == other


def test_arm_that_is_asked_for_twice_runs_once() -> None:
    assert [arm.id for arm in arms(experiment(["a", "b"], ["b", "each", "b"]))][2:] == ["b#1", "a#1"]


def test_lever_that_no_arm_names_does_not_run() -> None:
    assert [arm.id for arm in arms(experiment(["a", "b"], ["a"]))][2:] == ["a#1"]


def test_arm_carries_its_draft() -> None:
    arm = arms(experiment(["a"]))[2]
    assert arm.draft is not None
    assert (arm.draft.method, arm.draft.k, arm.draft.rule) == ("lookup", 2, "greedy_draft")
