"""What the text looks like in which prompts differ: a date, a time, an id, a counter, somebody's name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from specq.workloads.personal import KINDS as PERSONAL

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_DAY = r"(?:Mon|Tues?|Wednes|Thurs?|Fri|Satur|Sun)(?:day)?|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_DATE = (
    r"\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    rf"|{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}|\d{{1,2}}(?:st|nd|rd|th|\.)? {_MONTH}\.?,? \d{{4}}"
)
_TIME = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[AaPp][Mm]\b)?(?:Z|[+-]\d\d:?\d\d)?"
_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_PERSONAL = rf"\[(?:{'|'.join(kind.upper() for kind in PERSONAL)})_\d+\]"
_STAMP = r"1[3-9]\d{8}(?:\d{3}){0,3}(?:\.\d+)?"
_RANDOM = r"(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[A-Za-z0-9_-]{8,}"
_NUMBER = r"\d+(?:[.,]\d+)*"
KINDS = {
    "a date and a time": rf"(?:(?:{_DAY})[, ]{{1,2}})?(?:{_DATE})(?:[T ]|, | at ){_TIME}",
    "a date": rf"(?:(?:{_DAY})[, ]{{1,2}})?(?:{_DATE})",
    "a UUID": _UUID,
    "personal data": _PERSONAL,
    "a time stamp": _STAMP,
    "a time of day": _TIME,
    "a random id": _RANDOM,
    "a number": _NUMBER,
}
"""Kinds of values and their form, the narrower before the wider."""
WEEKDAY, COUNTER, NAME, TEXT, END = "a day of the week", "a counter", "a name", "free text", "the end of a prompt"
SURE = frozenset((*KINDS, WEEKDAY, COUNTER, NAME)) - {"a number"}
"""Kinds that change from prompt to prompt by their nature, however few of them a log shows."""
_PATTERNS = {kind: re.compile(rf"(?<![A-Za-z0-9])(?:{form})(?![A-Za-z0-9])") for kind, form in KINDS.items()}
_PATTERNS["personal data"] = re.compile(_PERSONAL)
_PATTERNS[WEEKDAY] = re.compile(rf"\b(?:{_DAY})\b")
VALUE = re.compile(
    rf"{_PERSONAL}|(?<![A-Za-z0-9])(?:"
    + "|".join(KINDS[kind] for kind in KINDS if kind != "personal data")
    + r")(?![A-Za-z0-9])"
)
"""Any value of these kinds in a text."""
_NAMED = re.compile(
    r"(?:user|name|customer|client|author|account|hello|hi|dear|from|for|kunde|hallo|liebe[r]?|merhaba|say\u0131n)[^\w\n]{1,4}$",
    re.IGNORECASE,
)
_WINDOW, _WORD = 80, 40
_MOST = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What stands at a place in some texts: its kind, and the value and its start in each."""

    kind: str
    values: tuple[str, ...]
    starts: tuple[int, ...]


def name(texts: Sequence[str], at: int) -> Named:
    """What differs at a place where some texts, in the order in which they came, stop being equal.

    The kind is the narrowest that most of the texts have there.
    """
    for kind, pattern in _PATTERNS.items():
        found = [_covering(pattern, text, at) for text in texts]
        if sum(one is not None for one in found) >= _MOST * len(texts):
            taken = [one if one is not None else _word(text, at) for one, text in zip(found, texts, strict=True)]
            told = COUNTER if kind == "a number" and _rises([value for _, value in taken]) else kind
            return _named(told, taken)
    if all(at >= len(text) for text in texts):
        return _named(END, [(at, "") for _ in texts])
    taken = [_word(text, at) for text in texts]
    called = sum(
        bool(_NAMED.search(text[max(0, start - _WORD) : start])) and value[:1].isupper()
        for text, (start, value) in zip(texts, taken, strict=True)
    )
    return _named(NAME if called >= _MOST * len(texts) else TEXT, taken)


def _named(kind: str, taken: Sequence[tuple[int, str]]) -> Named:
    return Named(kind=kind, values=tuple(value for _, value in taken), starts=tuple(start for start, _ in taken))


def _covering(pattern: re.Pattern[str], text: str, at: int) -> tuple[int, str] | None:
    """The match that a place lies in, or right behind: one of two numbers may be the other's beginning."""
    first = max(0, at - _WINDOW)
    for match in pattern.finditer(text, first, at + _WINDOW):
        if match.start() <= at <= match.end():
            return match.start(), match.group()
    return None


def _word(text: str, at: int) -> tuple[int, str]:
    """The word around a place, cut where it is long."""
    start = at
    while start > max(0, at - _WORD) and not text[start - 1].isspace():
        start -= 1
    end = at
    while end < min(len(text), at + _WORD) and not text[end].isspace():
        end += 1
    return start, text[start:end]


def _rises(values: Sequence[str]) -> bool:
    """Whether numbers nearly never fall, and do not stay: at least three, 9 of 10 steps up or level."""
    if len(values) < 3 or not all(value.isdigit() for value in values):
        return False
    numbers = [int(value) for value in values]
    up = sum(left <= right for left, right in pairwise(numbers))
    return len(set(numbers)) > len(numbers) // 2 and up >= 0.9 * (len(numbers) - 1)
