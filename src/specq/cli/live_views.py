"""What `specq drafts` prints of the run that a forecast is held against: how far its numbers can be trusted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType

from specq.cli.views import text
from specq.report import Report
from specq.report.words import interval, ratio


def trusted(report: Report) -> Iterator[RenderableType]:
    """What must be read before any number of the run, what no difference looks like in it, and its audits."""
    for flag in report.flags:
        yield text(f"Read this first: {flag}")
    if report.null:
        same = ", ".join(f"{one.name} {ratio(one.value)} ({interval(one)})" for one in report.null)
        yield text(f"Plain decoding against itself in that run (A/A): {same}.")
    for arm, said in _audits(report).items():
        yield text(f"{arm}: {said}.")


def as_json(report: Report) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "flags": list(report.flags),
        "null": {one.name: {"value": one.value, "low": one.low, "high": one.high} for one in report.null},
        "audits": _audits(report),
    }


def _audits(report: Report) -> dict[str, str]:
    """The audit of each arm with a draft, a sentence each."""
    return {arm.id: arm.audit.sentence() for arm in report.arms if arm.draft is not None}
