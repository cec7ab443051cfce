"""The month's bill by tokens, and what the levers save of it: against known figures, and token by token."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specq.lab import cost
from specq.lab.cost import TokenPrices, Workload

KNOWN = Workload(prompt_tokens=890, output_tokens=53, requests_per_month=2e6, cached_share=0.6)
PRICES = TokenPrices(input_price=1.00, cached_price=0.10, output_price=4.00)
WRITES = replace(PRICES, cache_write_price=1.25)


def amounts(work: Workload, prices: TokenPrices) -> dict[str, float]:
    return {row.name: row.amount for row in cost.bill(work, prices).rows}


def saved(work: Workload, prices: TokenPrices, *, uncached: bool) -> dict[str, float]:
    found = cost.savings(work, lambda one: cost.bill(one, prices).amount, uncached=uncached)
    return {one.lever: one.saves for one in found}


def test_the_known_bill_is_another() -> None:
    assert {name: round(one) for name, one in amounts(KNOWN, PRICES).items()} == {
        "input": 712,
        "cached": 107,
        "output": 424,
    }
    bill = cost.bill(KNOWN, PRICES)
    assert round(bill.amount) == 1243
    assert round(cost.bill(KNOWN.uncached(), PRICES).amount) == 2204
    assert round(100 * bill.input_share_of_tokens) == 94
    assert bill.input_share_of_bill is not None
    assert round(100 * bill.input_share_of_bill) == 66


def test_the_known_savings_are_others_or_not_the_most_first() -> None:
    found = cost.savings(KNOWN, lambda work: cost.bill(work, PRICES).amount, uncached=True)
    assert [(one.lever, round(one.saves)) for one in found] == [
        ("hit_rate_60", 961),
        ("half_prompt", 890),
        ("prompt_40_less", 712),
        ("half_output", 212),
    ]
    assert [round(100 * (one.share or 0)) for one in found] == [44, 40, 32, 10]


def test_savings_of_the_present_bill_are_those_of_the_uncached_one() -> None:
    now = saved(KNOWN, PRICES, uncached=False)
    assert now == pytest.approx(
        {"half_prompt": 409.4, "prompt_40_less": 327.52, "half_output": 212.0, "hit_rate_60": 0.0}, abs=1e-9
    )
    # Beyond 60 % the lever is a loss, and says so by its sign.
    assert saved(replace(KNOWN, cached_share=0.8), PRICES, uncached=False)["hit_rate_60"] == pytest.approx(-320.4)


@pytest.mark.parametrize("written", [0.0, 0.1, 0.4])
def test_the_bill_of_some_requests_differs_from_each_token_billed_by_itself(written: float) -> None:
    work = Workload(prompt_tokens=10, output_tokens=3, requests_per_month=7, cached_share=0.6, written_share=written)
    alone = {"input": 0.0, "cache_write": 0.0, "cached": 0.0, "output": 0.0}
    price_of = {"input": 1.00, "cache_write": 1.25, "cached": 0.10, "output": 4.00}
    for _ in range(7):
        for place in range(10):
            kind = "cached" if place < 6 else "cache_write" if place < 6 + round(10 * written) else "input"
            alone[kind] += price_of[kind] / 1e6
        alone["output"] += 3 * price_of["output"] / 1e6
    found = amounts(work, WRITES)
    assert {"cache_write": 0.0, **found} == pytest.approx(alone)
    assert ("cache_write" in found) == bool(written)


def test_writes_nobody_spoke_of_are_free() -> None:
    # All that was not read from the cache is written to it.
    assert amounts(KNOWN, WRITES) == pytest.approx(
        {"input": 0.0, "cache_write": 890.0, "cached": 106.8, "output": 424.0}
    )
    # Without a cache nothing is written, and without a price of it a write is input.
    assert amounts(KNOWN.uncached(), WRITES) == pytest.approx({"input": 1780.0, "cached": 0.0, "output": 424.0})
    assert cost.bill(replace(KNOWN, written_share=0.4), PRICES).amount == pytest.approx(1242.8)


def test_a_warmer_cache_writes_as_much_as_before() -> None:
    # 30 % read and 40 % written: 70 % can be cached; at 60 % read, 10 % are written.
    work = replace(KNOWN, cached_share=0.3, written_share=0.4)
    at_60 = work.warmed(0.6)
    assert at_60.cached_share == 0.6
    assert at_60.written_share == pytest.approx(0.1)
    assert work.warmed(0.9).written_share == 0.0
    bill = cost.bill(work.uncached(), WRITES).amount
    assert saved(work, WRITES, uncached=True)["hit_rate_60"] == pytest.approx(bill - cost.bill(at_60, WRITES).amount)


def test_half_the_prompt_saves_the_same_whichever_half_goes() -> None:
    # 445 of 890 tokens: all of them cached, or the 356 that are not and 89 that are.
    least, most = cost.half_prompt_span(KNOWN, PRICES)
    assert (least, most) == pytest.approx((89.0, 729.8))
    middle = saved(KNOWN, PRICES, uncached=False)["half_prompt"]
    assert least < middle < most


def test_a_write_pays_for_itself_at_once_or_never() -> None:
    assert cost.reads_to_pay(WRITES) == pytest.approx(0.25 / 0.9)
    assert cost.reads_to_pay(PRICES) is None
    assert cost.reads_to_pay(replace(WRITES, cached_price=1.0)) is None
    assert cost.reads_to_pay(replace(WRITES, cache_write_price=0.5)) == 0.0


def test_a_bill_of_nothing_divides_by_nothing() -> None:
    free = TokenPrices(input_price=0.0, cached_price=0.0, output_price=0.0)
    assert cost.bill(KNOWN, free).input_share_of_bill is None
    assert {one.share for one in cost.savings(KNOWN, lambda work: cost.bill(work, free).amount)} == {None}


def test_a_cached_price_above_the_input_price_shows_a_saving() -> None:
    dear = replace(PRICES, cached_price=1.5)
    assert cost.bill(KNOWN, dear).amount > cost.bill(KNOWN.uncached(), dear).amount
    assert saved(KNOWN, dear, uncached=True)["hit_rate_60"] < 0
