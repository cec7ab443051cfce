"""What `specq drafts` prints: compatibility, ceilings, the forecast, where to paste what, and forecast beside life."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from specq.cli import draft_notes, draft_settings, live_views
from specq.cli.views import table, text
from specq.core.nouns import counted
from specq.forecast import cost, drift, remarks, rising
from specq.forecast.cost import Curve
from specq.forecast.predict import Forecast, one_a_draft
from specq.forecast.study import Study
from specq.report import Report
from specq.report.forecast_gaps import FACTORS, Gap
from specq.report.words import NOTHING, near_tie, no_interval, number, ratio, size
from specq.report.words import share as percent
from specq.run.provenance import tidy

SHOWN = 12


def ceilings(curves: Mapping[str, Curve], most: int) -> Iterator[RenderableType]:
    """Before anything is generated: what each draft could reach with every token right, and what it must reach."""
    rows = []
    for name, curve in cost.named(curves):
        for depth in curve.depths or (curve,):
            for point in depth.points:
                k = point.proposed
                if not 0 < k <= most:
                    continue
                share = f"{100 * point.spread:.0f} %"
                seconds = (point.draft_s, point.verify_s, point.rest_s, depth.plain.step_s)
                parts = [f"{1000 * part:.2f}" for part in seconds]
                reach = (ratio(depth.ceiling(k)), ratio(depth.break_even(k)))
                rows.append((name, str(depth.context), str(k), *parts, share, *reach))
    yield text(
        "Seconds of a step in thousandths, measured here after `context` tokens; the ceiling has every token right."
    )
    yield from table(
        (
            "draft",
            "context",
            "k",
            "draft",
            "verify",
            "rest",
            "plain step",
            "spread",
            "ceiling",
            "break even, tokens/step",
        ),
        rows,
    )
    first = next(iter(curves.values()))
    if read := [f"{one.prefill_tokens} tokens in {number(one.prefill_s)} s" for one in first.depths if one.prefill_s]:
        yield text(f"The target reads a prompt of {', of '.join(read)}.")
    yield from (text(words) for words in rising.told(curves))
    for name, curve in curves.items():
        if why := curve.why_hopeless(most):
            yield text(f"{name} is hopeless here: {why}.")


def study(found: Study, *, natural: str = "--lengths natural") -> Iterator[RenderableType]:
    """Which draft fits, and how fast each is expected to be; `natural` is what to type for texts that end."""
    load, ranking = found.experiment.workload, found.ranking
    columns = ("draft", "method", "tokenizer", "template", "weights", "of the target", "remark")
    yield from table(columns, list(_compatible(found)), prose=("remark",))
    warm = "greedy" if load.temperature == 0 else f"temperature {load.temperature:g}"
    yield text(
        f"Forecast from {counted(ranking.prompts, 'text')} of the target ({warm}, up to "
        f"{counted(load.max_new_tokens, 'token')}): every k "
        f"from 1 to {_most(found)} and the rules {', '.join(found.rules)}; the best of each "
        f"draft and rule. Plain decoding: {number(ranking.plain_tokens_per_s)} tokens/s."
    )
    yield from table(
        ("draft", "rule", "k", "tokens/step", "speed-up", "95 %", "tokens/s", "faster", "slower prompts", "regret"),
        [_forecast(one) for one in best_of_each(found)][:SHOWN],
    )
    if ranking.forecasts and ranking.forecasts[0].low is None:
        yield text(no_interval(ranking.prompts))
    elif ranking.near is not None:
        best, *others = one_a_draft(ranking.forecasts)
        rival = others[0].cell.draft if others and others[0].speedup > 1 else None
        yield text(near_tie(ranking.near, best.cell.draft, rival))
    for words in (drift.told(found.curves), draft_notes.past_end(found, natural), draft_notes.outside(found)):
        if words:
            yield text(words)
    yield from _strata(found)


def _strata(found: Study) -> Iterator[RenderableType]:
    """The parts of the best draft, and what the parts of each draft say that its mean does not."""
    if found.strata and found.strata[0].parts:
        first = found.strata[0]
        yield text(f"Parts of the prompts and of the texts, for {first.cell.draft} with k = {first.cell.k}:")
        yield from table(
            ("by", "part", "of", "tokens/step", "speed-up", "95 %", "faster"),
            [
                (
                    one.by,
                    one.name,
                    counted(one.n, "token" if one.by == "position" else "prompt"),
                    ratio(one.tokens_per_step),
                    ratio(one.speedup),
                    _interval(one.low, one.high),
                    percent(one.p_faster),
                )
                for one in first.parts
            ],
            prose=("part",),
        )
    yield from (text(words) for one in found.strata for words in one.said)


def best_of_each(found: Study) -> list[Forecast]:
    """The best k of each draft and rule, the fastest first; at temperature 0 and for lookups rules do not differ."""
    seen: dict[tuple[str, str], Forecast] = {}
    for one in found.ranking.forecasts:
        alike = found.experiment.workload.temperature == 0 or found.drafts[one.cell.draft].method == "lookup"
        rule = "" if alike else one.cell.rule
        seen.setdefault((one.cell.draft, rule), one)
    return list(seen.values())


def outcome(found: Study, gaps: Sequence[Gap], live: Report | None, folder: Path | None) -> Iterator[RenderableType]:
    """Forecast beside measurement, how far that can be trusted, what to paste, and what it took."""
    best = found.ranking.best
    if best is None:
        yield text("No draft is expected to be faster than plain decoding here: use none. Nothing was run live.")
    if gaps:
        yield text("Forecast and life; the factors say what acceptance and each part of a step make of the difference.")
        yield from table(
            ("arm", "forecast", "measured", "95 %", "verdict", "acceptance", "draft", "verify", "rest"),
            [
                (
                    gap.arm,
                    ratio(gap.cell.speedup),
                    ratio(gap.speedup.value),
                    _interval(gap.speedup.low, gap.speedup.high),
                    gap.verdict or NOTHING,
                    *(ratio(part) for part in (gap.acceptance, gap.draft, gap.verify, gap.rest)),
                )
                for gap in gaps
            ],
        )
    if live is not None:
        yield from live_views.trusted(live)
    if best is not None:
        yield from draft_settings.pasted(found, best)
    spent = found.spent
    yield text(
        f"It took {spent.curves_s:.1f} s for the cost curves, {spent.texts_s:.1f} s for the texts and "
        f"{spent.reading_s:.1f} s to read and rank them."
    )
    if folder is not None:
        yield text(f"The live run: {folder}; to see it type: specq show {folder}")


def as_json(found: Study, gaps: Sequence[Gap], live: Report | None, folder: Path | None) -> dict[str, Any]:
    """The whole study as plain values; the texts stay out."""
    best = found.ranking.best
    return {
        "target": found.experiment.target.model,
        "prompts": found.ranking.prompts,
        "tokens": found.tokens,
        "past_end_tokens": found.past_end,
        "plain_tokens_per_s": found.ranking.plain_tokens_per_s,
        "remarks": dict(remarks.of_drafts(found.drafts, found.described)),
        "templates": dict(found.templates),
        "curves": {name: asdict(curve) for name, curve in found.curves.items()},
        "drift": drift.told(found.curves),
        "falling": rising.told(found.curves),
        "hopeless": {name: why for name, curve in found.curves.items() if (why := curve.why_hopeless(_most(found)))},
        "forecasts": [_plain(one) for one in found.ranking.forecasts],
        "best": None if best is None else _plain(best),
        "more_prompts": found.ranking.near,
        "strata": [
            {**asdict(one.cell), "parts": [asdict(part) for part in one.parts], "said": list(one.said)}
            for one in found.strata
        ],
        "settings": []
        if best is None
        else [
            {**asdict(way), "tokens_per_step": None if one is None else one.tokens_per_step}
            for way, one in draft_settings.of_winner(found, best)
        ],
        "live": [_beside(gap) for gap in gaps],
        "trust": None if live is None else live_views.as_json(live),
        "run": None if folder is None else tidy(folder),
        "seconds": asdict(found.spent),
    }


def _beside(gap: Gap) -> dict[str, Any]:
    return {
        "arm": gap.arm,
        "forecast": asdict(gap.cell),
        "speedup": gap.speedup.value,
        "low": gap.speedup.low,
        "high": gap.speedup.high,
        "tokens_per_step": gap.tokens_per_step.value,
        **{name: getattr(gap, name) for name in FACTORS},
        "verdict": gap.verdict,
        "why": gap.why,
    }


def _plain(one: Forecast) -> dict[str, Any]:
    values = asdict(one)
    return {**values.pop("cell"), **{name: None if value != value else value for name, value in values.items()}}


def _most(found: Study) -> int:
    return max(one.cell.k for one in found.ranking.forecasts)


def _compatible(found: Study) -> Iterator[tuple[str, ...]]:
    whole = found.described["target"]["bytes_per_token"]
    yield "(target)", NOTHING, NOTHING, NOTHING, size(found.described["target"]["weight_bytes"]), NOTHING, NOTHING
    told = dict(remarks.of_drafts(found.drafts, found.described))
    for name, draft in found.drafts.items():
        own = found.described.get(name)
        read = NOTHING if own is None else f"{100 * own['bytes_per_token'] / whole:.0f} %"
        same = "the target's" if draft.method != "model" or draft.model == "self" else "same tokens"
        method = f"{draft.method} after lookup" if draft.lookup_first else draft.method
        method += "" if draft.stop_below is None else f", stops below {draft.stop_below}"
        weights = NOTHING if own is None else size(own["weight_bytes"])
        yield name, method, same, found.templates.get(name, NOTHING), weights, read, told.get(name, NOTHING)


def _forecast(one: Forecast) -> tuple[str, ...]:
    unknown = one.p_faster != one.p_faster
    return (
        one.cell.draft,
        one.cell.rule,
        str(one.cell.k),
        ratio(one.tokens_per_step),
        ratio(one.speedup),
        _interval(one.low, one.high),
        number(one.tokens_per_s),
        NOTHING if unknown else f"{100 * one.p_faster:.0f} %",
        f"{100 * one.slower_prompts:.0f} %",
        NOTHING if unknown else f"{100 * one.regret:.1f} %",
    )


def _interval(low: float | None, high: float | None) -> str:
    return NOTHING if low is None or high is None else f"{ratio(low)} to {ratio(high)}"
