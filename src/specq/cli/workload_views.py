"""The tables of a workload for the terminal. Ids, tags, keys and reasons are foreign text: shown, never obeyed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from specq.core.nouns import counted
from specq.report import words
from specq.report.tables import Grid, Paragraph
from specq.workloads.describe import Lengths, Workload
from specq.workloads.request import Counts

_SHOWN = 8
_LINES = 5


def shown(found: Workload) -> Iterator[RenderableType]:
    """What a file holds: facts, lengths, arrivals, what was dropped, notes."""
    rows = tuple((name, value) for name, value in _facts(found) if value)
    yield from ("", Grid(columns=("workload", str(found.read.file)), rows=rows, prose=[1]), "")
    lengths = {**found.lengths, **({} if found.messages is None else {"messages": found.messages})}
    if lengths:
        columns = ("length of a prompt", "least", "p50", "p95", "p99", "most", "sum", "prompts")
        yield from (Grid(columns=columns, rows=tuple(_row(*one) for one in lengths.items()), right=True), "")
    for one in found.read.dropped:
        yield Paragraph(text=f"dropped: {one.reason}: {counted(len(one.lines), 'row')}, {lines(one.lines)}")
    for reason, count in (found.left_out or {}).items():
        yield Paragraph(text=f"not written: {reason}: {counted(count, 'prompt')}")
    for note in found.notes:
        yield Paragraph(text=f"note: {note}")
    if found.written is not None:
        yield Paragraph(text=f"Prompts: {found.written}")


def lines(numbers: Sequence[int]) -> str:
    """The first of some lines: "lines 3, 9 and 12", "lines 3, 9, 12, 15, 20 and 7 more"."""
    first = ", ".join(map(str, numbers[:_LINES]))
    more = f" and {len(numbers) - _LINES} more" if len(numbers) > _LINES else ""
    return f"line{'s' if len(numbers) > 1 else ''} {first}{more}"


def scrubbed(counts: Counts) -> str:
    """What was replaced: "email 12 (3 different), phone 1"."""
    if counts.kept:
        return "kept as they are, as asked"
    told = []
    for kind, count in sorted(counts.scrubbed.items(), key=lambda one: -one[1]):
        different = f" ({counts.values[kind]:,} different)" if counts.values[kind] < count else ""
        told.append(f"{kind.replace('_', ' ')} {count:,}{different}")
    return (", ".join(told) or "none found") + "; names and addresses of people are not looked for"


def _facts(found: Workload) -> Iterator[tuple[str, str]]:
    read = found.read
    yield "format", read.format
    dropped = sum(len(one.lines) for one in read.dropped)
    yield "rows", f"{read.counts.rows:,}" + (f", {dropped:,} of them dropped" if dropped else "")
    yield "prompts", f"{len(read.requests):,}" if found.lengths else ""
    repeats = f"{counted(found.repeats, 'prompt')} that stood before, in {counted(len(found.duplicates), 'group')}"
    yield "duplicates", repeats if found.duplicates else "none"
    tags = [f"{tag} {count:,}" for tag, count in found.tags().items()]
    more = f" and {len(tags) - _SHOWN} more" if len(tags) > _SHOWN else ""
    yield "tags", ", ".join(tags[:_SHOWN]) + more
    users = len({one.user for one in read.requests if one.user})
    yield "users or sessions", f"{users:,}" if users else ""
    yield "personal data and keys", scrubbed(read.counts)
    yield from _arrivals(found)


def _arrivals(found: Workload) -> Iterator[tuple[str, str]]:
    times = found.read.arrivals
    if times is None:
        return
    rate = times.rate()
    unit = {"iso": "as dates"}.get(times.unit, f"in {times.unit}")
    yield (
        "times",
        f"{len(times.at_s) - times.missing:,}, {unit}" + (f", under {found.read.at_key}" * bool(found.read.at_key)),
    )
    if rate is None:
        return
    yield "span", f"{words.number(rate['span_s'])} s"
    yield "arrivals", f"{words.number(rate['per_s'])} a second; at most {rate['busiest_minute']:,} in a minute"
    gaps = ", ".join(f"{name} {words.number(value)}" for name, value in rate["gap_s"].items() if value is not None)
    spread = f"spread {words.ratio(rate['gap_spread'])} (1 is Poisson, 0 steady)"
    yield "gaps, s", f"{gaps}; {spread}"


def _row(name: str, lengths: Lengths) -> tuple[str, ...]:
    tails = (lengths.p50, lengths.p95, lengths.p99)
    return (
        name,
        f"{lengths.minimum:,}",
        *(words.NOTHING if one is None else f"{one:,.0f}" for one in tails),
        f"{lengths.maximum:,}",
        f"{lengths.total:,}",
        f"{lengths.values:,}",
    )
