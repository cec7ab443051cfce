"""Numbers and foreign text in words that are safe to show."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import TYPE_CHECKING

from specq.core.nouns import counted

if TYPE_CHECKING:
    from specq.report.measures import Measure

NOTHING = "-"
# What Markdown reads anywhere; an underscore inside a word and a sign after a line's start are plain.
_ANYWHERE = re.compile(r"([\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\.)")
_AT_START = re.compile(r"^(\s*)([#=>]|[-+](?!\d)|\d+(?=[.)](?:\s|$)))")


def visible(text: str) -> str:
    """Text on one line in which control, format and private characters are spelled out.

    A terminal would obey the escape sequences that a model or a file may contain, and invisible
    characters reorder what is read.
    """
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
        else character
        for character in text
    )


def markdown(text: str) -> str:
    """Visible text in which nothing is Markdown or HTML any more."""
    plain = visible(text).replace("&", "&amp;").replace("<", "&lt;")
    plain = _ANYWHERE.sub(r"\\\1", plain)
    return plain if plain == NOTHING else _AT_START.sub(_escape_start, plain)


def _escape_start(match: re.Match[str]) -> str:
    # A number cannot carry a backslash; as an entity it starts no list.
    sign = match[2]
    return match[1] + (f"&#{ord(sign[0])};{sign[1:]}" if sign[0].isdigit() else "\\" + sign)


def number(value: float | None, digits: int = 3) -> str:
    """A number with `digits` significant digits, whole ones kept, no exponent from 1e-4 on; a dash for None."""
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    if abs(value) < 1e-4:
        return f"{value:.1e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def ratio(value: float | None) -> str:
    """A ratio with two decimals."""
    return NOTHING if value is None else f"{value:.2f}"


def share(value: float | None) -> str:
    """A share as per cent."""
    return NOTHING if value is None else f"{100 * value:.0f} %"


def agreement(value: float | None) -> str:
    """A share as per cent that says 100 only of all."""
    return share(value) if value is None or not 0.99 < value < 1 else f"{min(100 * value, 99.9):.1f} %"


def milliseconds(value: float | None) -> str:
    """Seconds shown as milliseconds, without the unit."""
    return NOTHING if value is None else number(1000 * value)


def size(value: float | None) -> str:
    """Bytes in MiB or GiB."""
    if value is None:
        return NOTHING
    return f"{value / 2**30:.2f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"


def interval(measure: Measure) -> str:
    """The interval of a ratio as "1.22 to 1.41", or a dash."""
    if measure.low is None or measure.high is None:
        return NOTHING
    return f"{measure.low:.2f} to {measure.high:.2f}"


def points(value: float | None, share_of: bool = True) -> str:
    """A difference of shares in percentage points, with its sign; of other scores as a number with three digits."""
    return signed(value, share_of) + (" points" if share_of and value is not None else "")


def signed(value: float | None, share_of: bool = True) -> str:
    """As `points`, without the unit, for a column that names it.

    What rounds to 0 and is not keeps its sign by one digit more: "-0.0" would leave open on which side of 0 it lies.
    """
    if value is None:
        return NOTHING
    scaled, digits = (100 * value, 1) if share_of else (value, 3)
    shown = f"{scaled:+.{digits}f}"
    if float(shown) == 0:
        finer = f"{scaled:+.{digits + 1}f}"
        return finer if float(finer) else f"{0:+.{digits}f}"
    return shown


def near_tie(more: int, best: str, rival: str | None) -> str:
    """How many more prompts would part the best draft from the next, or from plain decoding where that is its rival."""
    told = f"{best} and {rival or 'plain decoding'} are not apart"
    return f"{told}; about {counted(more, 'more prompt')} like these would part them."


def no_interval(prompts: int) -> str:
    """Why a forecast from so many prompts has no interval: one alone has a text with steps."""
    alone = f"One of {prompts} texts alone has a step, the others end with their first token"
    return (
        f"{'One prompt' if prompts < 2 else alone}: there is no interval, and nothing can be said about other prompts."
    )


def span(low: float, high: float, share_of: bool = True) -> str:
    """Two ends of a difference, both with their sign: "-5.1 to +1.2"."""
    return f"{signed(low, share_of)} to {signed(high, share_of)}"


def moved(value: float, low: float, high: float, share_of: bool = True) -> str:
    """A difference with its interval: "-1.5 points (-5.1 to +1.2)"."""
    return f"{points(value, share_of)} ({span(low, high, share_of)})"
