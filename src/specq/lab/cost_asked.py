"""A month of requests priced as it was asked: by tokens, by the hours of your own machines, or both side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError
from specq.lab import cost, cost_answer, cost_notes, cost_time, prices
from specq.lab.cost_checks import number, option
from specq.lab.cost_found import Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The numbers that were given, by name; what was left out is not there."""

    values: dict[str, float]

    def only(self, names: Sequence[str]) -> dict[str, float]:
        return {name: self.values[name] for name in names if name in self.values}

    def needs(self, names: Sequence[str], other: str) -> None:
        """Refuse any of `names` without `other`."""
        for name in names:
            if name in self.values and other not in self.values:
                raise ConfigError(f"{name} says nothing without {other}; type {option(other)} too, or leave it out")


def price_requests(
    prompt_tokens: float,
    output_tokens: float,
    requests_per_month: float,
    *,
    cached_share: float = 0.0,
    written_share: float | None = None,
    prices: Path | str | Sequence[Path | str] = (),
    currency: str | None = None,
    input_price: float | None = None,
    cached_price: float | None = None,
    output_price: float | None = None,
    cache_write_price: float | None = None,
    per_hour: float | None = None,
    prefill_tokens_per_s: float | None = None,
    decode_tokens_per_s: float | None = None,
    warm_s: float | None = None,
    measured_context: float | None = None,
    correct_share: float | None = None,
    correct_n: int | None = None,
) -> Cost:
    """Price a month of requests by tokens, by machine-hours, or both; nothing is loaded and nothing is asked.

    Tokens are means of a request, shares go from 0 to 1, prices are for a million tokens in one currency (`USD` where
    nobody says). `prices` names sheets of configs/prices, or files; a price that is given beside them takes the place
    of theirs. `per_hour` and both rates are of a whole machine.

    Raises:
        ConfigError: a number is out of range or lacks another, a sheet will not do, currencies differ, or there is
            neither a price nor a rate.
    """
    named = {key: value for key, value in locals().items() if key not in ("prices", "currency")}
    given = _Given(values={key: number(key, value) for key, value in named.items() if value is not None})
    return _priced(given, [prices] if isinstance(prices, str | Path) else prices, currency)


def _priced(given: _Given, sheets: Sequence[Path | str], currency: str | None) -> Cost:
    work, rates = _workload(given), _rates(given)
    read = [prices.load(one) for one in sheets]
    money, known = prices.together(read, given.only(prices.PRICES), _currency(currency))
    prices.need_pair(known)
    by_tokens, per_hour = _token_prices(known), known.get("per_hour")
    if rates is None and ("per_hour" in given.values or (by_tokens is None and per_hour is not None)):
        raise ConfigError(
            f"per_hour = {per_hour:g} says nothing without both rates; "
            f"type {option('prefill_tokens_per_s')} {option('decode_tokens_per_s')} too"
        )
    if by_tokens is None and rates is None:
        raise ConfigError(
            "no price of tokens and no rates: nothing can be priced; type --prices NAME, or "
            f"{option('input_price')} {option('output_price')}, or "
            f"{option('prefill_tokens_per_s')} {option('decode_tokens_per_s')}"
        )
    known_right = None
    if (share := given.values.get("correct_share")) is not None:
        n = given.values.get("correct_n")
        known_right = cost_answer.right(share, None if n is None else int(n))
    bill = None if by_tokens is None else cost.bill(work, by_tokens)
    own = None if rates is None or per_hour is None else cost_time.hosted(work, rates, per_hour)
    ways: list[tuple[cost_answer.Way, float]] = [] if bill is None else [("tokens", bill.amount)]
    if own is not None:
        ways += [("busy_hours", own.busy_amount), ("rented", own.rented_amount)]
    found = Cost(
        workload=work,
        currency=money,
        sheets=tuple(read),
        prices=by_tokens,
        per_hour=per_hour,
        rates=rates,
        measured_context=given.values.get("measured_context"),
        bill=bill,
        times=None if rates is None else cost_time.times(work, rates),
        hosted=own,
        break_even=None if bill is None or own is None else cost_time.break_even(work, bill.amount, own),
        right=known_right,
        answers=tuple(
            cost_answer.answer_price(way, amount, work.requests_per_month, known_right) for way, amount in ways
        ),
        replaced=tuple(key for key in given.only(prices.PRICES) if any(key in sheet.prices for sheet in read)),
        unsaid_cached_price="cached_price" not in known,
    )
    return replace(
        found,
        warnings=cost_notes.warnings(found, date.today()),
        speculation=cost_notes.speculation(found),
        notes=cost_notes.notes(found),
    )


def _workload(given: _Given) -> cost.Workload:
    values = given.values
    cached, written = values["cached_share"], values.get("written_share")
    if written is not None and cached + written > 1 + 1e-9:
        raise ConfigError(
            f"cached_share = {cached:g} and written_share = {written:g}: together at most 1, for a token is read or "
            f"written; type {option('written_share', f'{1 - cached:g}')}"
        )
    return cost.Workload(
        prompt_tokens=values["prompt_tokens"],
        output_tokens=values["output_tokens"],
        requests_per_month=values["requests_per_month"],
        cached_share=cached,
        written_share=written,
    )


def _rates(given: _Given) -> cost_time.Rates | None:
    given.needs(["prefill_tokens_per_s"], "decode_tokens_per_s")
    given.needs(["decode_tokens_per_s", "warm_s", "measured_context"], "prefill_tokens_per_s")
    given.needs(["correct_n"], "correct_share")
    rates = given.only(("prefill_tokens_per_s", "decode_tokens_per_s", "warm_s"))
    return cost_time.Rates(**rates) if rates else None


def _token_prices(known: dict[str, float]) -> cost.TokenPrices | None:
    if "input_price" not in known:
        return None
    tokens: dict[str, Any] = {key: known[key] for key in prices.TOKEN_PRICES if key in known}
    # A service without a price for cached tokens bills them as any other.
    return cost.TokenPrices(**{"cached_price": known["input_price"], **tokens})


def _currency(given: str | None) -> str | None:
    if given is not None and not given.strip():
        raise ConfigError("currency is empty; type --currency USD")
    return given if given is None else given.strip()
