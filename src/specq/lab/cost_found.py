"""A month of requests, priced: what was asked, every figure that came of it, and what to know before it is used."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from specq.lab import cost, cost_time
from specq.lab.cost_answer import AnswerPrice, Right
from specq.lab.prices import Sheet


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A priced month.

    `bill` is None without prices of tokens, `times` without rates, `hosted` without rates or without the price of an
    hour, `break_even` where one of bill and hosted is missing. `replaced` names the prices that were given in place of
    a sheet's; `unsaid_cached_price` is true where cached tokens are billed as input because no price of them is known.
    `warnings`, `speculation` (what drafts can do) and `notes` are sentences.
    """

    workload: cost.Workload
    currency: str
    sheets: tuple[Sheet, ...]
    prices: cost.TokenPrices | None
    per_hour: float | None
    rates: cost_time.Rates | None
    measured_context: float | None
    bill: cost.Bill | None
    times: cost_time.Times | None
    hosted: cost_time.Hosted | None
    break_even: cost_time.BreakEven | None
    right: Right | None
    answers: tuple[AnswerPrice, ...]
    replaced: tuple[str, ...]
    unsaid_cached_price: bool
    warnings: tuple[str, ...] = ()
    speculation: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def uncached_bill(self) -> cost.Bill | None:
        """The month's bill without a cache; None without prices of tokens."""
        return None if self.prices is None else cost.bill(self.workload.uncached(), self.prices)

    def savings(self, *, uncached: bool) -> tuple[cost.Saving, ...]:
        """What each lever saves of the bill, the most first; nothing without prices of tokens.

        The bill is the one without a cache, or that of the requests as they are.
        """
        prices = self.prices
        if prices is None:
            return ()
        return cost.savings(self.workload, lambda work: cost.bill(work, prices).amount, uncached=uncached)

    def hours_saved(self) -> tuple[cost.Saving, ...]:
        """What each lever saves of the machine-hours of the requests as they are; nothing without rates."""
        rates = self.rates
        if rates is None:
            return ()
        return cost.savings(self.workload, lambda work: cost_time.times(work, rates).machine_hours)

    @property
    def is_lower_bound(self) -> bool:
        """Whether seconds and hours are a lower bound, for requests go beyond the context of the rates."""
        return self.measured_context is not None and self.longest_context > self.measured_context

    @property
    def longest_context(self) -> float:
        """Tokens that a mean request has at its end."""
        return self.workload.prompt_tokens + self.workload.output_tokens

    def to_json(self) -> dict[str, Any]:
        """Every figure as JSON values; shares from 0 to 1, amounts a month."""
        return {
            "workload": asdict(self.workload),
            "currency": self.currency,
            "sheets": [sheet.to_json() for sheet in self.sheets],
            "prices": None if self.prices is None else asdict(self.prices),
            "per_hour": self.per_hour,
            "rates": None if self.rates is None else asdict(self.rates),
            "bill": _bill(self.bill),
            "uncached_bill": _bill(self.uncached_bill),
            "savings": {
                "from_uncached_bill": [asdict(one) for one in self.savings(uncached=True)],
                "from_present_bill": [asdict(one) for one in self.savings(uncached=False)],
                "of_machine_hours": [asdict(one) for one in self.hours_saved()],
            },
            "times": self._times(),
            "hosted": None if self.hosted is None else asdict(self.hosted),
            "break_even": None if self.break_even is None else asdict(self.break_even),
            "right": None if self.right is None else asdict(self.right),
            "answers": [asdict(one) for one in self.answers],
            "warnings": list(self.warnings),
            "speculation": list(self.speculation),
            "notes": list(self.notes),
        }

    def _times(self) -> dict[str, Any] | None:
        if self.times is None:
            return None
        return {
            **asdict(self.times),
            "e2e_s": self.times.e2e_s,
            "prefill_share": self.times.prefill_share,
            "cache_saves_s": self.times.cache_saves_s,
            "decode_limit": self.times.decode_limit,
            "measured_context": self.measured_context,
            "is_lower_bound": self.is_lower_bound,
        }


def _bill(found: cost.Bill | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        **asdict(found),
        "amount": found.amount,
        "tokens": found.tokens,
        "input_share_of_tokens": found.input_share_of_tokens,
        "input_share_of_bill": found.input_share_of_bill,
    }
