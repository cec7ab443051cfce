"""A machine whose speed moves between the measurements of one target is told."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from specq.cli import grid_views
from specq.forecast import drift, joint
from specq.forecast.cost import Curve, Point
from specq.forecast.scale import Plain
from specq.report.interplay import ONE


def curve(plain_s: float, prompt: int = 20) -> Curve:
    points = [Point(proposed=k, draft_s=0.0, verify_s=plain_s, rest_s=0.0, n=20, spread=0.0) for k in (0, 1)]
    return Curve(plain=points[0], points=(points[1],), context=prompt + 4, measured_s=1.0, prefill_tokens=prompt)


@pytest.mark.parametrize(
    ("curves", "others", "says"),
    [
        ([curve(0.131), curve(0.562)], [], "131 ms in one measurement and 562 ms (4.3 times that) in another"),
        ([curve(0.1)], [0.2], "100 ms in one measurement and 200 ms (2.0 times that)"),
        ([replace(curve(0.1), copies=curve(0.2))], [], "(2.0 times that)"),
        ([curve(0.1), curve(0.14)], [0.12], ""),
        # Another context takes its own time.
        ([replace(curve(0.1), depths=(curve(0.1), curve(0.3, prompt=900)))], [0.2], ""),
    ],
)
def test_plain_steps_of_one_target_lie_far_apart_in_silence(
    curves: list[Curve], others: list[float], says: str
) -> None:
    told = drift.told(dict(zip("ab", curves, strict=False)), others)
    assert says in told
    assert bool(told) is bool(says)


def test_a_target_of_a_grid_that_moved_stands_there_without_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"baseline": 0.131, "w4": 0.1}
    made: Any = joint.Grid(
        laid=SimpleNamespace(  # type: ignore[arg-type]
            asked=SimpleNamespace(
                experiment=SimpleNamespace(workload=SimpleNamespace(temperature=0.0, max_new_tokens=9))
            ),
            plan=SimpleNamespace(prompts=[1, 2]),
        ),
        studies={
            "baseline": SimpleNamespace(curves={"d": curve(0.562)}, past_end=0),  # type: ignore[dict-item]
            "w4": SimpleNamespace(curves={"d": curve(0.1)}, past_end=0),  # type: ignore[dict-item]
        },
        plain={name: Plain(step_s=one, speedup=ONE, turns=8) for name, one in seconds.items()},
        cells=(),
        pairs={},
        seconds={},
    )
    monkeypatch.setattr(grid_views, "unmeasured", lambda found: None)
    monkeypatch.setattr(grid_views, "_grid", lambda found: iter(()))
    file = io.StringIO()
    Console(file=file, width=1000).print(*grid_views.forecast(made))
    assert "baseline: The machine's speed moved: a plain step took 131 ms" in file.getvalue()
    assert "w4: " not in file.getvalue()
