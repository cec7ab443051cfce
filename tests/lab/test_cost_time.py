"""Seconds, machine-hours and what they cost: against known figures, and request by request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specq.lab import cost, cost_answer, cost_time
from specq.lab.cost import Workload
from specq.lab.cost_time import Rates
from specq.stats import paired

KNOWN = Workload(prompt_tokens=4000, output_tokens=200, requests_per_month=2e6, cached_share=0.6)
RATES = Rates(prefill_tokens_per_s=2025, decode_tokens_per_s=190, warm_s=0.015)


def test_the_known_times_are_others() -> None:
    found = cost_time.times(KNOWN, RATES)
    assert found.prefill_share is not None
    assert f"{found.e2e_s:.2f}" == "1.86"
    assert round(100 * found.prefill_share) == 43
    assert f"{found.cache_saves_s:.2f}" == "1.17"
    assert round(found.machine_hours) == 1032


def test_machine_hours_differ_from_requests_timed_one_after_the_other() -> None:
    work = replace(KNOWN, requests_per_month=7.0)
    clock = 0.0
    for _ in range(7):
        clock += RATES.warm_s
        clock += sum(1 / 2025 for token in range(4000) if token >= 2400)
        clock += sum(1 / 190 for _ in range(200))
    assert cost_time.times(work, RATES).machine_hours == pytest.approx(clock / 3600)


def test_a_slow_warm_cache_is_said_to_save_time() -> None:
    slow = replace(RATES, warm_s=2.0)
    assert cost_time.times(KNOWN, slow).cache_saves_s < 0
    # 2 s are the prefill of 4050 tokens: no share of 4000 pays, and 0.5 s take a quarter of them.
    assert cost_time.pays_from(KNOWN, slow) > 1
    assert cost_time.pays_from(KNOWN, replace(RATES, warm_s=0.5)) == pytest.approx(0.253125)


def test_a_draft_makes_a_request_faster_than_its_prefill_alone() -> None:
    found = cost_time.times(KNOWN, RATES)
    at_no_cost = cost_time.times(KNOWN, replace(RATES, decode_tokens_per_s=1e15))
    assert found.decode_limit == pytest.approx(found.e2e_s / at_no_cost.e2e_s)


def test_hours_are_priced_with_input_and_output_in_one() -> None:
    own = cost_time.hosted(KNOWN, RATES, 2.5)
    found = {row.name: row for row in own.rows}
    assert found["input"].price == pytest.approx(2.5 / (2025 * 3600) * 1e6)
    assert found["output"].price == pytest.approx(2.5 / (190 * 3600) * 1e6)
    assert found["cached"].amount == pytest.approx(2e6 * 0.015 / 3600 * 2.5)
    assert own.busy_amount == pytest.approx(sum(row.amount for row in own.rows))
    assert [row.tokens for row in own.rows] == pytest.approx([3.2e9, 4.8e9, 0.4e9])


@pytest.mark.parametrize(("hours", "machines"), [(1.0, 1), (729.9, 1), (730.0, 1), (730.1, 2), (1460.0, 2)])
def test_a_month_needs_a_machine_more_or_less(hours: float, machines: int) -> None:
    # A request of one hour: 3600 tokens at one a second.
    work = Workload(prompt_tokens=3600, output_tokens=0, requests_per_month=hours)
    own = cost_time.hosted(work, Rates(prefill_tokens_per_s=1.0, decode_tokens_per_s=1.0), 2.0)
    assert own.machines == machines
    assert own.rented_amount == machines * 1460.0
    assert own.capacity == pytest.approx(730)


def test_a_month_that_fills_a_machine_needs_two_for_the_last_bit_of_a_float() -> None:
    work = Workload(prompt_tokens=3600, output_tokens=0, requests_per_month=5110)
    rates = Rates(prefill_tokens_per_s=7.0, decode_tokens_per_s=1.0)
    assert cost_time.times(work, rates).machine_hours > 730
    assert cost_time.hosted(work, rates, 2.0).machines == 1


def test_at_the_break_even_a_machine_and_the_bill_by_tokens_differ() -> None:
    by_tokens = 6080.0
    own = cost_time.hosted(KNOWN, RATES, 2.5)
    even = cost_time.break_even(KNOWN, by_tokens, own)
    assert even.requests is not None
    assert even.requests * by_tokens / 2e6 == pytest.approx(730 * 2.5)
    assert even.times_as_fast == pytest.approx(even.requests / own.capacity)  # type: ignore[operator]
    # At that price of an hour the present requests cost the same either way.
    assert cost_time.hosted(KNOWN, RATES, even.per_hour).rented_amount == pytest.approx(by_tokens)


def test_a_break_even_that_no_machine_can_serve_is_within_reach() -> None:
    own = cost_time.hosted(KNOWN, RATES, 2.5)
    cheap = cost_time.break_even(KNOWN, 1000.0, own)
    assert cheap.times_as_fast is not None
    assert cheap.times_as_fast > 1
    # A machine that is so much faster just serves the requests that pay it.
    fast = Rates(
        prefill_tokens_per_s=2025 * cheap.times_as_fast,
        decode_tokens_per_s=190 * cheap.times_as_fast,
        warm_s=0.015 / cheap.times_as_fast,
    )
    assert cost_time.hosted(KNOWN, fast, 2.5).capacity == pytest.approx(cheap.requests)
    assert cost_time.break_even(KNOWN, 0.0, own).requests is None


def test_requests_that_take_no_time_divide_by_nothing() -> None:
    work = Workload(prompt_tokens=10, output_tokens=0, requests_per_month=5, cached_share=1.0)
    rates = replace(RATES, warm_s=0.0)
    found, own = cost_time.times(work, rates), cost_time.hosted(work, rates, 1.0)
    assert (found.prefill_share, found.decode_limit, own.capacity) == (None, None, None)
    assert cost_time.break_even(work, 1.0, own).times_as_fast is None


def test_hours_are_saved_by_a_shorter_prompt_first_where_decoding_takes_longer() -> None:
    found = cost.savings(KNOWN, lambda work: cost_time.times(work, RATES).machine_hours)
    assert [one.lever for one in found] == ["half_output", "half_prompt", "prompt_40_less", "hit_rate_60"]
    assert found[0].saves == pytest.approx(2e6 * 100 / 190 / 3600)


def test_a_correct_answer_costs_as_much_as_an_answer_or_has_the_share_s_interval_upside_down() -> None:
    right = cost_answer.right(0.85, 200)
    found = cost_answer.answer_price("tokens", 1242.8, 2e6, right)
    low, high = paired.wilson_ends(0.85, 200)
    assert found.price_per_answer == pytest.approx(1242.8 / 2e6)
    assert found.price_per_correct_answer == pytest.approx(1242.8 / 2e6 / 0.85)
    assert (found.low, found.high) == pytest.approx((1242.8 / 2e6 / high, 1242.8 / 2e6 / low))


def test_no_right_answer_has_a_price() -> None:
    found = cost_answer.answer_price("tokens", 10.0, 5.0, cost_answer.right(0.0, 20))
    assert found.price_per_correct_answer is None
    assert found.high is None
    assert found.low == pytest.approx(2.0 / paired.wilson_ends(0.0, 20)[1])
    bare = cost_answer.answer_price("tokens", 10.0, 5.0, cost_answer.right(0.5, None))
    assert (bare.price_per_correct_answer, bare.low, bare.high) == (4.0, None, None)
