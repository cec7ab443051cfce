"""What a report says of what was not measured: of whom, and why; and never beside a measurement of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from report_runs import PLAIN, generated

from specq.report import floors, layout_outputs
from specq.report.measures import Measure, of_arm


def untold(floor: dict[str, Any], answers: int) -> list[str]:
    found = of_arm([generated("a", f"p{i}", PLAIN) for i in range(answers)])
    case: Any = SimpleNamespace(measures={measure.name: measure for measure in found}, price=None)
    return floors.ceilings(case, floor)[1]


@pytest.mark.parametrize(
    ("floor", "answers", "why"),
    [
        ({"ttft_s_p95": 99.0}, 6, "the floor's ttft_s_p95 cannot be told: 6 generations, and p95 needs 20"),
        ({"e2e_s_p99": 99.0}, 1, "the floor's e2e_s_p99 cannot be told: 1 generation, and p99 needs 100"),
        ({"tpot_s_p99": 99.0}, 99, "the floor's tpot_s_p99 cannot be told: 99 generations, and p99 needs 100"),
        ({"peak_bytes": 1 << 40}, 1, "the floor's peak_bytes cannot be told: it was not measured"),
    ],
)
def test_why_a_ceiling_cannot_be_told_is_garbled(floor: dict[str, Any], answers: int, why: str) -> None:
    assert untold(floor, answers) == [why]


def test_a_ceiling_that_is_told_is_called_unknown() -> None:
    assert untold({"ttft_s_p95": 99.0}, 20) == []


def arm(label: str, *measures: str) -> Any:
    return SimpleNamespace(
        label=label, measures={name: Measure(name=name, unit="share", value=0.5) for name in measures}
    )


def test_quality_that_was_measured_is_said_not_to_be() -> None:
    scored, bare, other = arm("w4", "speedup", "quality.mine"), arm("w8", "speedup"), arm("w3")
    assert layout_outputs._costs([scored]) == "What that costs on your task stands under Quality."
    assert layout_outputs._costs([bare]) == "What that costs on your task is not measured."
    assert (
        layout_outputs._costs([scored, bare, other])
        == "What that costs on your task stands under Quality; of w8, w3 it is not measured."
    )
