"""report.json, report.md and report.html of a lab's run, derived from its records."""

from __future__ import annotations

from pathlib import Path

from specq.core import jsonl
from specq.lab import lab_charts, lab_layout, measured
from specq.lab.measured import Lab
from specq.report import markdown, page, page_origin
from specq.report.charts_canvas import Chart
from specq.report.page import Part
from specq.report.section import Section

JSON, MARKDOWN, HTML = "report.json", "report.md", "report.html"
NO_ANSWER = "No rates: neither halves nor context was measured."


def write(run_dir: Path) -> Lab:
    """Derive the report anew and write its three files into the run's folder.

    Raises:
        RunFolderError: as `measured.open_lab`, or the folder cannot be written. DiskFull: no space.
    """
    found = measured.open_lab(run_dir)
    jsonl.write_whole(run_dir / JSON, measured.to_json(found))
    jsonl.write_text_whole(run_dir / MARKDOWN, markdown.document(lab_layout.heading(found), lab_layout.sections(found)))
    jsonl.write_text_whole(run_dir / HTML, html(found))
    return found


def html(found: Lab) -> str:
    """The report as one page: the same sections, with pictures."""
    question, *facts = lab_layout.heading(found)
    left = {section.title: section for section in lab_layout.sections(found)}
    first = left.pop(lab_layout.FLAGS, None)
    answer = NO_ANSWER if found.deliverable is None else found.deliverable.paragraph

    def part(ident: str, title: str, charts: list[Chart | None], *titles: str) -> Part:
        own = page.take(left, titles)
        return Part(ident=ident, title=title, charts=tuple(one for one in charts if one is not None), sections=own)

    two, deep, cache, batch = found.halves, found.context, found.cache, found.batch
    parts = [
        part("comes", "What it comes to", [], lab_layout.COMES),
        part(
            "two-halves",
            "The two halves of a request",
            [None if two is None else lab_charts.halves(two), lab_charts.first_token(two, deep)],
            lab_layout.HALVES,
            lab_layout.CONTEXT,
        ),
        part(
            "prompt-cache",
            "The prompt cache",
            [None if cache is None else lab_charts.cache(cache)],
            *(lab_layout.CACHE, lab_layout.USERS, lab_layout.TAGS),
        ),
        part("batching", "Batches", [None if batch is None else lab_charts.batch(batch)], lab_layout.BATCH),
        part("lab-notes", "Notes", [], lab_layout.NOTES),
        Part(ident="lab-origin", title="Where these numbers come from", sections=_origin(found), closed=True),
    ]
    return page.document(question, facts, answer, parts, first=first)


def _origin(found: Lab) -> tuple[Section, ...]:
    """run.json, value by value."""
    return page_origin.tables([("run.json", found.info)])
