"""The passages that are kept or dropped as one: sentences, rows, items, and code or data as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from specq.prompts.blocks import Block, blocks, is_item, lines
from specq.prompts.sentences import sentences, strip
from specq.prompts.work import Piece, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A passage of message `part`. `heads` are the places of what stands above it and goes with it.

    Heads are headings, the head of a table, and lines that end in a colon.
    """

    part: int
    start: int
    end: int
    text: str
    tokens: int
    heads: tuple[int, ...] = ()


def passages(work: Work) -> list[Passage]:
    """The passages of all messages that may be touched, in their order; `tokens` count the space after each too."""
    found: list[Passage] = []
    for place, part in work.open_parts():
        text = part.text
        spans = [(span, block) for block in blocks(text) for span in _spans(text, block)]
        heading: int | None = None
        colon: tuple[int, Block] | None = None
        table: tuple[Block, tuple[int, ...]] | None = None
        before: Block | None = None
        for i, ((start, end), block) in enumerate(spans):
            mine = len(found)
            told = text[start:end]
            if colon is not None and block != colon[1] and before not in (colon[1], block):
                # What a line with a colon announces ends with the block that follows it.
                colon = None
            if block.kind == "table" and (table is None or table[0] != block):
                table = (block, tuple(range(mine, mine + _table_head(text, block))))
            heads = [] if heading is None else [heading]
            heads += [colon[0]] if colon is not None else []
            heads += table[1] if table is not None and table[0] == block else []
            if _is_heading(told, block):
                heading, heads, colon = mine, [], None
            elif told.endswith(":") and not block.is_code:
                colon = (mine, block)
            after = spans[i + 1][0][0] if i + 1 < len(spans) else len(text)
            found.append(
                Passage(
                    part=place,
                    start=start,
                    end=end,
                    text=told,
                    tokens=work.count(text[start:after]),
                    heads=tuple(dict.fromkeys(head for head in heads if head < mine)),
                )
            )
            before = block
    return found


def _spans(text: str, block: Block) -> Iterator[tuple[int, int]]:
    if block.kind in ("fence", "code", "json"):
        yield block.start, block.end
    elif block.kind == "prose":
        # A heading has a line of its own, whatever follows it.
        first = text.find("\n", block.start, block.end)
        if first > 0 and text.startswith("#", block.start):
            yield strip(text, block.start, first)
            yield from sentences(text, first, block.end)
        else:
            yield from sentences(text, block.start, block.end)
    elif block.kind == "table":
        yield from (strip(text, *line) for line in lines(text, block.start, block.end))
    else:
        yield from _items(text, block)


def _items(text: str, block: Block) -> Iterator[tuple[int, int]]:
    """The items of a list, each with the lines that go on with it."""
    begun = at = block.start
    for start, end in lines(text, block.start, block.end):
        if is_item(text[start:end]) and start > begun:
            yield strip(text, begun, at)
            begun = start
        at = end
    yield strip(text, begun, block.end)


def _is_heading(text: str, block: Block) -> bool:
    return block.kind == "prose" and text.startswith("#") and "\n" not in text


def _table_head(text: str, block: Block) -> int:
    """How many rows are the head of a table: two of a Markdown table, else none."""
    told = [text[start:end] for start, end in lines(text, block.start, block.end)]
    return 2 if len(told) > 2 and set(told[1].strip()) <= set("|-: +") and "-" in told[1] else 0


def pieces(work: Work, units: list[Passage], run: list[int]) -> tuple[Piece, ...]:
    """The characters that go with a run of neighbouring passages of one message.

    Of the spaces before, between and behind them the widest stays, so that paragraphs stay apart.
    """
    first, last = units[run[0]], units[run[-1]]
    text = work.parts[first.part].text
    before = run[0] - 1 if run[0] and units[run[0] - 1].part == first.part else None
    after = run[-1] + 1 if run[-1] + 1 < len(units) and units[run[-1] + 1].part == first.part else None
    begun = 0 if before is None else units[before].end
    stop = len(text) if after is None else units[after].start
    if before is None or after is None:
        return (Piece(part=first.part, start=begun, end=stop),)
    ends = [begun, *(units[i].end for i in run)]
    starts = [*(units[i].start for i in run), stop]
    gaps = list(zip(ends, starts, strict=True))
    widest = max(gaps, key=lambda gap: (text.count("\n", *gap), -gaps.index(gap)))
    around = ((begun, widest[0]), (widest[1], stop))
    return tuple(Piece(part=last.part, start=start, end=end) for start, end in around if start < end)
