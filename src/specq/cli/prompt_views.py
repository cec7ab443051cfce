"""The tables of shortened prompts for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from specq.core.nouns import counted
from specq.prompts.files import Shortened
from specq.report import words
from specq.report.tables import Grid, Paragraph

_NOTES = 3


def shown(found: Shortened) -> Iterator[RenderableType]:
    """Tokens before and after, overall and by tag; deletions by reason; what was refused; notes."""
    sizes = [("all", (found.before, found.after), len(found.results))]
    sizes += [(tag, found.of(ids), len(ids)) for tag, ids in found.tags.items()]
    yield from ("", f"{found.file}: {found.steps.words}; tokens are {found.counted_in}", "")
    rows = tuple(_size(*one) for one in sizes)
    yield from (Grid(columns=("prompts", "n", "before", "after", "left"), rows=rows, right=True), "")
    reasons = tuple(
        (name, f"{made:,}", f"{tokens:,}", f"{refused:,}") for name, (made, tokens, refused) in found.reasons().items()
    )
    if reasons:
        yield from (Grid(columns=("reason", "deletions", "tokens", "refused"), rows=reasons, right=True), "")
    yield Paragraph(
        text=f"Protected fields: none lost of the {found.protected:,} recognised. "
        "A deletion that would lose one is refused. "
        f"Time: {words.number(1000 * found.seconds / len(found.results))} ms a prompt."
    )
    noted = [(name, note) for name, one in found.results.items() for note in one.notes]
    for name, note in noted[:_NOTES]:
        yield Paragraph(text=f"note: {name}: {note}")
    if len(noted) > _NOTES:
        yield Paragraph(text=f"note: as much of {counted(len(noted) - _NOTES, 'more prompt')}")
    if found.written is not None:
        yield Paragraph(text=f"Prompts: {found.written}; what was deleted and why: {found.log}")


def _size(name: str, tokens: tuple[int, int], prompts: int) -> tuple[str, ...]:
    before, after = tokens
    return name, f"{prompts:,}", f"{before:,}", f"{after:,}", f"{after / before:.0%}" if before else words.NOTHING
