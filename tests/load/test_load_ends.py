"""Where a win ends along the levels, and what long prompts do to the others: known values, and their intervals."""

from __future__ import annotations

from typing import Any

import pytest
from load_runs import attempt, request

from specq.load.ends import End, end
from specq.load.measures import Attempt
from specq.load.stalls import stall


def level(at: float, tpot_s: float, *, server: str = "server", wobble: float = 0.0, count: int = 12) -> list[Attempt]:
    """Prompts whose two tokens after the first take `tpot_s` each, more or less."""
    rows = []
    for n in range(count):
        step = tpot_s * (1 + wobble * (-1) ** n)
        rows.append(request(n, events_at_s=(1.0, 1.0 + step, 1.0 + 2 * step)))
    return [attempt(*rows, server=server, level=at)]


def found(ratios: dict[float, float], **how: Any) -> End:
    base = {at: level(at, 0.4, **how) for at in ratios}
    wobble = -how.pop("wobble", 0.0)
    other = {at: level(at, 0.4 / ratio, server="other", wobble=wobble, **how) for at, ratio in ratios.items()}
    told = end(base, other)
    assert told is not None
    return told


def test_a_win_ends_at_another_level_or_without_an_interval() -> None:
    # Halfway from 1.2 to 0.8 on the line over the logarithm of the level.
    told = found({1: 1.5, 2: 1.2, 4: 0.8}, wobble=0.05)
    assert told.at == pytest.approx(2 * 2**0.5, rel=1e-2)
    assert isinstance(told.low, float)
    assert isinstance(told.high, float)
    assert told.low < told.at < told.high  # type: ignore[operator]
    wide = found({1: 1.5, 2: 1.2, 4: 0.8}, wobble=0.1)
    assert wide.low < told.low  # type: ignore[operator]
    assert wide.high > told.high  # type: ignore[operator]
    few = found({1: 1.5, 2: 1.2, 4: 0.8}, count=4)
    assert (few.low, few.high, few.prompts) == (None, None, 4)


def test_a_win_ends_within_the_levels_where_it_ends_beyond_them() -> None:
    assert found({1: 1.5, 2: 1.2}) == End(at="above", low="above", high="above", prompts=12)
    assert found({1: 0.9, 2: 0.8}) == End(at="below", low="below", high="below", prompts=12)
    # It may end before the lowest level, and may end after it.
    unsure = found({1: 1.02, 2: 0.8}, wobble=0.08)
    assert unsure.low == "below"
    assert isinstance(unsure.high, float)


def test_prompts_that_one_server_never_answered_end_a_win() -> None:
    base, other = {1.0: level(1, 0.4)}, {1.0: [attempt(request(99), server="other")]}
    assert end(base, other) is None


def stalled(server: str, gap_s: float, *, long: int = 6, streams: int = 4, drift: float = 0.0) -> list[Attempt]:
    """Long prompts at 10, 20, ... s that are read for a second, in which streams first wait `gap_s`, else 0.1 s.

    Each further long prompt makes them wait longer by `drift`.
    """
    at = [10.0 * (number + 1) for number in range(long)]
    rows = [
        request(number, phase="inject", id=f"l{number}", prompt=f"l{number}", sent_at_s=one, events_at_s=(one + 1,))
        for number, one in enumerate(at)
    ]
    ends = [one + gap_s + drift * (number + 1) for number, one in enumerate(at)]
    grid = [round(0.1 * step, 6) for step in range(100 * (long + 1))]
    events = [now for now in grid if not any(one < now <= end for one, end in zip(at, ends, strict=True))]
    rows += [request(100 + stream, events_at_s=tuple(sorted([*events, *ends]))) for stream in range(streams)]
    return [attempt(*rows, server=server, level=4.0, end_at_s=10.0 * (long + 1))]


def test_a_difference_of_gaps_has_another_sign_size_or_unit() -> None:
    told = stall(stalled("whole", 0.9), stalled("chunk", 0.2))
    assert told is not None
    assert (told.server, told.level, told.prompts) == ("chunk", 4.0, 6)
    assert told.longest_s is not None
    assert told.longest_s.value == pytest.approx(-0.7)
    assert told.ttft_s is not None
    assert told.ttft_s.value == pytest.approx(0.0)
    # 4 streams with two or three gaps a long prompt are too few for a p99.
    assert told.p99_s is None
    same = stall(stalled("whole", 0.2), stalled("chunk", 0.2))
    assert same is not None
    assert same.p99_s is not None
    assert (same.p99_s.value, same.p99_s.low, same.p99_s.high) == (0.0, 0.0, 0.0)


def test_a_difference_of_gaps_comes_without_its_interval_over_long_prompts() -> None:
    told = stall(stalled("whole", 0.2, drift=0.02, streams=8), stalled("chunk", 0.15, streams=8))
    assert told is not None
    assert told.p99_s is not None
    assert told.longest_s is not None
    # The long prompts' gaps are 0.22 to 0.32 s: pooled their p99 is the longest, and a resample may lack that one.
    assert told.p99_s.value == pytest.approx(0.15 - 0.32, abs=1e-6)
    assert told.p99_s.low == pytest.approx(told.p99_s.value)
    assert told.p99_s.high is not None
    assert -0.15 < told.p99_s.high < 0
    assert told.p99_s.clusters == 6
    assert told.longest_s.low is not None
    assert told.longest_s.low < told.longest_s.value == pytest.approx(0.15 - 0.27)
    few = stall(stalled("whole", 0.2, long=4, streams=20), stalled("chunk", 0.15, long=4, streams=20))
    assert few is not None
    assert few.p99_s is not None
    assert few.p99_s.low is None


def test_long_prompts_that_failed_are_held_against_each_other() -> None:
    base = stalled("whole", 0.2)
    rows = tuple(request(0, phase="inject", prompt="l0", error="cut") for _ in range(1))
    assert stall(base, [attempt(*rows, server="chunk", level=4.0)]) is None
