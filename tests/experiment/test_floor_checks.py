"""Floors that no run could be held against: refused in the plan, in words that say what to set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plan_models import MakeModel

from specq.core.errors import ConfigError
from specq.evals import items, metrics
from specq.experiment import config, floor_checks, plan
from specq.experiment.eval_plan import PlannedEval
from specq.experiment.quality import Eval

LOOKUP = {"lookup": {"kind": "draft", "method": "lookup", "k": 4}}
LOSSY = {"fast": {**LOOKUP["lookup"], "rule": "lossy_threshold", "threshold": 0.3}}
PRICED: dict[str, Any] = {
    "price": {"per_hour": 1.0},
    "evals": [{"name": "e", "items": "i", "metric": "contains"}],
}


def experiment(floor: dict[str, Any], load: dict[str, Any] | None = None, **more: Any) -> Any:
    values = {
        "name": "x",
        "target": {"model": "m"},
        "workload": {"prompts": "p", **(load or {})},
        "levers": LOOKUP,
        "floor": floor,
    }
    return config.from_resolved({**values, **more})


def told(floor: dict[str, Any], prompts: int, load: dict[str, Any] | None = None, **more: Any) -> list[str]:
    found = floor_checks.refusals(experiment(floor, load, **more), prompts, [planned(one_cluster=True)])
    assert all(refusal.error is ConfigError and refusal.arm is None for refusal in found)
    return [refusal.reason for refusal in found]


def planned(count: int = 6, metric: str = "contains", *, one_cluster: bool = False) -> PlannedEval:
    rows = [
        {"id": f"i{n}", "prompt": f"p{n}", "reference": "a", "tags": ["t"] if n % 2 else []}
        | ({"cluster": "c"} if one_cluster else {})
        | ({"choices": ["a", "b"]} if metric == "choice" else {})
        for n in range(count)
    ]
    return PlannedEval(
        asked=Eval(name="e", items="i", metric=metric),
        items=tuple(items.read_line(json.dumps(row)) for row in rows),
        metric=metrics.make(metric),
        sha256="",
        tokens=(1,) * count,
        prompts=("",) * count,
    )


def test_a_ceiling_on_memory_that_is_not_measured_is_let_through() -> None:
    floor = {"peak_bytes": 1 << 30}
    assert told(floor, 9) == []
    (said,) = told(floor, 9, {"memory": False})
    assert said.startswith("floor.peak_bytes: workload.memory = false")
    assert "set workload.memory = true, or take the floor out" in said


@pytest.mark.parametrize("name", ["ttft_s", "tpot_s", "e2e_s"])
@pytest.mark.parametrize(("tail", "needed"), [("p95", 20), ("p99", 100)])
def test_a_percentile_of_too_few_answers_is_let_through(name: str, tail: str, needed: int) -> None:
    floor = {f"{name}_{tail}": 2.0}
    assert told(floor, needed // 4, {"repeats": 2, "processes": 2}) == []
    assert told(floor, needed, {"repeats": 1}) == []
    (said,) = told(floor, needed // 4 - 1, {"repeats": 2, "processes": 2})
    assert said == (
        f"floor.{name}_{tail}: {needed - 4} answers an arm ({needed // 4 - 1} prompts x 2 repeats x 2 processes), "
        f"and {tail} needs {needed}; give more prompts, repeats or processes, or take the floor out"
    )


def test_one_prompt_is_called_prompts() -> None:
    (said,) = told({"e2e_s_p95": 2.0}, 1, {"repeats": 1})
    assert "1 answer an arm (1 prompt x 1 repeat x 1 process)" in said


def test_the_time_of_a_token_is_asked_of_answers_of_one_token() -> None:
    floor = {"tpot_s_p95": 2.0, "speedup": 1.1}
    assert told(floor, 40, {"max_new_tokens": 2}) == []
    said = told(floor, 40, {"max_new_tokens": 1})
    assert [one.partition(":")[0] for one in said] == ["floor.tpot_s_p95", "floor.speedup on tpot_s"]
    assert told({"speedup": 1.1}, 40, {"max_new_tokens": 1}, objective={"minimise": "e2e_s"}) == []


def test_a_gain_on_one_prompt_is_let_through() -> None:
    assert told({"speedup": 1.1}, 2) == []
    (said,) = told({"speedup": 1.1}, 1)
    assert said.startswith("floor.speedup: one prompt has no spread")


def test_the_price_of_items_of_one_cluster_is_let_through() -> None:
    asked = experiment({"price_per_correct_answer": 0.1}, **PRICED)
    assert floor_checks.refusals(asked, 9, [planned()]) == []
    (refusal,) = floor_checks.refusals(asked, 9, [planned(one_cluster=True)])
    assert "one cluster" in refusal.reason


def test_a_smoke_run_is_refused_what_it_does_not_judge() -> None:
    floor = {"peak_bytes": 1, "e2e_s_p99": 2.0, "speedup": 2.0}
    assert len(told(floor, 1, {"memory": False, "repeats": 1})) == 3
    assert told(floor, 1, {"memory": False, "repeats": 1}, smoke=True) == []
    asked = experiment({"quality": {"e:none": 0.01}}, evals=PRICED["evals"], smoke=True)
    floor_checks.check_quality(asked, planned())


def test_a_floor_over_no_arm_is_passed_over() -> None:
    assert floor_checks.notes(experiment({"speedup": 1.1})) == []
    (note,) = floor_checks.notes(experiment({"speedup": 1.1}, levers={}))
    assert note.startswith("[floor] speedup: no arm stands beside the baseline")


def quality(margin: float, one: PlannedEval, key: str = "e", **more: Any) -> str:
    asked = experiment({"quality": {key: margin}}, evals=PRICED["evals"], **more)
    try:
        floor_checks.check_quality(asked, one)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("key", "count"), [("e", 40), ("e:t", 80)])
def test_a_refused_margin_is_answered_with_another_that_is_refused(key: str, count: int) -> None:
    said = quality(0.02, planned(count), key)
    assert said.endswith("; give a margin of 0.07, more items, or no floor")
    assert quality(0.07, planned(count), key) == ""
    assert quality(0.069, planned(count), key) != ""


def test_items_that_decide_nothing_are_offered_a_margin() -> None:
    assert quality(0.2, planned(3)).endswith("13 items or more can; give more items, or no floor")
    said = quality(0.2, planned(6))
    assert said.endswith("give a margin of 0.339, more items, or no floor")
    assert quality(0.339, planned(6)) == ""
    said = quality(0.2, planned(40, one_cluster=True))
    assert '"e": 40 items in 1 cluster, which count once each: ' in said


def test_a_score_on_one_cluster_is_held_against_a_margin() -> None:
    assert quality(0.2, planned(6, "token_f1")) == ""
    assert "one alone shows no spread" in quality(0.2, planned(6, "token_f1", one_cluster=True))


def test_a_lossy_draft_is_held_against_an_eval_that_does_not_see_it() -> None:
    assert "does not see the lossy rule of fast" in quality(0.1, planned(40, "choice"), levers=LOSSY)
    assert quality(0.1, planned(40, "choice"), levers={**LOSSY, **LOOKUP}) == ""
    assert quality(0.1, planned(40), levers=LOSSY) == ""


def of_six(folder: Path, tmp_path: Path, floor: dict[str, Any], **keys: Any) -> plan.Plan:
    """The plan of two prompts and an eval of six items, the last of which is critical."""
    (tmp_path / "p.jsonl").write_text('{"id": "raw", "prompt": "one"}\n{"id": "two", "prompt": "one two"}\n')
    rows = [{"id": f"i{n}", "prompt": "one", "reference": "a", "critical": n == 5} for n in range(6)]
    (tmp_path / "i.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    one = {"name": "e", "items": str(tmp_path / "i.jsonl"), "metric": "contains", "max_new_tokens": 4, **keys}
    load = {"prompts": str(tmp_path / "p.jsonl"), "max_new_tokens": 2}
    more = {"target": {"model": str(folder)}, "engine": {"device": "cpu"}, "evals": [one]}
    return plan.make(experiment(floor, load, **more), available_bytes=1 << 40)


def test_a_plan_runs_for_a_floor_that_nothing_is_held_against(make_model: MakeModel, tmp_path: Path) -> None:
    made = of_six(make_model(), tmp_path, {"ttft_s_p95": 2.0})
    with pytest.raises(ConfigError, match=r"floor\.ttft_s_p95: 4 answers an arm"):
        made.check()
    # Six items decide no margin that anyone gives, so that none is shown.
    (note,) = [note for note in made.notes if "no margin in [floor] quality" in note]
    assert note.endswith("no margin can be given, for 6 items cannot decide even 20 points; 13 or more can")


def test_a_limit_leaves_out_critical_items_in_silence(make_model: MakeModel, tmp_path: Path) -> None:
    folder = make_model()
    said = 'eval "e": limit = 5 leaves out 1 of 1 critical item: no arm is held to it'
    assert said in of_six(folder, tmp_path, {}, limit=5).notes
    assert not any("critical" in note for note in of_six(folder, tmp_path, {}, limit=6).notes)
