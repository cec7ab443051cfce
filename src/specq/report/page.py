"""The report as one HTML page that needs no network: the sections of the other forms, with pictures and all flips."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specq.report import (
    charts,
    charts_front,
    charts_pareto,
    forecast_charts,
    forecast_layout,
    levers,
    page_flips,
    page_origin,
)
from specq.report.assemble import Report
from specq.report.charts_canvas import Chart
from specq.report.evals import EvalReport
from specq.report.layout import heading, sections
from specq.report.page_flips import FlipTable
from specq.report.page_text import CELL, LINE
from specq.report.section import Section
from specq.report.templates import style, template
from specq.report.verdict import Verdict

TEMPLATE = Path(__file__).parent / "page.html.jinja"
ANSWER, FIRST = ("Verdicts", "Recommendation"), "Read this first"
# Which sections stand under which heading of the page; what is named nowhere comes last.
SPEED = (
    *("No difference looks like this here (A/A)", "How arms took turns", "Limits", "What binds", "Speed"),
    *("Speedup over prompts", "Latency", "By tag", "Cost and care"),
)
STEPS = ("Where a step's time goes",)
DRAFTS = ("Draft", "Acceptance by place")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One heading of the page with what stands under it, in this order: pictures, sections, flips, more sections."""

    ident: str
    title: str
    charts: tuple[Chart, ...] = ()
    sections: tuple[Section, ...] = ()
    flips: tuple[FlipTable, ...] = ()
    score: Callable[[float], str] = str
    after: tuple[Section, ...] = ()
    closed: bool = False

    @property
    def empty(self) -> bool:
        """Whether it has nothing to show."""
        return not (self.charts or self.sections or self.flips or self.after)


def render(report: Report, info: Mapping[str, Any]) -> str:
    """The report as one HTML document; `info` is the run's run.json.

    The same records give the same bytes. All foreign text is escaped, visible and cut at a stated length.
    """
    question, *facts = heading(report)
    left = {section.title: section for section in sections(report)}
    for title in ANSWER:
        left.pop(title, None)
    first = left.pop(FIRST, None)
    verdicts = [arm.verdict for arm in report.arms if arm.verdict is not None]
    parts = (*_parts(report, left), _origin(report, info))
    return document(question, facts, report.recommendation, parts, verdicts=verdicts, first=first)


def document(
    question: str,
    facts: Sequence[str],
    answer: str,
    parts: Sequence[Part],
    *,
    verdicts: Sequence[Verdict] = (),
    first: Section | None = None,
) -> str:
    """A page of any report: question and facts, the answer, what is to be read first, and the parts that are not empty.

    All of it is foreign text, which is escaped, but the pictures.
    """
    shown = [part for part in parts if not part.empty]
    given = {"question": question, "facts": facts, "answer": answer, "verdicts": verdicts, "first": first}
    return template(TEMPLATE).render(**given, parts=shown, css=style(), line=LINE, cell=CELL)


def _parts(report: Report, left: dict[str, Section]) -> list[Part]:
    front = charts_pareto.pictures(charts_front.front(report))
    found = [
        Part(
            ident="front",
            title="Speed, memory and quality together",
            charts=front,
            sections=take(left, ("Front",)),
        ),
        Part(ident="levers", title="All levers", sections=take(left, (levers.TITLE,))),
        Part(
            ident="speed",
            title="Speed-ups and latency",
            charts=_drawn(charts.speedups(report)),
            sections=take(left, SPEED),
        ),
        Part(
            ident="time", title="Where time goes", charts=_drawn(charts.token_time(report)), sections=take(left, STEPS)
        ),
        Part(ident="drafts", title="Drafts", charts=_drawn(charts.survival(report)), sections=take(left, DRAFTS)),
    ]
    found.append(
        Part(
            ident="forecast",
            title="Forecast",
            charts=forecast_charts.pictures(report.forecast),
            sections=take(left, forecast_layout.TITLES),
        )
    )
    flips = page_flips.tables(report)
    for place, one in enumerate(report.evals, start=1):
        found.append(_quality(one, f"quality-{place}", left, flips.get(one.name, ())))
    notes = left.pop("Notes", None)
    found.append(Part(ident="outputs", title="Outputs, models and audits", sections=tuple(left.values())))
    return [*found, Part(ident="notes", title="Notes", sections=() if notes is None else (notes,))]


def _quality(one: EvalReport, ident: str, left: dict[str, Section], flips: Sequence[FlipTable]) -> Part:
    before = take(left, [f"{kind}: {one.name}" for kind in ("Quality", "Quality by tag")])
    # The table of flips holds what this section names a few of.
    examples = left.pop(f"Flips: {one.name}", None)
    return Part(
        ident=ident,
        title=f"Quality on {one.name}",
        charts=_drawn(charts.quality(one, f"{ident}-change")),
        sections=before if flips or examples is None else (*before, examples),
        flips=tuple(flips),
        score=lambda value: page_flips.score(value, one),
        after=take(left, [f"Guards: {one.name}"]),
    )


def _origin(report: Report, info: Mapping[str, Any]) -> Part:
    found = page_origin.origin(report, info)
    return Part(ident="origin", title="Where these numbers come from", sections=found, closed=True)


def take(left: dict[str, Section], titles: Sequence[str]) -> tuple[Section, ...]:
    """The sections of these titles, taken out of those that are left."""
    return tuple(left.pop(title) for title in titles if title in left)


def _drawn(chart: Chart | None) -> tuple[Chart, ...]:
    return () if chart is None else (chart,)
