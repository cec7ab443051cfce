"""Price sheets: what a model costs by tokens, or a machine by the hour, as data with a date and a source.

A sheet is a TOML file of flat keys. Prices are for a million tokens, `per_hour` is for a whole machine.
"""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError, nearest
from specq.lab import cost_checks

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
        if days < 0:
            return f"{self.file} is dated {self.date}, after today: correct its date"
        if days > OLDEST_DAYS:
            return (
                f"{self.file} is of {self.date}, {days} days old; prices older than {OLDEST_DAYS} days may have "
                f"moved: look at {self.source}"
            )
        return None


def folders() -> tuple[Path, ...]:
    """Where sheets are looked for by name: under the current folder, then beside the source that runs."""
    return FOLDER, Path(__file__).parents[3] / FOLDER


def find(given: Path | str) -> Path:
    """The file of a sheet that is given by name or as a file.

    Raises:
        ConfigError: there is no such file, and no sheet of that name.
    """
    path = Path(given).expanduser()
    if path.is_file():
        return path
    for folder in folders():
        # A name is one word: what has a folder or an ending was meant as a file.
        if path.name == str(given) and (found := folder / f"{given}.toml").is_file():
            return found
    names = sorted({file.stem for folder in folders() for file in folder.glob("*.toml")})
    known = f"sheets are {', '.join(names)}" if names else f"{FOLDER}/ has none"
    raise ConfigError(
        f'no price sheet "{given}"{nearest(path.stem, names) or ";"} {known}; type --prices NAME, or name a file'
    )


def load(given: Path | str) -> Sheet:
    """Read a sheet, by name or as a file.

    Raises:
        ConfigError: there is none, it is no TOML, or it is no price sheet; in one line that starts with the file.
    """
    path = find(given)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as TOML ({error}); name a price sheet") from error
    try:
        return _sheet(path, values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _sheet(path: Path, values: Mapping[str, Any]) -> Sheet:
    for key in values:
        if key not in KEYS:
            raise ConfigError(f'unknown key "{key}"{nearest(key, KEYS) or ";"} allowed: {", ".join(KEYS)}')
    day = values.get("date")
    if isinstance(day, dt.datetime):
        day = day.date()
    if not isinstance(day, dt.date):
        given = "date is missing" if day is None else f"date = {day!r}"
        raise ConfigError(
            f"{given}: it is the day on which the prices were read, without quotes; type date = 2026-01-31"
        )
    for key, typed in _TEXTS.items():
        text = values.get(key)
        if not isinstance(text, str) or not text.strip():
            given = f"{key} is missing" if text is None else f"{key} = {text!r}"
            raise ConfigError(f"{given}: it is a text that is not empty; type {typed}")
    prices = {key: cost_checks.number(key, values[key], typed=in_sheet(key)) for key in PRICES if key in values}
    need_pair(prices, in_sheet)
    if not prices:
        raise ConfigError("it has no price; type input_price = 1.00 and output_price = 4.00, or per_hour = 2.50")
    texts = {key: values[key].strip() for key in _TEXTS}
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
