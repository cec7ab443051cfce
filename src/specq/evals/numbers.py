"""Numbers as people write them: signs, thousands, decimal marks, magnitudes, percent, currencies and units.

A number whose marks can be read in two ways ("1.234", "1,234") is decided by `decimal`: "." reads 1.234 as 1.234 and
1,234 as 1234, "," the other way round. "auto" goes by the other numbers of the same text where all that are clear
agree, and else by the language: a point in English, a comma in German and Turkish. Whatever is clear by its form is
read by its form.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import regex

from specq.evals.units import CURRENCY_BEFORE, UNIT_WORD, is_currency, magnitude, unit_of

Decimals = Literal[".", ",", "auto"]
Language = Literal["en", "de", "tr"]

_SPACES = "\u0020\u00a0\u2009\u202f"
_NUMBER = regex.compile(
    rf"""
    (?<![\p{{L}}\p{{N}}_.,])                       # no part of a word, a code or another number
    (?:(?P<sign>(?<![\p{{N}})%])[-+\u2212])[{_SPACES}]?)?
    (?P<before>(?:{CURRENCY_BEFORE})[{_SPACES}]?|%)?
    (?P<inner>[-\u2212](?=\d))?
    (?P<digits>
        \d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?![\d])(?:[.,]\d+)?   # 1 234,56
      | \d{{1,3}}(?:['\u2019]\d{{3}})+(?![\d])(?:[.,]\d+)?     # 1'234.56
      | \d+(?:[.,]\d+)*                                        # 1,234.56 and 1.234,56
      | [.,]\d+                                                # .5
    )
    (?:
        [eE](?P<exponent>[-+]?\d{{1,3}})(?![\p{{L}}\p{{N}}])          # 1e6
      | [ ]?[x\u00d7\u00b7*][ ]?10\^(?P<power>[-+\u2212]?\d{{1,3}})   # 1 x 10^6
    )?
    """,
    regex.X,
)
_TAIL = regex.compile(rf"(?P<gap>[{_SPACES}]?)(?P<word>{UNIT_WORD})")
# Dates and times are no numbers.
_CALENDAR = regex.compile(
    r"(?<![\d.,/-])(?:\d{4}-\d{1,2}-\d{1,2}|\d{1,2}([./-])\d{1,2}\1\d{2,4}|\d{1,2}:\d{2}(?::\d{2})?)(?![\d/-]|[.,]\d)"
)
_LONGEST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number in a text: its value, its unit ("" for none) and what stood there."""

    value: Decimal
    unit: str
    text: str


def read(text: str, *, decimal: Decimals = "auto", language: Language = "en") -> tuple[Number, ...]:
    """All numbers of a text, in order. `language` decides words that differ: a German Billion is a million millions.

    Dates, times, section numbers such as 1.2.3 and digits inside of words are none, nor is what has over 60 digits.
    """
    # Blanked, not cut, so that places in the text stay.
    plain = _CALENDAR.sub(lambda match: "\0" * len(match[0]), text)
    matches = [match for match in _NUMBER.finditer(plain) if len(match["digits"]) <= _LONGEST]
    if decimal == "auto":
        seen = {mark for match in matches if (mark := _shown_mark(match["digits"]))}
        mark = seen.pop() if len(seen) == 1 else "." if language == "en" else ","
    else:
        mark = decimal
    found = (_number(plain, match, mark, language) for match in matches)
    return tuple(number for number in found if number is not None)


def _number(text: str, match: regex.Match[str], decimal: str, language: Language) -> Number | None:
    plain = _plain(match["digits"], decimal)
    if plain is None:
        return None
    value = Decimal(plain)
    exponent = match["exponent"] or match["power"]
    if exponent:
        value = value.scaleb(int(exponent.replace("\u2212", "-")))
    unit, end = unit_of((match["before"] or "").strip()), match.end()
    tail = _TAIL.match(text, end)
    if tail and not exponent:
        after = _TAIL.match(text, tail.end())
        money = is_currency(unit) or bool(after and is_currency(unit_of(after["word"])))
        if times := magnitude(tail["word"], language, touching=not tail["gap"], money=money):
            value, end, tail = value * times, tail.end(), after
    if tail and not unit and (named := unit_of(tail["word"])):
        unit, end = named, tail.end()
    negative = match["sign"] in ("-", "\u2212") or bool(match["inner"])
    return Number(value=-value if negative else value, unit=unit, text=text[match.start() : end].strip())


def _shown_mark(digits: str) -> str | None:
    """The decimal mark that a number shows without doubt: itself, or by the other mark between thousands."""
    mark = _decimal_mark(digits)
    if mark == "" and len(marks := [character for character in digits if character in ".,"]) > 1:
        return "," if marks[0] == "." else "."
    return mark or None


def _decimal_mark(digits: str) -> str | None:
    """The decimal mark where the form leaves no doubt, "" where there is none, None where two readings are left."""
    marks = [character for character in digits if character in ".,"]
    if not marks:
        return ""
    last = marks[-1]
    whole, _, rest = digits.rpartition(last)
    if len(set(marks)) == 2 or any(character in f"{_SPACES}'\u2019" for character in whole):
        return last
    if len(marks) > 1:
        return ""
    doubtful = len(rest) == 3 and 1 <= len(whole) <= 3 and whole[0] != "0"
    return None if doubtful else last


def _plain(digits: str, decimal: str) -> str | None:
    """Digits with at most a point in them, or None where the groups are those of no number (1.2.3, 1,23,4.5)."""
    mark = _decimal_mark(digits)
    if mark is None:
        mark = decimal if decimal in digits else ""
    whole, _, rest = digits.rpartition(mark) if mark else (digits, "", "")
    groups = regex.split(rf"[.,{_SPACES}'\u2019]", whole)
    separators = {" " if character in _SPACES else character for character in whole if not character.isdigit()}
    if len(separators) > 1 or mark in separators:
        return None
    if len(groups) > 1 and (not 1 <= len(groups[0]) <= 3 or any(len(group) != 3 for group in groups[1:])):
        return None
    return f"{''.join(groups) or '0'}.{rest}" if rest else "".join(groups)
