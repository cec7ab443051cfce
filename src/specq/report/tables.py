"""The report for the terminal: readable at 100 columns and without colour."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from specq.report.assemble import Report
from specq.report.layout import Section, heading, sections
from specq.report.words import visible


def terminal(report: Report) -> Group:
    """Rich renderables of the whole report. Markup in foreign text is shown, never obeyed."""
    parts: list[RenderableType] = [Text(visible(line), style="bold") for line in heading(report)]
    for section in sections(report):
        parts += ["", *_section(section)]
    return Group(*parts)


def _section(section: Section) -> list[RenderableType]:
    found: list[RenderableType] = [Text(section.title, style="bold underline")]
    found += [Padding(Text(visible(line)), (0, 0, 0, 2)) for line in section.lines]
    if section.rows:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
        for i, column in enumerate(section.columns):
            table.add_column(Text(column), justify="right" if i else "left", overflow="fold")
        for row in section.rows:
            table.add_row(*(Text(visible(cell)) for cell in row))
        found.append(table)
    return found
