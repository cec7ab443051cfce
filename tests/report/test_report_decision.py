"""What follows from quality in reports: the gate, the price of a correct answer, the least speed-up, what is served."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import eval_runs
import pytest
from test_report_quality import of_w

from specq.core.evaluated import EvalAnswer
from specq.report import Report, price


def test_a_gate_lets_an_arm_through_that_is_not_kept(tmp_path: Path) -> None:
    import specq
    from specq.core.errors import ConfigError, GateFailed

    kept = eval_runs.report(tmp_path / "a", worse=2, better=2, audit={"enabled": False})
    specq.check_gate(kept, "w")
    specq.check_gate(kept, "w#1")
    with pytest.raises(GateFailed, match="undecided: w is"):
        specq.check_gate(eval_runs.report(tmp_path / "b", worse=12, better=10, audit={"enabled": False}), "w")
    with pytest.raises(GateFailed, match="reject: w is"):
        specq.check_gate(eval_runs.report(tmp_path / "c", worse=40), "w")
    with pytest.raises(ConfigError, match="no arm \"lokup\", did you mean 'lookup'"):
        specq.check_gate(kept, "lokup")


def test_a_gate_lets_a_margin_through_that_cannot_be_told(tmp_path: Path) -> None:
    import specq
    from specq.core.errors import GateFailed

    open_ = eval_runs.report(tmp_path / "a", worse=12, better=10, audit={"enabled": False})
    with pytest.raises(GateFailed, match=r"w#1: set: .* cannot tell it from"):
        specq.check_gate(open_)
    blind = eval_runs.report(tmp_path / "b", worse=2, better=2, probe_worse=0, audit={"enabled": False})
    with pytest.raises(GateFailed, match="did not notice"):
        specq.check_gate(blind)


def test_a_gate_calls_arms_otherwise_before_a_run_than_after_it() -> None:
    from specq.experiment.schema import Experiment
    from specq.report.gate import names_of

    drafts = {"lookup": {"kind": "draft", "method": "lookup"}, "q": {"kind": "kv_cache", "type": "q8"}}
    values = {"name": "x", "target": {"model": "m"}, "workload": {"prompts": "p"}, "levers": drafts}
    asked = Experiment.model_validate(values | {"arms": {"run": ["each", "lookup + q"]}})
    assert {"lookup", "lookup#1", "lookup + q", "lookup+q#1"} <= set(names_of(asked))


def test_a_correct_answer_costs_what_speed_alone_says(tmp_path: Path) -> None:
    price = {"per_hour": 3.6, "currency": "EUR"}
    objective = {"minimise": "price_per_correct_answer"}
    report = eval_runs.report(
        tmp_path, worse=40, margin=0.5, price=price, objective=objective, audit={"enabled": False}
    )
    base, arm = report.arm("baseline#1").measures, report.arm("w#1").measures
    seconds, value = base["device_s_per_answer"].value, base["price_per_correct_answer"].value
    assert seconds is not None
    assert value == pytest.approx(seconds * 0.001 / 0.5)
    gain, speed = arm["price_advantage"], arm["e2e_speedup"]
    assert gain.value is not None
    assert speed.value is not None
    assert gain.value == pytest.approx(speed.value * 0.4 / 0.5)
    assert gain.low is not None
    assert gain.high is not None
    assert gain.low < gain.value < gain.high
    assert (gain.high / gain.low) > (speed.high or 0) / (speed.low or 1), "the items' uncertainty is added"
    assert "times as many correct answers for the money" in of_w(report)


PRICED: dict[str, Any] = {"price": {"per_hour": 3.6, "currency": "EUR"}, "audit": {"enabled": False}, "n": 60}


def priced(folder: Path, ceiling: float, **more: Any) -> Report:
    floor = {"quality": {"set": 0.5}, "price_per_correct_answer": ceiling}
    return eval_runs.report(folder, worse=5, probe_worse=30, floor=floor, **PRICED | more)


def test_a_price_is_held_to_its_ceiling_by_its_point_value(tmp_path: Path) -> None:
    measure = priced(tmp_path / "a", 1.0).arm("w#1").measures["price_per_correct_answer"]
    value, low, high = measure.value, measure.low, measure.high
    assert value is not None
    assert low is not None
    assert high is not None
    assert low < value < high
    assert high / value > (30 / 23), "the share right is uncertain too"
    # Ends of the two-sided interval are stricter than the one-sided bounds that decide.
    assert of_w(priced(tmp_path / "b", high)).startswith("keep: ")
    assert "price_per_correct_answer is breached" in of_w(priced(tmp_path / "c", low))
    for name, ceiling in (("d", 1.02 * value), ("e", 0.98 * value)):
        said = of_w(priced(tmp_path / name, ceiling))
        assert said.startswith("undecided: ")
        assert "price_per_correct_answer cannot be told" in said
        assert " more items at this spread would decide" in said


def test_no_right_answer_has_a_price_that_cannot_be_told(tmp_path: Path) -> None:
    def wrong(record: EvalAnswer) -> EvalAnswer:
        return replace(record, score=0.0) if record.arm == "w#1" else record

    far, near = (priced(tmp_path / name, ceiling, change=wrong) for name, ceiling in (("a", 1e-9), ("b", 1.0)))
    assert "price_per_correct_answer is breached: no answer of it is right (at least " in of_w(far)
    assert "price_per_correct_answer cannot be told: no answer of it is right" in of_w(near)
    assert "none of 60 items is right" in of_w(near)


def test_an_arm_without_scores_is_rejected_for_its_price(tmp_path: Path) -> None:
    def fails(record: EvalAnswer) -> EvalAnswer:
        return replace(record, score=None, why="it raised") if record.arm == "w#1" else record

    objective = {"minimise": "price_per_correct_answer"}
    report = eval_runs.report(tmp_path, change=fails, objective=objective, **PRICED)
    assert of_w(report) == "undecided: w is undecided: it has no scores, so prices of correct answers cannot be told."


def test_more_of_what_would_decide_a_price_is_told_wrongly() -> None:
    def half(size: float, n: int, what: str) -> price._Half:
        return price._Half(down=size, up=size, n=n, what=what)

    def more(seconds: float, right: float, ceiling: float) -> str:
        halves = (half(seconds, 10, "prompts"), half(right, 100, "items"))
        return price.Price(value=1.0, low=0.5, high=2.0, halves=halves).more(ceiling)

    assert more(0.0, 0.2, math.exp(0.1)) == "about 300 more items at this spread would decide"
    assert more(0.2, 0.0, math.exp(-0.1)) == "about 30 more prompts at this spread would decide"
    assert more(0.2, 0.2, math.exp(0.1)) == "about 8.0 times as many prompts and items at this spread would decide"
    assert more(0.2, 0.2, 1.0) == "no number of prompts and items in reach would decide"


def test_the_least_speedup_of_the_floor_is_ignored(tmp_path: Path) -> None:
    slow = eval_runs.report(tmp_path / "a", floor={"quality": {"set": 0.02}, "speedup": 1.5})
    assert "the floor's speedup is breached: speedup 1.30" in of_w(slow)
    assert of_w(slow).startswith("reject: ")


def test_a_lever_within_the_floor_is_never_recommended(tmp_path: Path) -> None:
    off = {"audit": {"enabled": False}, "lookup_times": 1.0}
    kept = eval_runs.report(tmp_path / "a", worse=2, better=2, **off)
    assert kept.recommendation.startswith("Serve with w: speedup 1.30")
    assert "it changes the outputs, and is within the floor on quality (p = " in kept.recommendation
    assert "set: +0.0 points, 2 items worse and 2 better of 400" in kept.recommendation
    rejected = eval_runs.report(tmp_path / "b", worse=40, **off)
    assert rejected.recommendation.startswith("Stay with plain decoding (w breaches the floor (set: -10.0 points")
