"""What `specq replay` prints: what was replayed, what of it the files fix, and the ranking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType

from specq.cli.views import table, text
from specq.core.nouns import counted
from specq.forecast.files import FromFiles, Replayed, Span
from specq.report.words import NOTHING, ratio


def ranking(found: FromFiles) -> Iterator[RenderableType]:
    """With seconds the best k of each draft and rule, else k = 1, 2, 4, ...; bounds as "a to b"."""
    yield text(f"Replayed {counted(found.texts, 'text')} at {_settings(found)}.")
    if found.studied:
        yield text(
            f"They are those that the study of {found.run} read; the probabilities of target and drafts along them are "
            "kept there, so that nothing is bounded."
        )
    elif found.run:
        yield text(f"They are the first answers of the baseline in {found.run}, and what a lookup copies is exact.")
    if found.left_out:
        yield text(f"{counted(found.left_out, 'prompt')} of it without an answer of 2 tokens or more: left out.")
    if found.checked and not found.run:
        yield text(
            f"{counted(found.checked, 'text is', 'texts are')} checked: nothing in the log-probabilities speaks "
            "against the target having written them at these settings."
        )
    yield from table(
        ("draft", "tokens", "exact", "bounded", "outside"),
        [
            (name, *(str(count) for count in (one.tokens, one.exact, one.bounded, one.outside)))
            for name, one in found.counts.items()
        ],
    )
    if found.checked < found.texts:
        yield text(
            f"{counted(found.texts - found.checked, 'text is', 'texts are')} not checked: whether the target wrote "
            "them at these settings, the files do not fix; more log-probabilities a token do."
        )
    if outside := max(one.outside for one in found.counts.values()):
        yield text(
            f"{counted(outside, 'token')} of the target cannot be in its law: taken as chosen by its own rounding."
        )
    if found.seconds is None:
        weigh = "--plain-s and --draft-s" if set(found.counts) - set(found.lookups) else "--plain-s and --verify-s"
        yield text(f"Tokens per step grow with k, and so do the seconds of a step: {weigh} weigh them.")
    else:
        yield text(f"Every k from 1 to {found.most} under every exact rule; the best k of each draft and rule.")
    if found.sampling.temperature == 0:
        yield text("At temperature 0 all rules accept the same.")
    columns = ("draft", "rule", "k", "tokens/step", "95 %", *(("speed-up", "95 %") if found.seconds else ()))
    yield from table(columns, [_row(one, _alike(found, one)) for one in shown(found)])
    if any(one.bounded for one in found.counts.values()):
        yield text(
            'Where the files bound the law and do not fix it, "a to b" holds what it can be; more log-probabilities a '
            "token narrow it."
        )
    if found.seconds is not None and found.max_new_tokens is None:
        yield text(
            "An answer that ended by itself had last steps that proposed beyond its end; how far, its limit tells: "
            "without --max-new-tokens speed-ups are bounded."
        )
    if found.texts < 2:
        yield text("One text: there is no interval, and nothing can be said about other texts.")


def shown(found: FromFiles) -> list[Replayed]:
    """The rows of the table, the best first; at temperature 0 and for lookups rules share a row."""
    powers = {1 << power for power in range(found.most.bit_length())} | {found.most}
    seen: dict[tuple[str, str, int], Replayed] = {}
    for one in found.cells:
        rule = "" if _alike(found, one) else one.cell.rule
        if found.seconds is not None:
            seen.setdefault((one.cell.draft, rule, 0), one)
        elif one.cell.k in powers:
            seen.setdefault((one.cell.draft, rule, one.cell.k), one)
    return list(seen.values())


def as_json(found: FromFiles) -> dict[str, Any]:
    """Everything as plain values: settings, counts, and every cell."""
    sampling = found.sampling
    return {
        "settings": {
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "k": found.most,
            "max_new_tokens": found.max_new_tokens,
            "seconds": None if found.seconds is None else asdict(found.seconds),
        },
        "run": found.run or None,
        "studied": found.studied,
        "left_out": found.left_out,
        "texts": found.texts,
        "checked": found.checked,
        "counts": {name: asdict(one) for name, one in found.counts.items()},
        "cells": [
            {
                **asdict(one.cell),
                "tokens_per_step": asdict(one.tokens_per_step),
                "speedup": None if one.speedup is None else asdict(one.speedup),
            }
            for one in found.cells
        ],
    }


def _alike(found: FromFiles, one: Replayed) -> bool:
    return found.sampling.temperature == 0 or one.cell.draft in found.lookups


def _settings(found: FromFiles) -> str:
    sampling = found.sampling
    if sampling.temperature == 0:
        return "temperature 0"
    cuts = [f"top-k {sampling.top_k}"] if sampling.top_k else []
    cuts += [f"top-p {sampling.top_p:g}"] if sampling.top_p < 1 else []
    cuts += [f"min-p {sampling.min_p:g}"] if sampling.min_p else []
    return ", ".join([f"temperature {sampling.temperature:g}", *cuts])


def _row(one: Replayed, alike: bool) -> tuple[str, ...]:
    spans = [one.tokens_per_step, *([] if one.speedup is None else [one.speedup])]
    cells = [cell for span in spans for cell in (_span(span), _interval(span))]
    return one.cell.draft, "all" if alike else one.cell.rule, str(one.cell.k), *cells


def _span(span: Span) -> str:
    least, greatest = ratio(span.least), ratio(span.greatest)
    return least if least == greatest else f"{least} to {greatest}"


def _interval(span: Span) -> str:
    return NOTHING if span.low is None or span.high is None else f"{ratio(span.low)} to {ratio(span.high)}"
