"""Foreign text on a page: escaped, without characters that reorder or hide what is read, and cut at a stated length."""

from __future__ import annotations

import unicodedata

from markupsafe import Markup, escape

from specq.report.words import visible

LINE = 2000
CELL = 400
LABEL = 22


def foreign(text: str, length: int = LINE, *, lines: bool = False) -> Markup:
    """Text as HTML of at most `length` characters, and how many more there are.

    `lines` keeps line ends and tabs, for text that is shown as it was written.
    """
    shown, more = shorten(text, length, lines=lines)
    if not more:
        return escape(shown)
    unit = "character" if more == 1 else "characters"
    return escape(shown) + Markup('<span class="more">… {} more {}</span>').format(f"{more:,}", unit)


def shorten(text: str, length: int, *, lines: bool = False) -> tuple[str, int]:
    """Visible text of at most `length` characters, and how many characters of `text` are not in it."""
    found: list[str] = []
    room = length
    for place, character in enumerate(text):
        piece = character if lines and character in "\n\t" else _spelled(character)
        room -= len(piece)
        if room < 0:
            return "".join(found), len(text) - place
        found.append(piece)
    return "".join(found), 0


def label(text: str, length: int = LABEL) -> str:
    """Text for a place that takes no markup, such as a chart: visible and short, with a sign where it is cut."""
    shown, more = shorten(text, length)
    return f"{shown}…" if more else shown


def _spelled(character: str) -> str:
    # What Unicode has not assigned is not allowed in XML, or drawn as nothing.
    if unicodedata.category(character) == "Cn":
        return character.encode("unicode_escape").decode("ascii")
    return visible(character)
