"""What the plan found that an eval cannot be asked, and what it left out, must stand in the report with its reason."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import eval_runs

from specq.report import guards


def plain_run() -> Any:
    """A run with one arm beside the baseline, whose weights nobody changed."""
    return SimpleNamespace(
        info={"arms": [{"id": "baseline#1"}, {"id": "baseline#2"}, {"id": "lookup#1"}]},
        baselines=("baseline#1", "baseline#2"),
        setting=lambda *keys, default: {("engine", "kind"): "hf"}.get(keys, default),
        target=lambda arm: None,
    )


def eval_of(**changes: Any) -> dict[str, Any]:
    items = [{"id": "a", "critical": False}]
    plain = {"output": "text", "binary": True, "twin_batch_size": None, "probe": 0.0, "overlap": {}, "items": items}
    return {**plain, **changes}


def test_the_reason_of_the_plan_is_replaced_by_a_guess(monkeypatch: Any) -> None:
    monkeypatch.setattr(guards.controls, "recipe", lambda run, name: None)
    run = plain_run()
    one = eval_of(one_by_one="compiled passes take one row of text", unprobed="m has no linear layers to put noise on")
    found = guards.unmeasured(run, one, None, None)
    assert found[guards.NOISE].startswith("compiled passes take one row of text, so there is no other batch size")
    assert found[guards.PROBED] == "m has no linear layers to put noise on"
    found = guards.unmeasured(run, eval_of(), None, None)
    assert found[guards.NOISE].startswith("the engine hf answers one prompt at a time")
    assert found[guards.PROBED] == "probe = 0 in its table"
    # A smoke run leaves the probe out, whatever the table says.
    run.setting = lambda *keys, default: {("engine", "kind"): "hf", ("smoke",): True}.get(keys, default)
    assert guards.unmeasured(run, eval_of(), None, None)[guards.PROBED] == "a smoke run makes none"


def test_words_that_were_left_out_of_the_look_for_overlaps_are_not_told() -> None:
    base = {"a": eval_runs.answer("baseline#1", 0, 1.0)}
    (said,) = guards.eval_flags("e", eval_of(overlap_left_out={"r.toml": 3}), base)
    assert said.startswith("e: 3 runs of words that most items share stand in what r.toml was calibrated on")
    assert list(guards.eval_flags("e", eval_of(overlap_left_out={}), base)) == []
