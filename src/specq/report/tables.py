"""Tables and reports for the terminal: readable at any width, and never broken inside a word or a number."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from specq.report.words import visible

if TYPE_CHECKING:
    from specq.report.assemble import Report
    from specq.report.section import Section

GAP = 2
INDENT = 2
# Prose in a narrower column than this is harder to read than in a table of its own.
PROSE_LEAST = 24
_NUMBER = r"[<>~+\u2212-]?\d[\d.,]*(?:e[+-]?\d+)?(?: ?[A-Za-z%/]{1,8})?"
# "1,886,000,000", "57 %", "0.92 to 1.21": a cell that is one value, spaces and all.
_VALUE = re.compile(rf"{_NUMBER}(?: to (?:{_NUMBER}|any))?")
# A word of digits and their marks within other text.
_DIGITS = re.compile(r"[^\w\s]*\d[^A-Za-z_\s]*")


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table of visible text that fits the width it is given.

    What does not fit side by side is stacked: further columns follow in a table of their own, with the first column
    repeated. Columns in `prose` fold at spaces; the first column folds at spaces and after "/" and "-"; no other cell
    is folded while it fits. Only a single word that is longer than the whole width is cut, and no number ever: one that
    does not fit beside the first column stands below it, and is wider than the width where it takes that.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: bool = False
    prose: Collection[int] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines of the table, wider than the console only where a number takes it."""
        rule = "-" if options.ascii_only else "\u2500"
        yield Text("\n".join(self.lines(options.max_width, rule)), no_wrap=True, overflow="ignore")

    def lines(self, width: int, rule: str = "-") -> list[str]:
        """The table in lines of at most `width` terminal cells, beside whole numbers.

        Stacked tables have an empty line between them.
        """
        cells = [[visible(cell) for cell in row] for row in (self.columns, *self.rows)]
        natural = [max(cell_len(row[i]) for row in cells) for i in range(len(self.columns))]
        found: list[str] = []
        for pile in self._piles(cells, natural, width):
            fits = len(pile) == 1 or sum(pile.values()) + GAP * (len(pile) - 1) <= width
            found += ["", *(self._block(cells, pile, rule) if fits else _below(cells, max(pile), width, rule))]
        return found[1:]

    def _piles(self, cells: list[list[str]], natural: list[int], width: int) -> list[dict[int, int]]:
        """Columns and their widths for each of the stacked tables."""
        if sum(natural) + GAP * (len(natural) - 1) <= width:
            return [dict(enumerate(natural))]
        least = [self._least(i, [row[i] for row in cells]) for i in range(len(natural))]
        whole = [max(_longest_number(row[i]) for row in cells) for i in range(len(natural))]
        first = min(least[0], max(width - GAP - max(least[1:], default=0), width // 2, whole[0], 1))
        piles = [{0: first}]
        for i in range(1, len(natural)):
            taken = sum(piles[-1].values()) + GAP * len(piles[-1])
            if taken + least[i] > width and len(piles[-1]) > 1:
                piles.append({0: first})
            piles[-1][i] = min(least[i], max(width - GAP - first, whole[i], 1))
        return [self._widened(pile, natural, width) for pile in piles]

    def _least(self, column: int, cells: list[str]) -> int:
        """The width that a column needs: a heading folds at its spaces, and so does prose."""
        if column in self.prose:
            return max(max(map(_longest_word, cells)), min(PROSE_LEAST, max(map(cell_len, cells))))
        return max([_longest_word(cells[0]), *map(cell_len, cells[1:])])

    def _widened(self, pile: dict[int, int], natural: list[int], width: int) -> dict[int, int]:
        """The same columns, with what is left of the width given to prose."""
        room = width - sum(pile.values()) - GAP * (len(pile) - 1)
        for i in [i for i in pile if i in self.prose]:
            more = min(room, natural[i] - pile[i])
            pile[i] += more
            room -= more
        return pile

    def _block(self, cells: list[list[str]], pile: dict[int, int], rule: str) -> list[str]:
        lines = [line for row in cells[:1] for line in self._row(row, pile)]
        lines.append(rule * (sum(pile.values()) + GAP * (len(pile) - 1)))
        return [*lines, *(line for row in cells[1:] for line in self._row(row, pile))]

    def _row(self, row: Sequence[str], pile: dict[int, int]) -> list[str]:
        folded = {i: fold(row[i], width) for i, width in pile.items()}
        height = max(map(len, folded.values()))
        return [
            (" " * GAP)
            .join(self._padded(lines[n] if n < len(lines) else "", i, pile[i]) for i, lines in folded.items())
            .rstrip()
            for n in range(height)
        ]

    def _padded(self, text: str, column: int, width: int) -> str:
        blank = " " * (width - cell_len(text))
        return blank + text if self.right and column else text + blank


def _below(cells: list[list[str]], column: int, width: int, rule: str) -> list[str]:
    """The first column and one more, each cell of which stands below its row's first."""
    told = [
        [
            *fold(row[0], max(width, _longest_number(row[0]))),
            *(
                " " * GAP + line
                for line in fold(row[column], max(width - GAP, _longest_number(row[column]), 1))
                if line
            ),
        ]
        for row in cells
    ]
    return [*told[0], rule * width, *(line for lines in told[1:] for line in lines)]


def fold(text: str, width: int) -> list[str]:
    """Text in lines of at most `width` terminal cells: cut at spaces; in a word that is too long, after "/" or "-"."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
        else:
            lines += _pieces(word, width)
    return lines if lines[0] else lines[1:] or [""]


def _pieces(word: str, width: int) -> list[str]:
    """A word that is wider than `width`, in pieces that fit."""
    pieces = [""]
    for character in word:
        if cell_len(pieces[-1] + character) > width:
            cut = max(pieces[-1].rfind("/"), pieces[-1].rfind("-")) + 1
            # Without a sign to cut after, the word is cut where the width ends.
            cut = cut or len(pieces[-1])
            pieces[-1:] = [pieces[-1][:cut], pieces[-1][cut:]]
        pieces[-1] += character
    return pieces


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split(" ")))


def _longest_number(text: str) -> int:
    """How wide the widest number in a cell is: all of the cell where it is one value."""
    if _VALUE.fullmatch(text):
        return cell_len(text)
    return max((cell_len(word) for word in text.split(" ") if _DIGITS.fullmatch(word)), default=0)


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """Visible text folded at spaces, each line indented."""

    text: str
    indent: int = 0
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines of the paragraph, none wider than the console."""
        lines = fold(visible(self.text), max(options.max_width - self.indent, 1))
        text = "\n".join(" " * self.indent + line for line in lines)
        yield Text(text, style=self.style, no_wrap=True, overflow="ignore")


def terminal(report: Report) -> Group:
    """Rich renderables of the whole report. Markup in foreign text is shown, never obeyed."""
    from specq.report.layout import heading, sections

    return document(heading(report), sections(report))


def document(heading: Sequence[str], sections: Iterable[Section]) -> Group:
    """A question with its facts, then sections."""
    parts: list[RenderableType] = [Paragraph(text=line, style="bold") for line in heading]
    for section in sections:
        parts += ["", *_section(section)]
    return Group(*parts)


def _section(section: Section) -> list[RenderableType]:
    found: list[RenderableType] = [Paragraph(text=section.title, style="bold underline")]
    found += [Paragraph(text=line, indent=INDENT) for line in section.lines]
    if section.rows:
        found += [""] if section.lines else []
        found.append(Grid(columns=section.columns, rows=section.rows, right=True))
    return found
