"""How numbers and money are written: digits grouped in any way, words, CJK numerals, scales, and currencies.

Currency codes are those of ISO 4217; the tables stand in fields.toml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from specq.prompts.tables import BEGIN, END, NO_LETTER, TABLES, choice

_NUMBER, _CURRENCY, _UNIT = TABLES["number"], TABLES["currency"], TABLES["unit"]
_GROUP = r"[,'\u2019\u00a0\u202f\u2009\u066c]"
# Groups of 2 (lakh, crore), 3 and 4 digits, with a comma, a point, an apostrophe or a space between them.
_DIGITS = (
    rf"(?:\d{{1,4}}(?:{_GROUP}\d{{2,4}})+(?:[.,\u066b]\d+)?|\d{{1,3}}(?:\.\d{{3}})+(?:,\d{{1,2}})?(?!\d)|"
    r"\d{1,3}(?: \d{3})+(?:,\d+)?(?!\d)|"
    r"\d+(?:[.,\u066b]\d+)?[\u00bc-\u00be\u2150-\u215e]?|[\u00bc-\u00be\u2150-\u215e])"
)
_TENS = rf"[{_NUMBER['cjk_scales']}]"
_NUMERALS = _NUMBER["numerals"]
# A lone "one" is an article in Chinese.
_CJK = rf"(?:[{_NUMERALS}]{{2,30}}|[{_NUMERALS.replace(chr(0x4E00), '')}])"
_SPELLED = "|".join(sorted(_NUMBER["spelled"], key=len, reverse=True))
# Bounded, so that a long run of numbers is read in time that grows with its length alone.
_FIGURES = rf"[-+\u2212\u00b1]?{_DIGITS}(?:\s?{_TENS}+(?:{_DIGITS}\s?{_TENS}+){{0,9}}(?:\d+)?)?"
FRACTION = "|".join(sorted(_NUMBER["fractions"], key=len, reverse=True))
_AND = r"\s(?:and|und|et|y|ed?)\s(?:(?:an?|one|two|three|une?|eine?|tre|trois)[\s-])?"
# "5 and a half", "2 1/2" and "3 dozen"; without "and" a fraction belongs to what follows: "in 2024 half of them".
_MORE = (
    rf"(?:(?:[\s-]\d{{1,2}}/\d{{1,2}}(?![\d/]))|(?i:(?:{_AND}(?:{FRACTION})"
    rf"|[\s-](?:{'|'.join(_NUMBER['multiples'])})){END}))?"
)
_JOINT = (
    r"(?:\s|-|und|\sy\s|-et-|\set\s|\sed?\s|\sand\s(?:an?\s)?|"
    r"\s(?:point|Komma|virgule|coma|virgola|v\u00edrgula)\s)?"
)
_IN_WORDS = rf"(?i:{BEGIN}(?:{_SPELLED})(?:{_JOINT}(?:{_SPELLED}|{FRACTION})){{0,9}}{END})"
NUMBER = rf"(?:{BEGIN}{_FIGURES}{_MORE}|{_IN_WORDS}|{_CJK})"
_SCALE = rf"(?:{choice(_NUMBER['scales'], begin='')}|{choice(_NUMBER['scales_exact'], exact=True, begin='')})"
_TO = r"\s?(?:[-~\u2010-\u2015\u2212]|\b(?:to|bis|\u00e0|a|al|do|\u0434\u043e)\b|\u304b\u3089|\u81f3|\u5230)\s?"
_CODES = _CURRENCY["codes"].split()
_SIGN = rf"[A-Z]{{0,3}}[{_CURRENCY['signs']}]"
CURRENCY = re.compile(rf"(?:{_SIGN}|{choice(_CODES, exact=True)}|{choice(_CURRENCY['words'])})")


def _beside(*, begin: str, end: str) -> str:
    """A currency that has no edge on the side of its number."""
    exact = ["[A-Z]{3}", *_CURRENCY["marks_exact"]]
    told = [*_CODES, *_CURRENCY["words"], *_CURRENCY["words_beside_a_number"]]
    return rf"(?:{_SIGN}|{choice(exact, exact=True, begin=begin, end=end)}|{choice(told, begin=begin, end=end)})"


_UNITS = rf"{choice(_UNIT['words'], begin='')}|{choice(_UNIT['words_exact'], exact=True, begin='')}"
# "500/-" and "5,-" have no smaller coins.
_EVEN = r"(?:/-|[.,][-\u2013\u2014])?"
_QUANTITY = re.compile(
    rf"(?:(?P<before>{_beside(begin=BEGIN, end='')}[\s:]{{0,2}}){_FIGURES}{_MORE}|{NUMBER})(?:\s?(?P<scale>{_SCALE}))?"
    rf"(?:{_TO}(?:(?:{_SIGN})?{_FIGURES}{_MORE}|{_IN_WORDS})(?:\s?{_SCALE})?)?{_EVEN}"
    rf"(?:(?P<after>\s?{_beside(begin='', end=END)})|(?P<unit>[\s-]?(?:{_UNITS}))|"
    rf"(?P<percent>(?:\sof\s(?:an?|one)|\sa)?\s?{choice(TABLES['rate']['percent'], begin='')}))?"
)
_PARTED = re.compile(
    rf"(?i:[\s-](?:{FRACTION}){END})|\d[\s-]\d+/\d|"
    r"\d[.,'\u2019\u00a0\u202f\u2009\u066b\u066c ]\d|[\u00bc-\u00be\u2150-\u215e]"
)
_GOES_ON = re.compile(rf"[.,]\d|{NO_LETTER}")


def quantities(text: str) -> Iterator[tuple[Literal["amount", "rate", "number"], int, int]]:
    """Every number of a folded text with what belongs to it, as kind, start and end.

    An amount has a currency, a unit or a scale, or is parted (5,000, 3.5 and two thirds), a rate has a percent sign or
    word, and a number has nothing.
    """
    for match in _QUANTITY.finditer(text):
        start, end = match.span()
        parted = _PARTED.search(match[0]) and not _GOES_ON.match(text, end)
        if match["percent"]:
            yield "rate", start, end
        elif parted or any(match[part] for part in ("before", "after", "unit", "scale")):
            yield "amount", start, end
        else:
            yield "number", start, end
