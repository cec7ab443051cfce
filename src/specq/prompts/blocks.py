"""The blocks of a text: what is code, data, rows or prose. All places are characters of the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

BlockKind = Literal["fence", "code", "json", "table", "list", "prose"]
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_BULLET = re.compile(r"\s*(?:[-*+\u2022\u2013]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s+\S")
_ROW = re.compile(r"\s*\|.*\|\s*$|[^\t]+\t|(?:[^,;]{0,40}[,;]){3,}[^,;.]{0,40}$|[^\n]*[^|]\|[^|]")
_PAIR = re.compile(r"\s*[^\s:][^:\n]{0,40}:(?:\s+\S|\s*$)")
# One such line makes code of its block; of the weaker ones half are needed.
_CODE = re.compile(
    r"\s*(?:(?:async )?def \w+\s*\(|class \w+\s*[(:]|import [\w.]+(?: as \w+)?(?:, ?[\w.]+)*$|from [\w.]+ import "
    r"|#include\b|(?:public|private|static|function|func|fn)\b.*[({]|<\?php|#!/)"
)
_CODE_LIKE = re.compile(
    r"(?: {4}|\t)\s*\S|.*[;{}]\s*$|\s*[\w.\[\]'\"]+\s*[-+*/|&:]?=\s*\S|\s*[\w.]+\(.*\)\s*$|\s*@\w+"
    r"|\s*(?:(?:for|while|if|elif|with|except)\b.*:|(?:else|try|finally):)\s*$|\s*(?:return|yield|raise|await)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block from `start` to `end`, without the line end after it."""

    kind: BlockKind
    start: int
    end: int

    @property
    def is_code(self) -> bool:
        """Whether its spaces and lines carry meaning that no step may touch."""
        return self.kind in ("fence", "code")


def lines(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Start and end of each line, without its newline."""
    end = len(text) if end is None else end
    while start < end:
        at = text.find("\n", start, end)
        stop = end if at < 0 else at
        yield start, stop
        start = stop + 1


def is_item(line: str) -> bool:
    """Whether a line begins an item of a list."""
    return _BULLET.match(line) is not None


def is_row(line: str) -> bool:
    """Whether a line stands for itself: a row of a table, or a name and its value."""
    return _ROW.match(line) is not None or _PAIR.match(line) is not None


def is_cells(line: str) -> bool:
    """Whether a line is a row of cells, which end with it."""
    return _ROW.match(line) is not None


@lru_cache(maxsize=512)
def blocks(text: str) -> tuple[Block, ...]:
    """The blocks of a text in their order: fenced code, JSON documents, and what blank lines set apart."""
    found: list[Block] = []
    gathered: list[tuple[int, int]] = []

    def close() -> None:
        if gathered:
            found.append(Block(kind=_kind(text, gathered), start=gathered[0][0], end=gathered[-1][1]))
            gathered.clear()

    behind = 0
    for start, end in lines(text):
        if start < behind:
            continue
        line = text[start:end]
        if fence := _FENCE.match(line):
            close()
            behind = _fence_end(text, end, fence[1])
            found.append(Block(kind="fence", start=start, end=behind))
        elif not line.strip():
            close()
        elif (stop := _json_end(text, start, end)) is not None:
            close()
            behind = stop
            found.append(Block(kind="json", start=start + len(line) - len(line.lstrip()), end=stop))
        else:
            gathered.append((start, end))
    close()
    return tuple(found)


def _fence_end(text: str, at: int, opened: str) -> int:
    """Where a fenced block ends: after its closing line, or with the text, as in CommonMark."""
    for start, end in lines(text, at + 1):
        bare = text[start:end].strip()
        if len(bare) >= len(opened) and set(bare) == {opened[0]}:
            return end
    return len(text)


def _json_end(text: str, start: int, end: int) -> int | None:
    """Where a JSON object or list that begins with this line ends, if nothing else stands on its last line."""
    at = start + len(text[start:end]) - len(text[start:end].lstrip())
    if text[at] not in "{[":
        return None
    try:
        _, stop = json.JSONDecoder().raw_decode(text, at)
    except (ValueError, RecursionError):
        return None
    after = text.find("\n", stop)
    return stop if not text[stop : len(text) if after < 0 else after].strip() else None


def _kind(text: str, spans: list[tuple[int, int]]) -> BlockKind:
    told = [text[start:end] for start, end in spans]
    if any(map(_CODE.match, told)) or 2 * sum(_CODE_LIKE.match(line) is not None for line in told) > len(told):
        return "code"
    if is_item(told[0]) or (len(told) > 1 and 2 * sum(map(is_item, told)) >= len(told)):
        return "list"
    return "table" if len(told) > 1 and 2 * sum(map(is_row, told)) > len(told) else "prose"


def groups(text: str) -> Iterator[tuple[Block, ...]]:
    """Blocks that are read together: a line that ends in a colon and what follows it, and the items of one list."""
    gathered: list[Block] = []
    for block in blocks(text):
        before = gathered[-1] if gathered else None
        together = (
            before is not None
            and not {before.kind, block.kind} & {"fence", "json"}
            and (text[before.start : before.end].rstrip().endswith(":") or before.kind == block.kind == "list")
        )
        if gathered and not together:
            yield tuple(gathered)
            gathered = []
        gathered.append(block)
    if gathered:
        yield tuple(gathered)


def forget() -> None:
    """Drop what was read before, so that a measured time is that of reading."""
    blocks.cache_clear()
