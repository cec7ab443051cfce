"""The report of a load run: as sections for the terminal, as JSON, Markdown and one HTML page in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specq.core import jsonl
from specq.load import along, charts, settled
from specq.load.found import Found
from specq.load.sections import FIRST, QUALITY, sections
from specq.load.words import answer
from specq.report import markdown, page_origin
from specq.report import page as pages
from specq.report.page import Part
from specq.report.section import Section

CURVE = (
    "Throughput and latency",
    settled.FLOORS,
    settled.SURE,
    "Latencies",
    "By tag",
    "Failures",
    "Answers against the schema",
    QUALITY,
)
DRAFTS = (along.ALONG, along.COUNTS)


def heading(found: Found) -> list[str]:
    """The question, the run and the answer."""
    state = "complete" if found.done else "not complete"
    return [str(found.info.get("question", "")), f"load / {found.run.name}, {state}", answer(found)]


def write(found: Found) -> None:
    """Write report.json, report.md and report.html.

    Raises:
        DiskFull, RunFolderError: they cannot be written.
    """
    jsonl.write_whole(found.run / "report.json", found.to_json())
    jsonl.write_text_whole(found.run / "report.md", markdown.document(heading(found), sections(found)))
    jsonl.write_text_whole(found.run / "report.html", render(found))


def render(found: Found) -> str:
    """The report as one HTML page that needs no network; all foreign text is escaped."""
    question, *facts = heading(found)
    left = {section.title: section for section in sections(found)}
    first = left.pop(FIRST, None)
    pauses = [left.pop(title) for title in list(left) if title == along.LONG or title.startswith(along.STALLS)]
    versus = [left.pop(title) for title in list(left) if title.startswith("Held against ")]
    drawn = {one.name: one for one in charts.pictures(found)}
    ratios = drawn.pop("load-ratio", None)
    gaps = drawn.pop("load-gaps", None)
    parts = [
        Part(
            ident="curve",
            title="Throughput and latency",
            charts=tuple(drawn.values()),
            sections=pages.take(left, CURVE),
        ),
        Part(
            ident="versus",
            title="Along the curve, and one server against the other",
            charts=() if ratios is None else (ratios,),
            sections=(*versus, *pages.take(left, DRAFTS)),
        ),
        Part(
            ident="pauses",
            title="Long prompts",
            charts=() if gaps is None else (gaps,),
            sections=tuple(pauses),
        ),
        Part(ident="machine", title="Machine and method", sections=tuple(left.values())),
        Part(ident="origin", title="Where these numbers come from", sections=_origin(found.info), closed=True),
    ]
    return pages.document(question, facts[:-1], answer(found), parts, first=first)


def _origin(info: Mapping[str, Any]) -> tuple[Section, ...]:
    parts = {"Asked": "asked", "Given": "given", "Servers": "servers", "Hashes": "sha256"}
    parts["Machine and versions"] = "provenance"
    return page_origin.tables((title, info.get(name)) for title, name in parts.items())
