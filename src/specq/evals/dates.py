"""Dates in English, German and Turkish, in figures or with the month's name. dateutil does the reading."""

from __future__ import annotations

import datetime
import re
from typing import Any, ClassVar

from dateutil.parser import ParserError, parser, parserinfo

_YEAR_FIRST = re.compile(r"(\d{4})([-/.]?)(\d\d?)\2(\d\d?)(?!\d)")
_LONGEST = 60
# Letters without their marks, so that ARALIK, Aralık and aralik are one month.
_BARE = str.maketrans(
    {"\u0131": "i", "ş": "s", "ğ": "g", "ü": "u", "ö": "o", "ç": "c", "ä": "a", "â": "a", "\u0307": ""}
)
# A year of two figures: from 70 on the last century (POSIX).
_PIVOT = 70


class _Words(parserinfo):
    MONTHS: ClassVar[list[tuple[str, ...]]] = [
        ("jan", "january", "januar", "janner", "ocak", "oca"),
        ("feb", "february", "februar", "subat", "sub"),
        ("mar", "march", "marz", "maerz", "mrz", "mart"),
        ("apr", "april", "nisan", "nis"),
        ("may", "mai", "mayis"),
        ("jun", "june", "juni", "haziran", "haz"),
        ("jul", "july", "juli", "temmuz", "tem"),
        ("aug", "august", "agustos", "agu"),
        ("sep", "sept", "september", "eylul", "eyl"),
        ("oct", "october", "okt", "oktober", "ekim", "eki"),
        ("nov", "november", "kasim", "kas"),
        ("dec", "december", "dez", "dezember", "aralik", "ara"),
    ]
    WEEKDAYS: ClassVar[list[tuple[str, ...]]] = [
        ("mon", "monday", "montag", "mo", "pazartesi"),
        ("tue", "tuesday", "dienstag", "di", "sali"),
        ("wed", "wednesday", "mittwoch", "mi", "carsamba"),
        ("thu", "thursday", "donnerstag", "do", "persembe"),
        ("fri", "friday", "freitag", "fr", "cuma"),
        ("sat", "saturday", "samstag", "sa", "cumartesi"),
        ("sun", "sunday", "sonntag", "so", "pazar"),
    ]
    JUMP: ClassVar[list[str]] = [*parserinfo.JUMP, "den", "der", "vom", "am", "the", "tarihli", "tarihinde", "gunu"]

    def convertyear(self, year: int, century_specified: bool = False) -> int:
        """A year of two figures by a fixed rule; dateutil's own depends on the day it runs."""
        if year >= 100 or century_specified:
            return year
        return year + (1900 if year >= _PIVOT else 2000)


_PARSER = {True: parser(_Words(dayfirst=True)), False: parser(_Words(dayfirst=False))}


def read(text: str, *, day_first: bool = True) -> datetime.date | None:
    """The date that a text is, or None where it is none or lacks its day, month or year.

    A date in figures that begins with the year has the month next. Else, where both could be the day
    ("05/03/2024"), `day_first` decides.
    """
    bare = text.replace("İ", "i").casefold().translate(_BARE).strip().rstrip(".")
    if match := _YEAR_FIRST.match(bare):
        rest = bare[match.end() :]
        year, _, month, day = match.groups()
        return _date(int(year), int(month), int(day)) if re.fullmatch(r"([t ]\d\d:\d\d.*)?", rest) else None
    if not re.search(r"\d", bare) or len(bare) > _LONGEST:
        return None
    found = {_parsed(bare, day_first, default) for default in _DEFAULTS}
    # What the text does not say comes from the default, so two defaults give two dates.
    return found.pop() if len(found) == 1 else None


_DEFAULTS = (datetime.datetime(2001, 1, 1), datetime.datetime(2002, 2, 2))


def _parsed(text: str, day_first: bool, default: datetime.datetime) -> datetime.date | None:
    try:
        found: Any = _PARSER[day_first].parse(text, default=default)
    except (ParserError, OverflowError, ValueError, TypeError):
        return None
    return datetime.date(found.year, found.month, found.day)


def _date(year: int, month: int, day: int) -> datetime.date | None:
    try:
        return datetime.date(year, month, day)
    except ValueError:
        return None
