"""The knee and the floor, on queues whose curves are known."""

from __future__ import annotations

import heapq
import math
import random

import numpy as np
import pytest
from load_runs import attempt, request

from specq.load.curve import Held, Spot, held, highest_held, knee
from specq.load.measures import latency
from specq.load.sure import of_floors

RATES = [0.1 * n for n in range(1, 10)]


def erlang_c(servers: int, load: float) -> float:
    """The chance that a request of an M/M/c queue waits (Erlang's C formula); `load` is rate over service rate."""
    terms = [load**n / math.factorial(n) for n in range(servers)]
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(terms) + last)


def response(servers: int, rate: float) -> float:
    """Mean seconds in an M/M/c queue of service rate 1."""
    return erlang_c(servers, rate) / (servers - rate) + 1.0


def simulated(servers: int, rate: float, count: int, seed: int) -> float:
    """The same, of requests that are really put through a queue."""
    rng = random.Random(seed)
    free = [0.0] * servers
    now, total = 0.0, 0.0
    for _ in range(count):
        now += rng.expovariate(rate)
        ends = max(now, heapq.heappop(free)) + rng.expovariate(1.0)
        heapq.heappush(free, ends)
        total += ends - now
    return total / count


def test_an_m_m_1_queue_has_its_knee_elsewhere_than_at_half() -> None:
    # The response is exponential with mean 1 / (1 - rate), so that medians are means times log 2.
    spots = [Spot(level=rate, throughput=rate, latency_s=math.log(2) / (1 - rate)) for rate in RATES]
    found = knee(spots)
    assert found is not None
    assert (found.level, found.where) == (0.5, "inside")
    assert found.power == pytest.approx(0.25 / math.log(2))


@pytest.mark.parametrize("servers", [1, 2, 4])
def test_the_knee_of_a_queue_that_was_run_is_not_that_of_its_formula(servers: int) -> None:
    rates = [servers * rate for rate in RATES]
    exact = knee([Spot(level=rate, throughput=rate, latency_s=response(servers, rate)) for rate in rates])
    run = knee(
        [Spot(level=rate, throughput=rate, latency_s=simulated(servers, rate, 40_000, seed=7)) for rate in rates]
    )
    assert exact is not None
    assert run is not None
    # Near the top the curve is flat: a neighbour of the grid may win.
    assert abs(run.level - exact.level) <= 0.1 * servers + 1e-9
    assert run.power == pytest.approx(exact.power, rel=0.05)


def test_a_closed_loop_has_its_knee_elsewhere_than_where_the_server_is_just_busy() -> None:
    # One request takes 1 s, and no more than 8 are served at once.
    levels = (1, 2, 4, 8, 16, 32)
    spots = [Spot(level=n, throughput=min(n, 8), latency_s=max(1.0, n / 8)) for n in levels]
    found = knee(spots)
    assert found is not None
    assert (found.level, found.where) == (8, "inside")


def test_a_knee_at_an_end_is_told_as_one_that_was_found() -> None:
    rising = [Spot(level=n, throughput=n, latency_s=1.0) for n in (1, 2, 4)]
    falling = [Spot(level=n, throughput=1.0, latency_s=float(n)) for n in (1, 2, 4)]
    assert [one.where for one in (knee(rising), knee(falling)) if one] == ["highest", "lowest"]
    assert knee(rising[:2]) is None
    first = knee(rising)
    assert first is not None
    assert "may lie above it" in first.words("concurrency")


def test_a_floor_that_cannot_be_told_holds() -> None:
    floors = {"ttft_s_p95": 1.0, "tpot_s_p95": 0.5}

    def stands(count: int, first_s: float) -> Held:
        rows = [attempt(*(request(n, events_at_s=(first_s, first_s + 0.1)) for n in range(count)))]
        found = held(latency(rows, closed=True), floors, of_floors(rows, tuple(floors), closed=True))
        assert found is not None
        return found

    few, held_, broken = stands(58, 0.1), stands(59, 0.1), stands(59, 2.0)
    assert (few.holds, held_.holds, broken.holds) == (None, True, False)
    # Of 58 requests all lie below the p95 once in 20 times: nothing bounds it from above.
    assert few.ends["ttft_s_p95"] == (0.1, None)
    assert highest_held([(1, held_), (2, held_), (4, broken), (8, held_)]) == 2
    assert highest_held([(1, few), (2, held_)]) is None
    assert held(latency([attempt(request())], closed=True), {}, {}) is None


def test_a_p95_within_its_limit_by_chance_is_held() -> None:
    # 97 of 100 within the limit: the p95 is too, its upper bound is not.
    rows = [attempt(*(request(n, events_at_s=(0.5 + 0.2 * (n >= 97) + n / 1000, 2.0)) for n in range(100)))]
    limit = {"ttft_s_p95": 0.6}
    found = held(latency(rows, closed=True), limit, of_floors(rows, tuple(limit), closed=True))
    assert found is not None
    assert found.values["ttft_s_p95"] is not None
    assert found.values["ttft_s_p95"] <= 0.6
    assert (found.holds, found.word) == (None, "not settled")


def test_a_knee_among_levels_of_one_power_is_told_as_one_level() -> None:
    spots = [Spot(level=n, throughput=power, latency_s=1.0) for n, power in ((1, 1.0), (2, 2.0), (4, 2.1))]
    rng = np.random.default_rng(0)
    draws = {spot.level: spot.throughput + rng.normal(0, 0.1, 500) for spot in spots}
    unsure = knee(spots, draws)
    assert unsure is not None
    assert unsure.could_be == (2, 4)
    assert "at concurrency 4, where throughput over median latency is highest (it could as well be at 2:" in (
        unsure.words("concurrency")
    )
    some = knee(spots, {**draws, 1: None})
    assert some is not None
    assert some.could_be == ()
    assert "too few requests to say how sure" in some.words("concurrency")
