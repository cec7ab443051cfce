"""The report as Markdown: the same sections as the terminal, with foreign text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from specq.report.assemble import Report
from specq.report.layout import heading, sections
from specq.report.section import Section
from specq.report.words import markdown


def render(report: Report) -> str:
    """The report as one Markdown document."""
    return document(heading(report), sections(report))


def document(heading: Sequence[str], sections: Iterable[Section]) -> str:
    """Any sections as one Markdown document; the first line of the heading is its title."""
    title, *facts = heading
    lines = [f"# {markdown(title)}", ""]
    lines += [line for fact in facts for line in (markdown(fact), "")]
    for section in sections:
        lines += _section(section)
    return "\n".join(lines).rstrip("\n") + "\n"


def _section(section: Section) -> Iterator[str]:
    yield f"## {markdown(section.title)}"
    yield ""
    if len(section.lines) > 1:
        yield from (f"- {markdown(line)}" for line in section.lines)
        yield ""
    elif section.lines:
        yield markdown(section.lines[0])
        yield ""
    if section.rows:
        yield _row(section.columns)
        yield "|" + "|".join(":--" if i == 0 else "--:" for i in range(len(section.columns))) + "|"
        yield from map(_row, section.rows)
        yield ""


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(map(markdown, cells)) + " |"
