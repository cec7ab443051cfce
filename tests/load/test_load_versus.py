"""One server against another: ratios with known values, and where a win ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from load_runs import attempt, found, request

from specq.load.measures import Attempt
from specq.load.versus import Ratio, ratio, win
from specq.load.words import answer
from specq.stats.intervals import Interval


def level(tpot_s: float, count: int = 8, wobble: float = 0.0, **point: object) -> Attempt:
    """Prompts whose tokens after the first take `tpot_s`, more or less."""
    rows = []
    for n in range(count):
        step = tpot_s * (1 + wobble * (-1) ** n)
        at = (1.0, 1.0 + step, 1.0 + 2 * step)
        rows.append(request(n, events_at_s=at, output_sha256="a" if n else "b", point=point.get("point", "server@1#1")))
    return attempt(*rows, **point)


def test_a_ratio_has_another_value_or_lies_the_other_way_round() -> None:
    base, other = level(0.4, wobble=0.1), level(0.2, wobble=-0.1, server="other")
    found = ratio([base], [other], closed=True)
    assert found.speedup is not None
    assert found.speedup.value == pytest.approx(2.0)
    assert found.speedup.low is not None
    assert found.speedup.low < 2.0 < (found.speedup.high or 0)
    assert found.e2e_speedup is not None
    assert found.e2e_speedup.value == pytest.approx(1.8 / 1.4)
    assert found.throughput is not None
    assert found.throughput.value == pytest.approx(1.0)
    assert (found.same, found.compared) == (8, 8)


def test_prompts_that_one_server_failed_are_compared() -> None:
    base = level(0.4)
    other = attempt(
        *(request(n, events_at_s=(1.0, 1.2, 1.4), error=None if n < 3 else "cut") for n in range(8)), server="other"
    )
    found = ratio([base], [other], closed=True)
    assert found.compared == 3
    none = ratio([base], [attempt(request(99), server="other")], closed=True)
    assert (none.speedup, none.e2e_speedup, none.compared) == (None, None, 0)


def of(level: float, value: float, half: float) -> Ratio:
    interval = Interval(value=value, low=value - half, high=value + half, n=9, spread=0.1, method="t")
    return Ratio(server="other", level=level, speedup=interval, e2e_speedup=None, throughput=None, same=0, compared=9)


def test_a_win_ends_elsewhere_than_where_its_interval_reaches_1() -> None:
    told = win([of(8, 0.9, 0.05), of(1, 1.5, 0.1), of(2, 1.3, 0.1), of(4, 1.1, 0.2)])
    assert (told.last, told.first_not) == (2, 4)
    assert win([of(1, 1.5, 0.1), of(2, 1.4, 0.1)]) == win([of(2, 1.4, 0.1), of(1, 1.5, 0.1)])
    assert win([of(1, 1.5, 0.1)]).first_not is None
    never = win([of(1, 0.8, 0.1), of(2, 1.5, 0.1)])
    assert (never.last, never.first_not) == (None, 1)


def test_the_answer_does_not_say_where_the_win_ends(tmp_path: Path) -> None:
    attempts = []
    for at, slow in ((1.0, 0.2), (2.0, 0.4), (4.0, 0.8)):
        attempts.append(level(0.4, wobble=0.05, point=f"server@{at:g}#1", level=at))
        attempts.append(level(slow, wobble=-0.05, point=f"other@{at:g}#1", level=at, server="other"))
    told = answer(found(tmp_path, attempts))
    assert "other is faster than server a token up to concurrency 1 (2.0" in told
    assert "and no longer surely at 2 (1.0" in told
    assert "; the ratio falls through 1 at concurrency 2 (95 % interval over 8 prompts: 1." in told
