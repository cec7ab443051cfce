"""Repeats: messages, paragraphs and lines that stand in an earlier place word for word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from specq.prompts.blocks import Block, blocks, is_cells, is_item, is_row, lines
from specq.prompts.protected import fields
from specq.prompts.sentences import strip
from specq.prompts.work import Edit, Piece, Work

# Shorter ones are answers, headings and rows, which say something new where they stand again.
LEAST_WORDS = 5
_QUOTES = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b", "'") | dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"')
)
# Numbers with their signs and marks, words, and marks that carry meaning; the rest is punctuation.
_TOKEN = re.compile(
    r"[-+\u2212\u00b1]?\s?\d[\d.,:/'-]*\d|[-+\u2212\u00b1]?\s?\d|\w+|[?%$\u20ac\u00a3\u00a5<>=\u2264\u2265\u2260+/&|@]"
)
_ENDED = re.compile(r"[.!?:;\u3002\uff01\uff1f][\"')\]\u2019\u201d*_]*$")


def key(text: str) -> tuple[str, ...]:
    """What near repeats share: the same words and numbers in the same order, whatever case, space and punctuation."""
    folded = unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold()
    return tuple("".join(token.split()) for token in _TOKEN.findall(folded))


def messages(work: Work) -> Iterator[Edit]:
    """Messages that one speaker said before; a user's goes with the answer to it where that stands earlier too."""
    seen: set[tuple[str, tuple[str, ...]]] = set()
    again: dict[int, bool] = {}
    for place, part in work.open_parts():
        words = key(part.text)
        if part.role not in ("user", "assistant") or part.message.get("tool_calls") or not words:
            continue
        if (part.role, words) in seen:
            again[place] = len(words) >= LEAST_WORDS
        seen.add((part.role, words))
    paired = -1
    for place, long in again.items():
        pair = (place, place + 1) if place + 1 in again and work.parts[place].role == "user" else (place,)
        if place == paired or not (long or again[pair[-1]]):
            continue
        paired = pair[-1]
        pieces = tuple(Piece(part=one, start=0, end=len(work.parts[one].text)) for one in pair)
        yield Edit(reason="repeated message", pieces=pieces, whole=pair)


def paragraphs(work: Work) -> Iterator[Edit]:
    """Paragraphs, lists and data that stand earlier too: prose and lists by their words, data by each character.

    What an assistant said is left, for examples may share their answer, and so is all code. Equal lines that blank
    lines set apart are counted as neighbours are in `within`.
    """
    seen: dict[tuple[str, ...], str] = {}
    for place, part in work.open_parts():
        behind = 0
        found = blocks(part.text)
        for i, block in enumerate(found):
            told = part.text[block.start : block.end].strip()
            words = key(told)
            if block.start < behind:
                continue
            name = words if block.kind in ("prose", "list") else (told,)
            if part.role != "assistant" and name not in seen and (run := _apart(part.text, found[i:], told)) > 1:
                seen[name] = told
                first, behind = block.start + len(part.text[block.start : block.end].rstrip()), found[i + run - 1].end
                last = block.start + len(part.text[block.start : behind].rstrip())
                yield _counted(place, first, last, run)
                continue
            if block.is_code or len(words) < LEAST_WORDS:
                continue
            if name not in seen:
                seen[name] = told
            elif part.role != "assistant":
                yield Edit(
                    reason="repeat" if seen[name] == told else "near repeat",
                    pieces=(around(part.text, place, block.start, block.end),),
                )


def _apart(text: str, following: Sequence[Block], told: str) -> int:
    """How many blocks from the first on are this one line; 0 where its number is data, or it is too short."""
    if following[0].kind not in ("prose", "list") or "\n" in told or len(key(told)) < 3 or is_cells(told):
        return 0
    if (is_row(told) or is_item(told)) and fields(told):
        return 0
    return next((n for n, one in enumerate(following) if text[one.start : one.end].strip() != told), len(following))


def _counted(place: int, first: int, last: int, times: int) -> Edit:
    """The further ones of equal lines, from `first` to `last`, become their number."""
    return Edit(reason="repeat", pieces=(Piece(part=place, start=first, end=last, put=f" ({times} times)"),))


def within(work: Work) -> Iterator[Edit]:
    """Lines that repeat an earlier line of prose or of a list, and runs of one line, which become it and its count.

    A line counts where it is a sentence of its own or an item. How often a line of a log stands in a row says
    something: "(3 times)" takes the place of those that go. Rows of a table, and all rows that hold a protected
    field, are data: two equal ones are two.
    """
    seen: set[tuple[str, ...]] = set()
    for place, part in work.open_parts():
        for block in blocks(part.text):
            if block.kind not in ("prose", "list", "table"):
                continue
            for start, end, times, alone in _lines(part.text, block):
                told = part.text[start:end].split("\n", 1)[0]
                words = key(told)
                row = is_row(told) or is_item(told) or block.kind == "table"
                repeated = alone and words in seen and len(words) >= LEAST_WORDS and not is_row(told)
                if alone:
                    seen.add(words)
                if part.role == "assistant" or (row and fields(told)):
                    continue
                if repeated:
                    for first, last in lines(part.text, start, end):
                        yield Edit(reason="repeat", pieces=(line_of(part.text, place, first, last),))
                elif times > 1 and len(words) > 2 and not is_cells(told):
                    first, last = start + len(told.rstrip()), start + len(part.text[start:end].rstrip())
                    if len(f" ({times} times)") < last - first:
                        yield _counted(place, first, last, times)


def _lines(text: str, block: Block) -> Iterator[tuple[int, int, int, bool]]:
    """Runs of one line: where it starts and ends, how many lines it has, and whether each stands alone."""
    spans = list(lines(text, block.start, block.end))
    ended, i = True, 0
    while i < len(spans):
        told = text[slice(*spans[i])].strip()
        after = i + 1
        while after < len(spans) and text[slice(*spans[after])].strip() == told:
            after += 1
        closed = _ENDED.search(told) is not None
        alone = block.kind != "table" and (is_item(told) or (ended and closed))
        yield spans[i][0], spans[after - 1][1], after - i, alone
        ended, i = closed, after


def around(text: str, place: int, start: int, end: int) -> Piece:
    """A block with the blank lines after it, or, where it is the last, with those before it."""
    after = end
    while after < len(text) and text[after].isspace():
        after += 1
    if after < len(text):
        # The next block keeps the spaces that its first line begins with.
        return Piece(part=place, start=start, end=max(end, text.rfind("\n", end, after) + 1))
    begun, _ = strip(text, 0, start)
    before = start
    while before > begun and text[before - 1].isspace():
        before -= 1
    return Piece(part=place, start=before if before > begun else start, end=len(text))


def line_of(text: str, place: int, start: int, end: int) -> Piece:
    """A line with the line end after it, or, where it is the last of its text, with the one before it."""
    if end < len(text):
        return Piece(part=place, start=start, end=end + 1)
    return Piece(part=place, start=max(0, start - 1), end=end)
