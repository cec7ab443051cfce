"""From rows to numbers, against answers that can be worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from load_runs import attempt, found, request

from specq.load.check import agreement
from specq.load.drafts import drafting
from specq.load.measures import failures, latency, rates, spread, tokens_between, ttft_s
from specq.load.pauses import pauses


def test_a_tail_is_told_of_too_few_values() -> None:
    assert (spread(range(19)).p95, spread(range(99)).p99) == (None, None)
    assert spread([float(n) for n in range(101)]).p99 == 99.0
    assert (spread([]).p50, spread([4.0]).p50) == (None, 4.0)


def test_times_of_a_request_are_other_ones() -> None:
    one = attempt(request(events_at_s=(1.0, 2.0, 4.0), due_at_s=-0.5))
    closed, opened = latency([one], closed=True), latency([one], closed=False)
    assert (closed.ttft_s.p50, closed.tpot_s.p50, closed.e2e_s.p50) == (1.0, 1.5, 4.0)
    assert (closed.gap_s.mean, closed.gap_s.n) == (1.5, 2)
    assert (opened.ttft_s.p50, opened.e2e_s.p50) == (1.5, 4.5)
    assert (closed.late, closed.late_s.p50) == (1, 0.5)
    assert ttft_s(request(due_at_s=-2.0, retries=1), closed=True) == 3.0


def test_a_stall_is_charged_to_the_one_request_that_met_it() -> None:
    # A server that stands still for 1 s: ten requests were due meanwhile, and all are sent and answered at its end.
    rows = [request(n, due_at_s=n / 10, sent_at_s=1.0, events_at_s=(1.0, 1.0)) for n in range(10)]
    opened, closed = latency([attempt(*rows)], closed=False), latency([attempt(*rows)], closed=True)
    assert opened.ttft_s.p50 == pytest.approx(0.55)
    assert opened.ttft_s.mean == pytest.approx(0.55)
    assert closed.ttft_s.mean == 0.0
    assert opened.late == 10


def test_a_failure_leaves_the_rates_or_the_goodput_unseen() -> None:
    rows = [
        request(0),
        request(1, events_at_s=(4.0, 5.0, 6.0), sent_at_s=1.0),
        request(2, error="cut", events_at_s=(1.0,), output_tokens=1, end_at_s=2.0),
        request(3, error="http_429", events_at_s=(), output_tokens=None, end_at_s=1.0),
    ]
    found = rates([attempt(*rows)], lambda row: row.error is None and (ttft_s(row, closed=True) or 9) <= 1.0)
    assert found.requests_per_s == pytest.approx(0.2)
    assert found.ended_per_s == pytest.approx(0.4)
    assert found.good_share == 0.25
    assert found.good_per_s == pytest.approx(0.1)
    # The token that came before the cut is of no answer.
    assert found.tokens_per_s == pytest.approx(0.6)
    assert failures(rows) == {"cut": 1, "http_429": 1}
    assert latency([attempt(*rows)], closed=True).ttft_s.n == 2


def test_a_rate_counts_what_came_before_or_after_the_steady_state() -> None:
    rows = [
        request(0, phase="warm", events_at_s=(-1.0, 0.0, 1.0), sent_at_s=-3.0),
        request(1, phase="tail", events_at_s=(9.0, 10.0, 11.0), sent_at_s=9.0),
    ]
    found = rates([attempt(*rows)], None)
    assert found.tokens_per_s == pytest.approx((2 + 1) / 10)
    # A quarter of the first request and half of the second lie within.
    assert found.requests_per_s == pytest.approx((0.25 + 0.5) / 10)
    assert found.in_flight == pytest.approx((1 + 1) / 10)
    assert found.decoding == pytest.approx((1 + 1) / 10)
    assert found.good_per_s is None
    assert latency([attempt(*rows)], closed=True).ttft_s.n == 0


def test_tokens_that_came_together_are_lost() -> None:
    one = attempt(request(events_at_s=(1.0, 2.0), event_tokens=(1, 5)))
    assert tokens_between(one, 0.0, 1.5) == 1
    assert tokens_between(one, 1.5, 3.0) == 5
    # The server counted 12 tokens in events that do not tell theirs.
    assert tokens_between(attempt(request(events_at_s=(1.0, 2.0, 3.0), output_tokens=12)), 0.0, 2.5) == 8


def test_repeats_are_not_pooled(tmp_path: Path) -> None:
    both = [attempt(request(0)), attempt(request(1, point="server@1#2"), point="server@1#2", repeat=2)]
    (level,) = found(tmp_path, both).levels
    assert (level.repeats, level.requests, level.rates.seconds) == (2, 2, 20.0)
    assert level.rates.tokens_per_s == pytest.approx(0.3)


def test_an_attempt_that_was_broken_off_counts(tmp_path: Path) -> None:
    made = found(tmp_path, [attempt(request(0, attempt=2), attempt=2)])
    lost = request(7, attempt=1)
    import json

    from load_runs import to_json

    with (tmp_path / "records.jsonl").open("a") as file:
        file.write(json.dumps(to_json(lost)) + "\n" + '{"kind":"Requ')
    from specq.load.found import find

    again = find(tmp_path, made.info)
    assert [one.requests for one in again.levels] == [1]
    assert (again.interrupted, again.torn_bytes) == (1, 13)


def test_drafts_counters_are_read_wrong() -> None:
    # Of 60 tokens a third are a request's first; of 40 steps' worth 30 were accepted, and 5 of 10 steps had a draft.
    numbers = {"proposed": 40, "accepted": 30, "draft_steps": 5, "decode_s": 2.0, "new_tokens": 60}
    counted = attempt(request(), numbers=numbers)
    drafts = drafting([counted, counted])
    assert drafts is not None
    assert (drafts.accepted_per_step, drafts.tokens_per_step, drafts.draft_acceptance) == (3.0, 4.0, 0.75)
    assert (drafts.step_s, drafts.accepted_per_draft, drafts.source) == (0.2, 6.0, "counters")
    rows = [request(n, output_tokens=5, proposed=4, accepted=accepted) for n, accepted in enumerate((1, 3))]
    told = drafting([attempt(*rows)])
    assert told is not None
    assert (told.draft_acceptance, told.accepted_per_step, told.source) == (0.5, 1.0, "requests")
    unknown = drafting([attempt(request(), numbers={"proposed": 4, "accepted": 3})])
    assert unknown is not None
    assert unknown.accepted_per_step is None
    assert drafting([attempt(request(proposed=0, accepted=0))]) is None
    assert drafting([attempt(request())]) is None


def test_the_servers_clock_is_held_against_another_time() -> None:
    rows = [request(n, server_ttft_s=None, prefill_s=0.8, queue_s=0.2, decode_s=1.6) for n in range(3)]
    told = agreement([attempt(*rows)])
    assert (told.ttft, told.tpot, told.n) == (pytest.approx(1.0), pytest.approx(1.25), 3)
    assert agreement([attempt(request())]).ttft is None


def test_gaps_around_a_long_prompt_are_taken_for_others() -> None:
    events = tuple(float(at) for at in (0, 1, 2, 6, 7, 8))
    long = request(0, phase="inject", sent_at_s=2.5, events_at_s=(5.5, 5.6), prompt_tokens=900)
    told = pauses([attempt(request(events_at_s=events), long)])
    assert told is not None
    assert (told.before.n, told.during.n, told.after.n) == (2, 1, 2)
    assert (told.during.p50, told.ttft_s.p50, told.prompt_tokens.p50) == (4.0, 3.0, 900.0)
    assert pauses([attempt(request())]) is None
