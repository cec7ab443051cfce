"""A month as it is asked for: what is refused, what was taken for what nobody said, and what is a bound."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from specq.core.errors import ConfigError
from specq.lab import cost_notes
from specq.lab.cost_asked import price_requests
from specq.lab.cost_found import Cost

PRICES = {"input_price": 1.0, "cached_price": 0.1, "output_price": 4.0}
RATES_AT_LEAST = {"prefill_tokens_per_s": 1e-12, "decode_tokens_per_s": 1e-12}
RATES = {"prefill_tokens_per_s": 2025, "decode_tokens_per_s": 190}


def asked(**values: Any) -> Cost:
    return price_requests(
        **{"prompt_tokens": 890, "output_tokens": 53, "requests_per_month": 2_000_000, "cached_share": 0.6, **values}
    )


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"cached_share": 60}, "cached_share = 60: allowed is a share from 0 to 1; for 60 % type --cached-share 0.6"),
        ({"cached_share": 100.5}, "cached_share = 100.5: allowed is a share from 0 to 1; type --cached-share 0.6"),
        ({"cached_share": -0.1}, "cached_share = -0.1: allowed is a share from 0 to 1; type --cached-share 0.6"),
        (
            {"correct_share": 85},
            "correct_share = 85: allowed is a share from 0 to 1; for 85 % type --correct-share 0.85",
        ),
        ({"prompt_tokens": 0}, "prompt_tokens = 0: allowed is a number above 0; type --prompt-tokens 890"),
        ({"prompt_tokens": math.nan}, "prompt_tokens = nan: allowed is a number above 0"),
        ({"output_tokens": -1}, "output_tokens = -1: allowed is 0 or more; type --output-tokens 53"),
        ({"output_tokens": math.inf}, "output_tokens = inf: allowed is 0 or more"),
        (
            {"output_tokens": 1e300},
            "output_tokens = 1e+300: allowed is 0, or 1e-12 to 1e+15; type --output-tokens 53",
        ),
        ({"output_tokens": 10**400}, "output_tokens = inf: allowed is 0 or more"),
        ({"prompt_tokens": 1e-320}, "prompt_tokens = 9.99989e-321: allowed is 1e-12 to 1e+15; type --prompt-"),
        ({**PRICES, "output_price": 1e-320}, "output_price = 9.99989e-321: allowed is 0, or 1e-12 to 1e+15"),
        ({"requests_per_month": 0}, "requests_per_month = 0: allowed is a number above 0"),
        ({"prompt_tokens": "890"}, "prompt_tokens = '890': allowed is a number above 0"),
        ({"prompt_tokens": True}, "prompt_tokens = True: allowed is a number above 0"),
        (
            {**RATES, "prefill_tokens_per_s": 0},
            "prefill_tokens_per_s = 0: allowed is a number above 0; type --prefill-",
        ),
        ({**RATES, "decode_tokens_per_s": 0}, "decode_tokens_per_s = 0: allowed is a number above 0"),
        ({**RATES, "warm_s": -1}, "warm_s = -1: allowed is 0 or more; type --warm-s 0.015"),
        ({}, "no price of tokens and no rates: nothing can be priced; type --prices NAME, or --input-price 1.00 "),
        (
            {"input_price": 1.0},
            "output_price is missing beside input_price: a bill needs both; type --output-price 4.00",
        ),
        ({"cached_price": 0.1}, "input_price is missing beside cached_price"),
        (
            {"prefill_tokens_per_s": 2025},
            "prefill_tokens_per_s says nothing without decode_tokens_per_s; type --decode-",
        ),
        ({"decode_tokens_per_s": 190}, "decode_tokens_per_s says nothing without prefill_tokens_per_s"),
        (
            {**PRICES, "warm_s": 0.1},
            "warm_s says nothing without prefill_tokens_per_s; type --prefill-tokens-per-s 2025",
        ),
        ({**PRICES, "measured_context": 4096}, "measured_context says nothing without prefill_tokens_per_s"),
        (
            {**PRICES, "per_hour": 2.5},
            "per_hour = 2.5 says nothing without both rates; type --prefill-tokens-per-s 2025",
        ),
        ({"prices": "example-machine"}, "per_hour = 2.5 says nothing without both rates"),
        ({**PRICES, "correct_n": 20}, "correct_n says nothing without correct_share"),
        ({**PRICES, "correct_share": 0.5, "correct_n": 2.5}, "correct_n = 2.5: allowed is a whole number from 1 on"),
        (
            {**PRICES, "written_share": 0.5},
            "cached_share = 0.6 and written_share = 0.5: together at most 1, for a token ",
        ),
        ({**PRICES, "currency": " "}, "currency is empty; type --currency USD"),
        ({"prices": "example", "currency": "EUR"}, "mixed currencies: "),
    ],
)
def test_what_cannot_be_priced_is_priced_or_not_told_what_to_type(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        asked(**values)
    assert str(caught.value).startswith(says)
    assert len(str(caught.value).splitlines()) == 1


def test_a_sheet_and_the_same_prices_given_one_by_one_differ() -> None:
    given, sheet = asked(**PRICES), asked(prices="example")
    assert given.bill == sheet.bill
    assert (sheet.sheets[0].model, given.sheets) == ("example", ())
    both = asked(prices=["example", "example-machine"], **RATES)
    assert both.hosted == asked(**PRICES, **RATES, per_hour=2.5).hosted


def test_a_price_beside_a_sheet_is_ignored_or_takes_its_place_without_a_word() -> None:
    found = asked(prices="example", output_price=8.0)
    assert found.prices is not None
    assert found.prices.output_price == 8.0
    assert any(note.startswith("output_price was given, and takes the place of 4.00 in ") for note in found.notes)


def test_a_cached_price_nobody_said_is_taken_as_nothing() -> None:
    found = asked(input_price=1.0, output_price=4.0)
    assert found.bill is not None
    assert round(found.bill.amount) == 2204
    assert any(note.startswith("no cached_price: cached tokens are billed as input") for note in found.notes)
    assert asked(input_price=1.0, output_price=4.0, cached_share=0.0).notes == ()


def test_a_dear_cached_price_is_refused_or_passes_without_a_warning() -> None:
    (warning,) = asked(**{**PRICES, "cached_price": 1.2}).warnings
    assert warning.startswith("cached_price 1.20 is above input_price 1.00: ")
    assert asked(**PRICES).warnings == ()


def test_an_old_sheet_has_no_warning(tmp_path: Path) -> None:
    old = tmp_path / "old.toml"
    lines = ["date = 2020-01-01", 'source = "an offer"', 'model = "m"', 'currency = "EUR"']
    old.write_text("\n".join([*lines, "input_price = 1", "output_price = 2"]), encoding="utf-8")
    (warning,) = asked(prices=old).warnings
    assert warning.startswith(f"{old} is of 2020-01-01, ")
    assert asked(prices=old).currency == "EUR"


def test_writes_are_counted_at_their_most_without_a_word() -> None:
    found = asked(**PRICES, cache_write_price=1.25)
    assert any(note.startswith("nobody said how many tokens are written to the cache") for note in found.notes)
    assert any("pays for itself after 0.28 reads" in note for note in found.notes)
    told = asked(**PRICES, cache_write_price=1.25, written_share=0.1)
    assert not any("nobody said" in note for note in told.notes)
    unpriced = asked(**PRICES, written_share=0.1)
    assert any(note.startswith("written_share changes nothing") for note in unpriced.notes)


@pytest.mark.parametrize(("context", "bound"), [(4200, False), (4199, True), (None, False)])
def test_times_beyond_the_measured_context_are_no_lower_bound(context: int | None, bound: bool) -> None:
    found = asked(prompt_tokens=4000, output_tokens=200, **RATES, measured_context=context)
    assert found.is_lower_bound is bound
    assert found.to_json()["times"]["is_lower_bound"] is bound
    said = [note for note in found.notes if "lower bound" in note]
    assert len(said) == (context != 4200)
    assert all(note.startswith("nobody said") == (context is None) for note in said)


def test_a_bill_by_tokens_is_said_to_fall_by_speculation() -> None:
    (by_tokens,) = asked(**PRICES).speculation
    assert by_tokens.startswith("Speculative decoding shows no saving on a bill by tokens")
    (hours,) = asked(prompt_tokens=4000, output_tokens=200, **RATES, warm_s=0.015, per_hour=2.5).speculation
    assert "57 % of the hours (585), 1,462 USD a month by busy hours" in hours
    assert "at most 2.31 times as fast" in hours
    assert len(asked(**PRICES, **RATES).speculation) == 2


@pytest.mark.parametrize(
    "values",
    [
        PRICES,
        RATES,
        {**PRICES, **RATES, "per_hour": 2.5, "correct_share": 0.0, "correct_n": 20},
        {"input_price": 0, "output_price": 0, **RATES, "per_hour": 1},
        {**PRICES, **RATES, "per_hour": 1, "cached_share": 1.0, "output_tokens": 0},
        {**PRICES, "prices": "example-machine", "cache_write_price": 1.25},
        {**dict.fromkeys((*PRICES, *RATES, "requests_per_month", "correct_share"), 1e-12), "per_hour": 1e15},
        {**dict.fromkeys((*PRICES, "requests_per_month", "output_tokens"), 1e15), **RATES_AT_LEAST, "per_hour": 1e-12},
    ],
)
def test_some_month_has_no_json_or_an_infinite_number(values: dict[str, Any]) -> None:
    found = asked(**values)
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["workload"]["prompt_tokens"] == 890
    assert all(len(note.splitlines()) == 1 for note in (*found.notes, *found.warnings, *found.speculation))


def test_a_warning_about_a_sheet_of_today_is_one_of_tomorrow() -> None:
    found = asked(prices="example")
    assert cost_notes.warnings(found, found.sheets[0].date) == ()
