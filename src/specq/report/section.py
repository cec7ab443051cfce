"""A section of the report: what terminal and Markdown show alike. Text here is not escaped; whoever renders it does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specq.report.arm import ArmReport
from specq.report.measures import Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, lines of text and a table; the first column is text, the others are numbers."""

    title: str
    lines: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def table(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]], lines: Sequence[str] = ()) -> Section:
    """A table with the lines that explain it; nothing of it without rows."""
    listed = tuple(rows)
    return Section(title=title, lines=tuple(lines) if listed else (), columns=columns, rows=listed)


def measured(arm: ArmReport, name: str) -> Measure:
    """A measure of an arm, without a value where the arm has none of that name."""
    return arm.measures.get(name, Measure(name=name, unit="", value=None))
