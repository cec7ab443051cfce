"""Words and signs beside a number: currencies, percent, measures, and magnitudes such as million."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import regex

# One name for each unit; a name of three capitals is a currency (ISO 4217). Nothing is converted.
_UNITS: dict[str, tuple[str, ...]] = {
    "EUR": ("€", "euro", "euros", "eur", "avro"),
    "USD": ("$", "us$", "usd", "dollar", "dollars", "dolar"),
    "GBP": ("£", "gbp", "sterlin", "sterling"),
    "TRY": ("₺", "tl", "try", "ytl", "lira", "liras"),
    "CHF": ("chf", "sfr", "franken", "fr."),
    "JPY": ("¥", "jpy", "yen"),
    **{code: (code.lower(),) for code in ("AUD", "CAD", "CNY", "CZK", "DKK", "HUF", "INR", "NOK", "PLN", "SEK", "AED")},
    "%": ("%", "percent", "per cent", "pct", "prozent", "yüzde", "v.h."),
    "kg": ("kg", "kilo", "kilos", "kilogram", "kilograms", "kilogramm"),
    "g": ("g", "gr", "gram", "grams", "gramm"),
    "mg": ("mg", "milligram", "milligrams", "milligramm", "miligram"),
    "t": ("t", "ton", "tons", "tonne", "tonnes", "tonnen"),
    "lb": ("lb", "lbs"),
    "km": ("km", "kilometre", "kilometres", "kilometer", "kilometers", "kilometern"),
    "m": ("m", "metre", "metres", "meter", "meters", "metern"),
    "cm": ("cm", "centimetre", "centimetres", "centimeter", "centimeters", "zentimeter", "santimetre"),
    "mm": ("mm", "millimetre", "millimetres", "millimeter", "millimeters", "milimetre"),
    "mi": ("mi", "mile", "miles", "meile", "meilen", "mil"),
    "m2": ("m²", "m2", "sqm", "qm", "metrekare"),
    "m3": ("m³", "m3", "cbm"),
    "l": ("l", "litre", "litres", "liter", "liters", "litern", "lt"),
    "ml": ("ml", "millilitre", "millilitres", "milliliter", "mililitre"),
    "h": ("h", "hr", "hrs", "hour", "hours", "stunde", "stunden", "std", "saat"),
    "min": ("min", "mins", "minute", "minutes", "minuten", "dakika", "dk"),
    "s": ("s", "sec", "secs", "second", "seconds", "sekunde", "sekunden", "saniye", "sn"),
    "d": ("d", "day", "days", "tag", "tage", "tagen", "gün"),
    "wk": ("week", "weeks", "woche", "wochen", "hafta"),
    "mo": ("month", "months", "monat", "monate", "monaten", "ay"),
    "a": ("year", "years", "jahr", "jahre", "jahren", "y\u0131l", "yil", "sene"),
    "pcs": ("pcs", "pc", "piece", "pieces", "stück", "stk", "adet"),
    "°C": ("°c", "℃", "celsius"),
    "°F": ("°f", "℉", "fahrenheit"),
    "kWh": ("kwh",),
    "kW": ("kw",),
    "GB": ("gb", "gigabyte", "gigabytes", "gigabayt"),
    "MB": ("mb", "megabyte", "megabytes", "megabayt"),
}
_NAME_OF = {word: name for name, words in _UNITS.items() for word in words}
_MAGNITUDES = {
    **dict.fromkeys(("thousand", "tausend", "tsd", "tsd."), 3),
    **dict.fromkeys(("million", "millions", "millionen", "mio", "mio.", "mn", "mln", "milyon"), 6),
    **dict.fromkeys(("milliarde", "milliarden", "mrd", "mrd.", "milyar", "bn", "bln"), 9),
    **dict.fromkeys(("trilyon",), 12),
}
# The same word means another number elsewhere, or no number at all: Turkish bin is a thousand.
_BY_LANGUAGE: dict[str, dict[str, int]] = {
    "en": {"billion": 9, "billions": 9, "trillion": 12, "trillions": 12},
    "de": {"billion": 12, "billionen": 12, "trillion": 18, "trillionen": 18},
    "tr": {"bin": 3},
}
CURRENCY_BEFORE = "|".join(
    [
        r"US\$",
        *(regex.escape(sign) for sign in "€$£₺¥"),
        r"(?<!\p{L})(?:TL|SFr\.?|Fr\.|"
        + "|".join(name for name in _UNITS if len(name) == 3 and name.isalpha() and name.isupper())
        + ")",
    ]
)
UNIT_WORD = r"[€$£₺¥%℃℉]|°[CF]|(?:US\$)|(?:m[²³23])(?!\p{L}|\d)|per[ ]cent|v\.H\.|(?:Mio|Mrd|Tsd)\.|\p{L}+"


def unit_of(word: str) -> str:
    """The one name of a unit, or "" for a word that is none.

    The letters of a measure or a currency may have any case, but a single letter must be small: M is no metre.
    """
    if len(word) == 1 and word.isupper():
        return ""
    return _NAME_OF.get(word.casefold(), "")


def is_currency(unit: str) -> bool:
    """Whether a unit of `unit_of` is a currency."""
    return len(unit) == 3 and unit.isalpha() and unit.isupper()


def magnitude(word: str, language: Literal["en", "de", "tr"], *, touching: bool, money: bool) -> Decimal | None:
    """What a number is multiplied with by the word after it, or None.

    "k" and "M" count where they touch the number, "m" where it also is an amount of money.
    """
    small = word.casefold()
    power = _BY_LANGUAGE[language].get(small, _MAGNITUDES.get(small))
    if power is None and touching:
        power = {"k": 3, "K": 3, "M": 6, "B": 9}.get(word) or (6 if word == "m" and money else None)
    return None if power is None else Decimal(10) ** power
