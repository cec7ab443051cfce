"""What is said to be fastest of a joint grid is not what its verdict rejects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from specq.cli import grid_views
from specq.report.interplay import Rate


def cell(label: str, speed: float, verdict: str, *, measured: bool = True) -> Any:
    best = Rate.of(speed, speed - 0.1, speed + 0.1)
    return SimpleNamespace(cell=SimpleNamespace(label=label), best=best, is_measured=measured, verdict=verdict)


REJECTED = "Fastest of what was measured: small, 4.00 (3.90 to 4.10) times plain decoding, and rejected."


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([], []),
        ([cell("small", 4.0, "", measured=False)], []),
        (
            [cell("w8", 1.5, "keep"), cell("baseline", 1.0, "")],
            ["Fastest of what was measured: w8, 1.50 (1.40 to 1.60) times plain decoding."],
        ),
        (
            [cell("small", 4.0, "reject"), cell("forecast", 3.0, "", measured=False), cell("w8", 1.5, "undecided")],
            [REJECTED, "Fastest of what is not rejected: w8, 1.50 (1.40 to 1.60) times plain decoding (undecided)."],
        ),
        (
            [cell("small", 4.0, "reject"), cell("baseline", 1.0, "")],
            [REJECTED, "All that was measured is rejected: plain decoding of the plain target stays."],
        ),
    ],
)
def test_what_breaks_answers_is_said_to_be_the_fastest_and_no_more(cells: list[Any], said: list[str]) -> None:
    assert list(grid_views.fastest(cells)) == said
