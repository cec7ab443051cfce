"""Which requests count, and when the steady state begins and ends."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from load_runs import server

from specq.core.errors import ConfigError, UserError
from specq.load import arrivals, drive
from specq.load.asked import Asked
from specq.load.phases import TAIL_LEAST, Job, Phases


def test_ramp_or_tail_is_counted_or_the_load_falls_before_the_end() -> None:
    phases = Phases(warm_up=2, requests=3, duration_s=None)
    jobs = [phases.next(float(at)) for at in range(6)]
    assert [job.phase for job in jobs if job] == ["warm", "warm", "steady", "steady", "steady", "tail"]
    assert (phases.start_s, phases.end_s) == (2.0, None)
    for place, at in ((0, 6.0), (1, 6.5), (2, 7.0), (5, 7.5), (4, 8.0)):
        job = jobs[place]
        assert job is not None
        phases.ended(job, at)
    # One of the steady state is still under way, so the load goes on.
    assert phases.end_s is None
    assert (phases.next(8.5) or jobs[0]).phase == "tail"  # type: ignore[union-attr]
    phases.ended(jobs[3], 9.0)  # type: ignore[arg-type]
    assert phases.end_s == 9.0
    assert phases.next(9.5) is None


def test_a_duration_ends_with_its_last_request_and_not_before() -> None:
    phases = Phases(warm_up=0, requests=None, duration_s=2.0)
    first, last = phases.next(0.0), phases.next(1.9)
    late = phases.next(2.0)
    assert [one.phase for one in (first, last, late) if one] == ["steady", "steady", "tail"]
    for job in (first, last):
        assert job is not None
        phases.ended(job, 5.0)
    assert phases.end_s == 5.0


def test_a_server_that_never_keeps_up_gets_requests_for_ever() -> None:
    phases = Phases(warm_up=0, requests=1, duration_s=None)
    assert phases.next(0.0) is not None
    tail = [phases.next(1.0) for _ in range(TAIL_LEAST)]
    assert all(job is not None and job.phase == "tail" for job in tail)
    assert phases.next(2.0) is None
    assert phases.end_s == 2.0


def test_the_steady_state_ends_while_a_long_prompt_is_read() -> None:
    phases = Phases(warm_up=0, requests=1, duration_s=None)
    job = phases.next(0.0)
    assert job is not None
    phases.injecting = 1
    phases.ended(job, 1.0)
    assert phases.end_s is None
    phases.ended(Job(number=0, phase="inject", due_s=0.5), 2.0)
    assert phases.end_s == 2.0


def test_a_closed_loop_has_more_or_fewer_requests_under_way_than_its_level() -> None:
    phases = Phases(warm_up=3, requests=9, duration_s=None)
    seen: list[int] = []
    under_way = 0

    async def send(job: Job) -> bool:
        nonlocal under_way
        under_way += 1
        seen.append(under_way)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        under_way -= 1
        return True

    asyncio.run(drive.closed(3, phases, send))
    assert max(seen) == 3
    assert phases.share == 1.0


def test_an_open_loop_waits_for_answers() -> None:
    phases = Phases(warm_up=0, requests=5, duration_s=None)
    release = asyncio.Event()
    sent: list[Job] = []

    async def send(job: Job) -> bool:
        sent.append(job)
        if len(sent) == 5:
            release.set()
        await release.wait()
        return True

    # Nothing is answered before all five are sent: a loop that waits for an answer never ends.
    asyncio.run(asyncio.wait_for(drive.open_loop(arrivals.steady(1000.0), phases, send), 20))
    assert [job.phase for job in sent[:5]] == ["steady"] * 5
    dues = [job.due_s - sent[0].due_s for job in sent[:5]]
    assert dues == pytest.approx([0.0, 0.001, 0.002, 0.003, 0.004])


def test_poisson_arrivals_have_another_rate_or_spread_or_differ_by_rate() -> None:
    times = [at for at, _ in zip(arrivals.poisson(4.0, 1), range(20_001), strict=False)]
    gaps = [after - before for before, after in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    # Standard errors of both over 20,000 gaps are below 1 %.
    assert mean == pytest.approx(0.25, rel=0.03)
    assert spread / mean == pytest.approx(1.0, abs=0.03)
    faster = [at for at, _ in zip(arrivals.poisson(8.0, 1), range(5), strict=False)]
    assert faster == pytest.approx([at / 2 for at in times[:5]])
    assert next(arrivals.poisson(8.0, 2)) == 0.0


def test_a_trace_is_not_stretched_to_the_rate() -> None:
    at_s = [10.0, 11.0, 13.0, 14.0]
    assert arrivals.rate_of(at_s) == 0.75
    assert list(arrivals.trace(at_s, None)) == [0.0, 1.0, 3.0, 4.0]
    assert list(arrivals.trace(at_s, 1.5)) == [0.0, 0.5, 1.5, 2.0]
    assert list(arrivals.trace([2.0, 1.0], None)) == [0.0, 1.0]
    with pytest.raises(ConfigError, match="2 times in one moment has no rate"):
        arrivals.rate_of([1.0, 1.0])


def test_a_trace_goes_on_after_its_end() -> None:
    phases = Phases(warm_up=1, requests=9, duration_s=None)
    sent: list[Job] = []

    async def send(job: Job) -> bool:
        sent.append(job)
        return True

    asyncio.run(drive.open_loop(arrivals.trace([0.0, 0.001, 0.002], None), phases, send))
    assert [job.phase for job in sent] == ["warm", "steady", "steady"]
    assert phases.end_s is not None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"levels": (1.5,)}, "concurrency 1.5: allowed are whole numbers"),
        ({"levels": (0.0,), "arrivals": "poisson"}, "rate 0: allowed are requests a second"),
        ({"levels": (2.0, 2.0)}, "names a level twice"),
        ({"levels": ()}, "no level"),
        ({"requests": 5, "duration_s": 1.0}, "exclude each other"),
        ({"requests": 0}, "requests 0: allowed is a whole number of 1 or more"),
        ({"warm_up": -1}, "warm_up -1"),
        ({"max_tokens": 0}, "max_tokens 0: allowed is a whole number of 1 or more"),
        ({"floors": {"ttft_p95": 1.0}}, "did you mean 'ttft_s_p95'"),
        ({"floors": {"ttft_s_p95": float("nan")}}, "allowed are seconds above 0"),
        ({"servers": (server(), server())}, "two servers of one name"),
        ({"servers": (server(kind="vlm"),)}, "did you mean 'vllm'"),
    ],
)
def test_a_level_or_a_setting_that_is_none_is_taken(given: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Asked(**({"servers": (server(),)} | given)).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        {"body": {"api_key": "PlantedAbc123"}},
        {"body": {"extra": {"Authorization": "Bearer PlantedAbc123PlantedAbc123"}}},
        {"body": {"user": "sk-PlantedAbc123PlantedAbc123"}},
        {"servers": (server(url="https://gateway/sk-PlantedAbc123PlantedAbc123/v1"),)},
    ],
)
def test_a_key_in_what_the_folder_shows_is_taken_or_shown(given: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"has what looks like a key.*--key-env") as caught:
        Asked(**({"servers": (server(),)} | given)).check()  # type: ignore[arg-type]
    assert "Planted" not in str(caught.value)
    Asked(servers=(server(url="http://h:1/v1"),), body={"top_k": 20, "user": "me", "max_tokens": 4}).check()


def test_servers_do_not_take_turns() -> None:
    both = (server(name="a"), server(name="b"))
    points = Asked(servers=both, levels=(1.0, 2.0), repeats=2).points()
    assert [point.id for point in points] == [
        *("a@1#1", "b@1#1", "b@1#2", "a@1#2"),
        *("a@2#1", "b@2#1", "b@2#2", "a@2#2"),
    ]
