"""What a prefix cache could hold, for the terminal. Prompts, values and tags are foreign text: shown, never obeyed."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rich.console import RenderableType

from specq.cli.workload_views import lines, scrubbed
from specq.core.nouns import counted
from specq.lab.prefix import BOUND, NO_SIGN, Prefixes, Rate, Rates
from specq.lab.prefix_points import Point
from specq.report import words
from specq.report.tables import Grid, Paragraph

_POINTS, _TAGS = 6, 20


def shown(found: Prefixes) -> Iterator[RenderableType]:
    """Specq lab prefix: hit rates, by tag, volatile tokens, what was dropped and replaced, notes."""
    read = found.workload.read
    total = found.rates["tokens"].all
    head = f"{read.file}: {counted(total.prompts, 'prompt')}, {total.tokens:,} {found.unit}, in the order of the log"
    yield from ("", Paragraph(text=head, style="bold"), "")
    yield from (_table(found), "")
    if found.rates["tokens"].by_tag:
        yield from (_tags(found), "")
        left = len(found.rates["tokens"].by_tag) - _TAGS
        if left > 0:
            yield Paragraph(text=f"and {counted(left, 'tag')} more; --json has all")
    yield from _points(found)
    yield from (Paragraph(text=f"note: {note}") for note in _notes(found))
    for one in read.dropped:
        yield Paragraph(text=f"dropped: {one.reason}: {counted(len(one.lines), 'row')}, {lines(one.lines)}")


def _table(found: Prefixes) -> Grid:
    unit = found.unit.split()[0]
    names = {
        "tokens": "any earlier prompt",
        "blocks": f"any earlier prompt, whole blocks of {found.block}",
        "slots": f"the last prompt of {counted(found.slots or 0, 'slot')}",
    }
    rows = []
    for name, rates in found.rates.items():
        now, moved = rates.all, found.ordered[name].all
        rows.append((names[name], f"{now.cached:,}", _share(now), _share(moved), _gain(now, moved)))
    columns = ("what the cache holds", f"cached {unit}", "share now", "ordered by stability", "gain")
    return Grid(columns=columns, rows=tuple(rows), right=True)


def _tags(found: Prefixes) -> Grid:
    now, moved = found.rates["tokens"], found.ordered["tokens"]
    columns = ("tag", "prompts", found.unit.split()[0], "share now", "ordered by stability", "gain")
    return Grid(columns=columns, rows=tuple(_tag_rows(now, moved)), right=True)


def _tag_rows(now: Rates, moved: Rates) -> Iterator[tuple[str, ...]]:
    for tag, rate in list(now.by_tag.items())[:_TAGS]:
        yield _tag_row(tag, rate, moved.by_tag[tag])
    if now.untagged is not None and moved.untagged is not None:
        yield _tag_row("(no tag)", now.untagged, moved.untagged)


def _tag_row(tag: str, now: Rate, moved: Rate) -> tuple[str, ...]:
    return (tag, f"{now.prompts:,}", f"{now.tokens:,}", _share(now), _share(moved), _gain(now, moved))


def _share(rate: Rate) -> str:
    return f"{100 * rate.share:.1f} %"


def _gain(now: Rate, moved: Rate) -> str:
    return words.points(moved.share - now.share)


def _points(found: Prefixes) -> Iterator[RenderableType]:
    unit = found.unit.split()[0]
    for number, point in enumerate(found.points.found[:_POINTS], start=1):
        yield Paragraph(text=f"{number}. {_sentence(point, unit)}")
        if point.kind is not None:
            values = " | ".join(map(_quoted, point.values))
            yield Paragraph(text=f"values: {values}{' | ...' if point.branches > len(point.values) else ''}", indent=3)
            yield Paragraph(text=f"around: ...{_quoted(point.before)} HERE {_quoted(point.after)}...", indent=3)
    if (left := len(found.points.found) - _POINTS) > 0:
        yield Paragraph(text=f"and {counted(left, 'group')} more; --json has all")
    if found.points.rest:
        yield Paragraph(text=f"{counted(found.points.rest, 'prompt')} in groups of less than 1 % of all: not looked at")
    yield ""


def _sentence(point: Point, unit: str) -> str:
    tags = f" ({', '.join(point.tags)})" if point.tags else ""
    head = f"{counted(point.prompts, 'prompt')}{tags}"
    if point.kind is None:
        return f"{head} are the same"
    end = f", then {point.kind} in {point.branches:,} ways: {point.where}; {point.behind:,.0f} {unit} a prompt follow"
    return f"{head} begin with the same {point.equal:,} {unit}{end}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _notes(found: Prefixes) -> Iterator[str]:
    yield BOUND
    yield NO_SIGN
    unit = found.unit.split()[0]
    if not found.unit.startswith("tokens"):
        yield f"{unit} are no tokens; --tokenizer MODEL counts a model's"
    if found.taken_over is not None:
        told = f"{counted(found.taken_over, 'prompt')} found another's in the slot"
        yield f"{told}; ordered by stability {found.taken_over_ordered:,}"
    if found.stated is not None:
        rate = found.stated
        yield f"the log itself says {_share(rate)}: {rate.cached:,} of {rate.tokens:,} tokens, {rate.prompts:,} prompts"
    gain = found.ordered["tokens"].all.share - found.rates["tokens"].all.share
    if gain > 0:
        yield "the order by stability is an estimate from shared lines; what it does to answers is to be measured"
    else:
        yield "another order of the parts would gain nothing"
    if not found.by_lines:
        yield "this tokenizer joins lines: prompts as they are were encoded whole, reordered ones line by line"
    yield f"personal data and keys: {scrubbed(found.workload.read.counts)}"
    yield from found.notes
