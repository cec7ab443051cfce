"""Where sentences end. Places are characters of the text."""

from __future__ import annotations

import re

# After these a full stop ends no sentence.
_SHORT_WORDS = (
    "mr mrs ms dr prof st sr jr no nr art sec vs etc e.g i.e eg ie approx inc ltd co corp fig al ca cf p pp vol ed eds "
    "jan feb mar apr jun jul aug sep sept oct nov dec min max rev bzw z.b d.h usw abs m mme"
)
_SHORT = frozenset(_SHORT_WORDS.split())
_END = re.compile(r"[.!?\u2026]+[)\]\"'\u2019\u201d\u00bb]*(?=\s)|[\u3002\uff01\uff1f]+[\u300d\u300f\uff09\u201d]*")
_LAST_WORD = re.compile(r"([^\W_][\w.]*)\.$")


def sentences(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """The sentences of a stretch of text, without the spaces between them.

    A full stop after an initial, a number that begins its line or a common abbreviation ends none, and neither does one
    before a small letter.
    """
    end = len(text) if end is None else end
    found, begun = [], start
    for match in _END.finditer(text, start, end):
        if match.end() >= end or not _ends(text, begun, match.end(), end):
            continue
        found.append((begun, match.end()))
        begun = match.end()
    found.append((begun, end))
    return [bare for span in found if (bare := strip(text, *span))[0] < bare[1]]


def strip(text: str, start: int, end: int) -> tuple[int, int]:
    """A stretch without the space at its ends."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _ends(text: str, begun: int, at: int, end: int) -> bool:
    told = text[begun:at]
    following = text[at:end].lstrip()
    if not following:
        return False
    if following[0].islower() and told.endswith((".", "\u2026")):
        return False
    word = _LAST_WORD.search(told)
    if word is None:
        return True
    bare = word[1].casefold()
    # "J. Smith" goes on, and so does "1. Pay" at the beginning; "in 2024. Then" does not.
    return not (
        bare in _SHORT or (len(bare) == 1 and bare.isalpha()) or (bare.isdecimal() and not told[: word.start()].strip())
    )
