"""Price sheets: what a model costs by tokens, or a machine by the hour, as data with a date and a source.

A sheet is a TOML file of flat keys. Prices are for a million tokens, `per_hour` is for a whole machine.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError
from specq.lab import cost_checks, dated

FOLDER = Path("configs/prices")
OLDEST_DAYS = 90
"""A sheet that is older is said to be: prices of services and machines move within a quarter."""
TOKEN_PRICES = ("input_price", "cached_price", "output_price", "cache_write_price")
PRICES = (*TOKEN_PRICES, "per_hour")
_TEXTS = {
    "source": 'source = "https://... or the name of the offer"',
    "model": 'model = "what is priced"',
    "currency": 'currency = "USD"',
}
KEYS = ("date", *_TEXTS, *PRICES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A price sheet; a price that it does not name is not in `prices`."""

    file: Path
    date: dt.date
    source: str
    model: str
    currency: str
    prices: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Every key, as JSON values."""
        return {
            "file": str(self.file),
            "date": self.date.isoformat(),
            "source": self.source,
            "model": self.model,
            "currency": self.currency,
            **self.prices,
        }

    def aged(self, today: dt.date) -> str | None:
        """A sentence about a sheet that is too old, or dated after today; None of one that is neither."""
        days = (today - self.date).days
        if days > OLDEST_DAYS:
            return (
                f"{self.file} is of {self.date}, {days} days old; prices older than {OLDEST_DAYS} days may have "
                f"moved: look at {self.source}"
            )
        return dated.ahead(self.file, self.date, today)


def load(given: Path | str) -> Sheet:
    """Read a sheet, by name or as a file.

    Raises:
        ConfigError: there is none, it is no TOML, or it is no price sheet; in one line that starts with the file.
    """
    path = dated.find(given, FOLDER, noun="price sheet", many="sheets", typed="--prices NAME, or name a file")
    return dated.read(path, _sheet, noun="price sheet", keys=KEYS)


def _sheet(path: Path, values: Mapping[str, Any]) -> Sheet:
    day = dated.day(values, "the prices were read")
    texts = dated.texts(values, _TEXTS)
    prices = {key: cost_checks.number(key, values[key], typed=in_sheet(key)) for key in PRICES if key in values}
    need_pair(prices, in_sheet)
    if not prices:
        raise ConfigError("it has no price; type input_price = 1.00 and output_price = 4.00, or per_hour = 2.50")
    return Sheet(file=path, date=day, prices=prices, **texts)


def in_sheet(key: str) -> str:
    """A price as it is typed in a sheet."""
    return f"{key} = {cost_checks.EXAMPLES[key]}"


def need_pair(prices: Mapping[str, float], how: Callable[[str], str] = cost_checks.option) -> None:
    """Refuse token prices without the input or the output price; `how` says how a price is typed.

    Raises:
        ConfigError: says which one is missing.
    """
    given = [key for key in TOKEN_PRICES if key in prices]
    for key in ("input_price", "output_price"):
        if given and key not in prices:
            raise ConfigError(f"{key} is missing beside {given[0]}: a bill needs both; type {how(key)}")


def together(sheets: Sequence[Sheet], given: Mapping[str, float], currency: str | None) -> tuple[str, dict[str, float]]:
    """The one currency of sheets and of what was `given` beside them, and every price; what was given comes first.

    Raises:
        ConfigError: currencies differ, or two sheets have the same price.
    """
    of = {str(sheet.file): sheet.currency for sheet in sheets}
    if currency is not None:
        of["--currency"] = currency
    names = list(of.items())
    for where, one in names[1:]:
        if one != names[0][1]:
            raise ConfigError(
                f"mixed currencies: {names[0][0]} has {names[0][1]}, {where} has {one}; nothing is converted here: "
                "give all prices in one currency"
            )
    prices: dict[str, float] = {}
    for sheet in sheets:
        if twice := [key for key in sheet.prices if key in prices]:
            raise ConfigError(
                f"{sheet.file}: {twice[0]} stands in another sheet too; give one sheet of a service and one of a "
                "machine, and compare two services by two calls"
            )
        prices |= sheet.prices
    return names[0][1] if names else "USD", {**prices, **given}
