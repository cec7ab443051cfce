"""Arms: who is there, in which order, under which id."""

from __future__ import annotations

from typing import Any

import pytest

from specq.core.errors import ConfigError
from specq.core.types import TargetSpec
from specq.experiment import config
from specq.experiment.arms import Arm, arms
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


MIXED: dict[str, dict[str, Any]] = {
    "w4": {"kind": "quantize", "recipe": "w4.toml"},
    "q8": {"kind": "kv_cache", "type": "q8"},
    "lookup": {"kind": "draft", "method": "lookup"},
    "self8": {"kind": "draft", "method": "model", "model": "self", "bits": 8},
    "warm": {"kind": "prefix_cache"},
    "b4": {"kind": "batch", "size": 4},
}


def mixed(*run: str) -> dict[str, Arm]:
    found = experiment([]).resolved() | {"levers": MIXED, "arms": {"run": list(run)}}
    return {arm.id: arm for arm in arms(config.from_resolved(found))}


def test_levers_of_three_kinds_meet_in_one_arm() -> None:
    arm = mixed("w4 + q8 + self8")["q8+self8+w4#1"]
    assert arm.target == TargetSpec(recipe="w4.toml", prefill="dense", kv_cache="q8")
    assert arm.draft is not None
    assert (arm.draft.model, arm.draft.bits, arm.draft.group_size, arm.draft.head) == ("self", 8, 0, "keep")


def test_a_draft_on_a_changed_target_brings_that_targets_plain_arm_with_it() -> None:
    found = mixed("lookup", "lookup + w4")
    assert list(found) == ["baseline#1", "baseline#2", "lookup#1", "w4#1", "lookup+w4#1"]
    assert {id: arm.plain for id, arm in found.items()} == {
        **dict.fromkeys(("baseline#1", "baseline#2", "lookup#1"), "baseline#1"),
        **dict.fromkeys(("w4#1", "lookup+w4#1"), "w4#1"),
    }
    assert [id for id, arm in found.items() if arm.target != TargetSpec()] == ["w4#1", "lookup+w4#1"]


def test_how_requests_are_answered_is_taken_for_another_target() -> None:
    found = mixed("warm", "b4", "b4 + w4", "lookup + warm + w4")
    plain = {id: arm.plain for id, arm in found.items() if not id.startswith("baseline")}
    assert plain == {
        "warm#1": "baseline#1",
        "b4#1": "baseline#1",
        **dict.fromkeys(("w4#1", "b4+w4#1", "lookup+w4+warm#1"), "w4#1"),
    }
    assert found["b4#1"].target == TargetSpec(batch=4)
    arm = found["lookup+w4+warm#1"]
    assert (arm.target.prefix_cache, arm.target.law) == (True, found["w4#1"].target)
    # One load of the weights serves them all.
    assert len({one.target.weights for one in found.values()}) == 2


def test_a_draft_of_another_model_by_a_recipe_is_made_of_the_experiments_target() -> None:
    levers = {"small": {"kind": "model", "model": "org/small"}, "near": MIXED["self8"] | {"bits": None, "recipe": "r"}}
    values = experiment([]).resolved() | {"levers": MIXED | levers}
    found = {
        arm.id: arm.draft
        for run in ("near", "small + near", "small + self8")
        for arm in arms(config.from_resolved(values | {"arms": {"run": [run]}}))
        if arm.draft is not None
    }
    models = {id: draft.model for id, draft in found.items()}
    # In memory "self" is the arm's own target, whichever that is.
    assert models == {"near#1": "self", "near+small#1": "org/small", "self8+small#1": "self"}


def test_two_levers_of_one_kind_are_refused_in_one_arm() -> None:
    with pytest.raises(ConfigError, match='"lookup \\+ self8" has two levers of kind draft'):
        mixed("lookup + self8")
