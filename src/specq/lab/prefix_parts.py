"""Prompts as sequences of lines, each encoded once whoever holds it, and lines put in order of stability."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from specq.lab.prefix_values import VALUE
from specq.workloads.request import Request

# Blank lines belong to the line before them: alone they would be the most stable of all.
_LINE = re.compile(r"[^\n]*\n+|[^\n]+")
Encode = Callable[[Sequence[str]], list[np.ndarray]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Prompts as numbers of parts.

    `texts` are the different parts; `prompts` are the numbers of each prompt's parts in order; `heads` [n] says how
    many of them may change places: those up to the end of the first thing that a user said. What comes after is a
    conversation, whose order is what it says.
    """

    texts: list[str]
    prompts: list[np.ndarray]
    heads: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The ids of parts, one after another: those of part i are flat[starts[i] : starts[i + 1]]."""

    flat: np.ndarray
    starts: np.ndarray

    def of(self, numbers: np.ndarray) -> bytes:
        """The ids of a prompt that is made of these parts."""
        flat, starts = self.flat, self.starts
        found = [flat[starts[number] : starts[number + 1]] for number in numbers.tolist()]
        return np.concatenate(found).tobytes() if found else b""


class _Numbers:
    """Texts by the order in which they were first seen."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.of.setdefault(text, len(self.of))


def split(rendered: Iterator[tuple[str, int]]) -> Parts:
    """Cut prompts into lines; each is given as its text and the place where what may be moved ends."""
    numbers = _Numbers()
    prompts, heads = [], []
    for text, end in rendered:
        while text[end : end + 1] == "\n":
            end += 1
        head = [numbers(line) for line in _LINE.findall(text[:end])]
        tail = [numbers(line) for line in _LINE.findall(text[end:])]
        prompts.append(np.array(head + tail, dtype=np.int64))
        heads.append(len(head))
    return Parts(texts=list(numbers.of), prompts=prompts, heads=heads)


def head_end(text: str, one: Request) -> int:
    """Where the first thing that a user said ends in a prompt's text; all of it where there is no user."""
    said = next((message["content"] for message in one.messages if message["role"] in ("user", "tool")), None)
    if said is None:
        return len(text)
    # Templates take blanks off both ends.
    for wanted in (said, said.strip()):
        at = text.find(wanted)
        if at >= 0:
            return at + len(wanted)
    return len(text)


def encode(texts: Sequence[str], ids_of_all: Encode) -> Tokens:
    """The ids of all parts."""
    found = ids_of_all(texts)
    lengths = np.fromiter((one.size for one in found), dtype=np.int64, count=len(found))
    return Tokens(
        flat=np.concatenate(found) if found else np.empty(0, np.uint32),
        starts=np.concatenate(([0], np.cumsum(lengths))),
    )


def holders(parts: Parts) -> np.ndarray:
    """How many prompts hold each part in what may be moved [parts]."""
    counts = np.zeros(len(parts.texts), dtype=np.int64)
    for prompt, head in zip(parts.prompts, parts.heads, strict=True):
        counts[np.unique(prompt[:head])] += 1
    return counts


def by_stability(parts: Parts) -> Parts:
    """The same prompts with what may be moved in order of stability: parts that most prompts hold come first.

    A line that differs from others in a value alone, such as a date or an id, is cut there, so that the rest of it is
    as stable as it is. Among equally stable parts the one that the file shows first comes first, so that the order is
    the same in every prompt.
    """
    cut = _cut(parts)
    counts = holders(cut)
    moved = []
    for prompt, head in zip(cut.prompts, cut.heads, strict=True):
        first = prompt[:head]
        moved.append(np.concatenate((first[np.lexsort((first, -counts[first]))], prompt[head:])))
    return Parts(texts=cut.texts, prompts=moved, heads=cut.heads)


def _cut(parts: Parts) -> Parts:
    """Lines that other prompts hold with other values, cut at the values."""
    masks = _Numbers()
    of_part = np.full(len(parts.texts), -1, dtype=np.int64)
    for number in np.flatnonzero(holders(parts)).tolist():
        mask = VALUE.sub("\0", parts.texts[number])
        if mask != parts.texts[number]:
            of_part[number] = masks(mask)
    lines = np.zeros(len(masks.of), dtype=np.int64)
    prompts_with, different = np.zeros_like(lines), np.zeros_like(lines)
    for prompt, head in zip(parts.prompts, parts.heads, strict=True):
        held = of_part[np.unique(prompt[:head])]
        held, times = np.unique(held[held >= 0], return_counts=True)
        lines[held] += times
        prompts_with[held] += 1
    np.add.at(different, of_part[of_part >= 0], 1)
    # More of them in one prompt are the rows of a table, and no line of a template with a value in it.
    template = (different > 1) & (prompts_with > 1) & (lines == prompts_with)
    numbers = _Numbers()
    pieces = [
        [numbers(piece) for piece in _pieces(text)] if mask >= 0 and template[mask] else [numbers(text)]
        for text, mask in zip(parts.texts, of_part.tolist(), strict=True)
    ]
    prompts, heads = [], []
    for prompt, head in zip(parts.prompts, parts.heads, strict=True):
        first = [piece for number in prompt[:head].tolist() for piece in pieces[number]]
        rest = [piece for number in prompt[head:].tolist() for piece in pieces[number]]
        prompts.append(np.array(first + rest, dtype=np.int64))
        heads.append(len(first))
    return Parts(texts=list(numbers.of), prompts=prompts, heads=heads)


def _pieces(text: str) -> Iterator[str]:
    at = 0
    for match in VALUE.finditer(text):
        if match.start() > at:
            yield text[at : match.start()]
        yield match.group()
        at = match.end()
    if at < len(text):
        yield text[at:]
