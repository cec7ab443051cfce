"""The table of an evaluation set for the terminal. Ids, tags and prompts are foreign text: shown, never obeyed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType

from specq.core.nouns import counted
from specq.evals.describe import Description, Lengths, Provable, points
from specq.report.tables import Grid, Paragraph

_SHOWN = 5
# Reasons are whole sentences.
_REASONS = 3


def description(found: Description) -> Iterator[RenderableType]:
    """Specq evals check: what the set holds, what it can prove, notes."""
    rows = tuple((name, value) for name, value in _facts(found) if value)
    yield from ("", Grid(columns=("evaluation set", found.file), rows=rows, prose=[1]), "")
    if found.provable:
        yield Paragraph(text=_sentence(found))
        yield from ("", _table(found), "")
    yield from (Paragraph(text=f"note: {note}") for note in found.notes)


def _facts(found: Description) -> Iterator[tuple[str, str]]:
    yield "items", f"{found.items:,}"
    yield "prompt, characters", _lengths(found.characters)
    yield "prompt, tokens", _lengths(found.tokens) if found.tokens else ""
    yield "clusters", _clusters(found)
    tags = [f"{tag} {count}" for tag, count in found.tags.items()]
    tags += [f"none {found.untagged}"] if tags and found.untagged else []
    yield "tags", ", ".join(tags) or "none"
    yield "critical", f"{found.critical}" if found.critical else "none"
    yield "references", ", ".join(f"{kind} {count}" for kind, count in found.references.items())
    if found.metric is not None:
        yield "metric", f"{found.metric}, {'0 or 1' if found.binary else 'a number'}; fits all items"
    yield "metrics that fit", ", ".join(found.fits) or "no built-in one fits all items"
    yield "metric to start with", _proposal(found)
    for name, count in found.partly.items():
        yield f"{name} fits in part", f"{count} of {counted(found.items, 'item')}; not {_reasons(found.misfits[name])}"
    yield "same prompt", _groups(found.duplicates)
    yield "same prompt, other reference", _groups(found.contradictions)
    yield "nearly the same prompt", _groups(found.near_duplicates)


def _lengths(lengths: Lengths) -> str:
    return f"{lengths.minimum} to {lengths.maximum}, median {lengths.median:.0f}, p95 {lengths.p95:.0f}"


def _proposal(found: Description) -> str:
    """As `specq init --evals` writes it."""
    if (one := found.proposed) is None:
        return ""
    options = ", ".join(f"{key} = {json.dumps(value)}" for key, value in one.options.items())
    return f"{one.name} with {options}; {one.about}" if options else one.name


def _reasons(misfits: Mapping[str, Sequence[str]]) -> str:
    """The first items of the first reasons why a metric does not fit."""
    told = [f"{_first(ids)}: {why}" for why, ids in list(misfits.items())[:_REASONS]]
    left = sum(len(ids) for ids in list(misfits.values())[_REASONS:])
    return "; ".join(told) + (f"; nor {counted(left, 'more item')}" if left else "")


def _first(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return f"{', '.join(ids[:_SHOWN])}{more}"


def _clusters(found: Description) -> str:
    if found.clusters == found.items:
        return "none: each item stands for itself"
    return f"{found.clusters:,}, the largest of {counted(found.largest_cluster, 'item')}"


def _groups(groups: Sequence[tuple[str, ...]]) -> str:
    if not groups:
        return ""
    listed = [" = ".join([*group[:_SHOWN], *(["..."] if len(group) > _SHOWN else [])]) for group in groups[:_SHOWN]]
    more = f" and {counted(len(groups) - _SHOWN, 'more group')}" if len(groups) > _SHOWN else ""
    return f"{'; '.join(listed)}{more}"


def _sentence(found: Description) -> str:
    return f"Of a lever that in truth costs nothing, {counted(found.items, 'item')} can prove, in 4 runs of 5:"


def _table(found: Description) -> Grid:
    clustered = found.clusters < found.items
    columns = ["items that flip", "it is at most"]
    columns += ["if clusters flip as one"] if clustered else []
    columns += [f"items for {points(found.margin)}"] if found.margin is not None else []
    return Grid(columns=tuple(columns), rows=tuple(_row(one, clustered) for one in found.provable))


def _row(one: Provable, clustered: bool) -> tuple[str, ...]:
    row = [f"{100 * one.flip_rate:.0f} %", _margin(one.margin)]
    row += [_margin(one.margin_clustered)] if clustered else []
    return (*row, *([] if one.items_needed is None else [f"{one.items_needed:,}"]))


def _margin(margin: float) -> str:
    return f"{points(margin)} worse" if margin < 1 else "nothing"
