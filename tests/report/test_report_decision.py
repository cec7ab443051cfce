"""What follows from quality in reports: the gate, the price of a correct answer, the least speed-up, what is served."""

from __future__ import annotations

from pathlib import Path

import eval_runs
import pytest
from test_report_quality import of_w


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
