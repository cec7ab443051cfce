"""The command that reads other tools' files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specq.cli.options import Json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from specq.imports import Import
    from specq.imports.totals import Value


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What another tool wrote.")],
    format: Annotated[str, typer.Option("--format", metavar="NAME", help="auto, or a format by name.")] = "auto",
    before: Annotated[
        Path | None, typer.Option("--before", metavar="SCRAPE", help="An earlier scrape, for Prometheus text.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write imported.jsonl there.")] = None,
    json: Json = False,
) -> None:
    """Read another tool's speculative numbers as records, and flag those that mislead."""
    from specq import api
    from specq.cli import output

    found = api.import_metrics(file, format, before=before, out=out, keep=json)
    if json:
        output.print_json(found.to_json())
    else:
        output.show(shown(found))


def shown(found: Import) -> Iterator[RenderableType]:
    """The tables of an import: counts, measures, flags. Ids and names are foreign text: shown, never obeyed."""
    from specq.imports.record import FLAGS
    from specq.report.tables import Grid, Paragraph

    totals = found.totals
    yield from ("", Grid(columns=(found.format, str(found.file)), rows=tuple(_counts(found)), prose=[1]), "")
    columns = ("measure", "value", "unit", "p50", "p95", "p99", "requests")
    yield from (Grid(columns=columns, rows=tuple(map(_row, totals.measures()))), "")
    if totals.derived:
        text = "steps were not counted: they are the tokens after the first less the accepted ones"
        yield Paragraph(text=f"note: of {totals.derived} records {text}")
    for name, count in totals.flags.items():
        yield Paragraph(text=f"{name} ({count}): {FLAGS[name]}")
        for flag in totals.first[name]:
            where = f"line {flag.line}" + (f", {flag.request}" if flag.request is not None else "")
            yield Paragraph(text=f"{where}: {flag.text}", indent=2)
        if count > len(totals.first[name]):
            yield Paragraph(text=f"and {count - len(totals.first[name])} more; --out DIR writes all", indent=2)
    if totals.lacks:
        yield Paragraph(
            text=f"note: the file has no counts of {' and '.join(totals.lacks)}, so nothing is said of them"
        )
    if not totals.flags and totals.lacks != ("new tokens", "drafts"):
        yield Paragraph(text="no count is impossible, and none was found to mislead")
    if found.written is not None:
        yield Paragraph(text=f"Records: {found.written}")


def _counts(found: Import) -> Iterator[tuple[str, str]]:
    totals = found.totals
    names = ("requests", "prompt_tokens", "cached_tokens", "new_tokens", "steps", "draft_steps", "proposed", "accepted")
    yield "records", f"{totals.records:,}"
    for name in names:
        value = totals.count(name)
        yield name.replace("_", " "), "-" if value is None else f"{value:,}"
    positions = totals.accepted_by_position()
    told = "-" if positions is None else f"{', '.join(map(str, positions[0]))} of {positions[1]:,} draft steps"
    yield "accepted by position", told
    yield "failed", str(totals.failed)


def _row(one: Value) -> tuple[str, ...]:
    from specq.report import words

    tails = one.tails or {}
    value = words.ratio(one.value) if one.unit in ("tokens/step", "share") else words.number(one.value)
    return (
        one.name,
        value,
        one.unit,
        *(words.number(tails.get(name)) for name in ("p50", "p95", "p99")),
        str(one.n) if one.value is not None and one.n else "-",
    )
