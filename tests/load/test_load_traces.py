"""Traces that are shorter than a level, and long prompts whose turn comes when the load is over."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from load_runs import attempt, request, server

from specq.core.errors import ConfigError
from specq.engines.served import stub
from specq.load import arrivals, drive
from specq.load.asked import Asked
from specq.load.pauses import pauses
from specq.load.phases import Job, Phases
from specq.load.rows import Requested, read
from specq.load.running import measure_load
from specq.load.stalls import stall
from specq.load.words import flags


def long_prompt(number: int, at_s: float) -> Requested:
    first = at_s + 1
    return request(number, phase="inject", due_at_s=at_s, sent_at_s=at_s, events_at_s=(first,), prompt_tokens=500)


def test_a_long_prompt_goes_out_after_the_load() -> None:
    phases = Phases(warm_up=0, requests=2, duration_s=None)
    sent: list[Job] = []

    async def send(job: Job) -> bool:
        sent.append(job)
        # The load ends while the first is read, as that of a trace does.
        phases.exhausted(1.0)
        return True

    async def run() -> int:
        for at in (0.0, 0.1):
            job = phases.next(at)
            assert job is not None
            phases.injecting = 1
            phases.ended(job, 0.2)
        phases.injecting = 0
        return await drive.inject([0.3, 0.6], phases, send)

    assert asyncio.run(run()) == 1
    assert [job.number for job in sent] == [0]


def test_a_long_prompt_that_went_out_after_the_load_counts() -> None:
    point: dict[str, Any] = {"start_at_s": 0.0, "end_at_s": 3.0}
    rows = [request(events_at_s=(1.0, 1.5, 3.0))]
    within, late = long_prompt(0, 0.5), long_prompt(1, 5.0)
    told = pauses([attempt(*rows, within, late, **point)])
    assert told is not None
    assert (told.injected, told.ttft_s.n) == (1, 1)
    assert pauses([attempt(*rows, late, **point)]) is None
    both = stall([attempt(*rows, within, late, **point)], [attempt(*rows, within, late, **point)])
    assert both is not None
    assert both.prompts == 1


@pytest.mark.parametrize("due", [2, 8, 40, 100, 1000])
def test_a_short_trace_is_all_warm_up_or_its_long_prompts_have_no_turn(due: int) -> None:
    asked = Asked(servers=(server(),), arrivals="trace", levels=())
    warm_up = asked.warm_ups(1.0, due)
    assert warm_up == max(1, round(0.1 * min(due, 100)))
    phases = Phases(warm_up=warm_up, requests=100, duration_s=None, due=due)
    shares = []

    async def send(job: Job) -> bool:
        shares.append(phases.share)
        return True

    asyncio.run(drive.open_loop(arrivals.trace([n * 1e-9 for n in range(due)], None), phases, send))
    assert phases.start_s is not None
    assert max(shares) == 1.0


def test_a_trace_with_fewer_requests_than_asked_for_goes_unsaid() -> None:
    asked = Asked(servers=(server(),), arrivals="trace", levels=())
    assert asked.fits_trace(8) == ("the trace has 8 requests: 7 count after the warm-up, and not the 100 of a level",)
    assert asked.fits_trace(200) == ()
    few = Asked(servers=(server(),), arrivals="trace", levels=(), requests=20, warm_up=0)
    assert few.fits_trace(8) == ("the trace has 8 requests: 8 count after the warm-up, and not --requests 20",)
    with pytest.raises(ConfigError, match="--warm-up 8: the trace has 8 requests, so that none would count"):
        Asked(servers=(server(),), arrivals="trace", levels=(), warm_up=8).fits_trace(8)


def test_a_short_trace_ends_without_an_answer_that_counts_or_loses_long_prompts_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specq.load.page.render", lambda found: "")
    monkeypatch.setattr("specq.run.provenance.collect", dict)
    log, long = tmp_path / "log.jsonl", tmp_path / "long.jsonl"
    rows = [{"timestamp": 10 + n / 20, "prompt": f"q{n}"} for n in range(8)]
    log.write_text("".join(json.dumps(one) + "\n" for one in rows))
    long.write_text("".join(json.dumps({"id": f"l{n}", "prompt": "long"}) + "\n" for n in range(3)))
    how: dict[str, Any] = {"trace": log, "model": "m", "out": tmp_path / "out", "body": {"stub": {"tokens": 2}}}
    with stub.started() as (url, _):
        told = measure_load(url, log, inject=long, **how)
        # The first is read until the trace is over.
        slow = tmp_path / "slow"
        late = measure_load(url, log, inject=long, **(how | {"out": slow, "rate": [2000.0]}))
    (level,) = told.levels
    assert (level.requests, level.answered) == (7, 7)
    assert level.pauses is not None
    assert level.pauses.injected == 3
    assert any("the trace has 8 requests" in note for note in told.info["notes"])
    went = sum(row.phase == "inject" for row in read(late.run / "records.jsonl")[0] if isinstance(row, Requested))
    assert went < 3
    assert any(f"only {went} of 3 long prompts went out" in text for text in flags(late))
