"""What was forecast, as the file that lies in the run's folder beside what was measured: see report.forecast_file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import specq
from specq.core.clock import utc_stamp
from specq.core.types import EXACT_RULES, DraftSpec
from specq.experiment.schema import Experiment
from specq.forecast import cost, replay, rising
from specq.forecast.predict import Cell, Forecast, step_parts
from specq.forecast.strata import Stratum
from specq.forecast.study import Study
from specq.report import forecast_file
from specq.report.forecast_file import FILE, SCHEMA, Forecasts, Part, Point, Ran
from specq.report.forecast_gaps import draft_sha256
from specq.report.plain import plain
from specq.run.provenance import hide_home

PARTS = ("draft", "verify", "rest")


def beside(forecasts: Forecasts) -> dict[str, Any]:
    """The file for a run's folder, by its name: `beside` of run.runner.run."""
    return {FILE: hide_home(plain(forecasts))}


def of_study(
    study: Study, asked: Experiment, arms: Mapping[Cell, str], *, grid: Sequence[Mapping[str, Any]] = ()
) -> Forecasts:
    """A study as what a run is held against.

    Args:
        study: what was forecast.
        asked: the experiment of the run.
        arms: of each cell that the run has an arm for, the arm's id.
        grid: the cells of targets and drafts together, where they were asked for.
    """
    most = max(one.cell.k for one in study.ranking.forecasts)
    hopeless = {name: why for name, curve in study.curves.items() if (why := curve.why_hopeless(most))}
    return Forecasts(
        schema=SCHEMA,
        specq=specq.__version__,
        created=utc_stamp(),
        config_sha256=asked.config_sha256,
        target=study.experiment.target.model,
        prompts=study.ranking.prompts,
        plain_tokens_per_s=study.ranking.plain_tokens_per_s,
        more_prompts=study.ranking.near,
        seconds={name.removesuffix("_s"): value for name, value in asdict(study.spent).items()},
        cells=tuple(cell(one) for one in told_apart(study, arms)),
        points=points(study),
        hopeless=hopeless,
        strata=tuple(part(one.cell, own) for one in study.strata for own in one.parts),
        said=(*rising.told(study.curves), *(sentence for one in study.strata for sentence in one.said)),
        arms=tuple(ran(study, one, arm) for one, arm in arms.items()),
        grid=tuple(dict(one) for one in grid),
    )


def told_apart(study: Study, wanted: Mapping[Cell, str]) -> list[Forecast]:
    """The forecasts, the fastest first; of rules that do the same one is left, the wanted one where there is one.

    At temperature 0 all rules do the same, and for a lookup at any.
    """
    greedy = study.experiment.workload.temperature == 0

    def key(one: Cell) -> tuple[str, int, str]:
        alike = greedy or study.drafts[one.draft].method == "lookup"
        return one.draft, one.k, "" if alike else one.rule

    first: dict[tuple[str, int, str], Cell] = {key(one): one for one in wanted}
    for one in study.ranking.forecasts:
        first.setdefault(key(one.cell), one.cell)
    return [one for one in study.ranking.forecasts if one.cell in wanted or first[key(one.cell)] == one.cell]


def cell(one: Forecast) -> forecast_file.Cell:
    """A forecast as it is written; what is not known is None."""
    return forecast_file.Cell(
        draft=one.cell.draft,
        k=one.cell.k,
        rule=one.cell.rule,
        tokens_per_step=one.tokens_per_step,
        speedup=one.speedup,
        low=one.low,
        high=one.high,
        tokens_per_s=one.tokens_per_s,
        p_faster=known(one.p_faster),
        slower_prompts=one.slower_prompts,
        regret=known(one.regret),
        draft_s=one.draft_s,
        verify_s=one.verify_s,
        rest_s=one.rest_s,
    )


def part(one: Cell, own: Stratum) -> Part:
    """A part of a cell's forecast as it is written."""
    return Part(
        draft=one.draft,
        k=one.k,
        rule=one.rule,
        by=own.by,
        name=own.name,
        n=own.n,
        tokens_per_step=known(own.tokens_per_step),
        speedup=known(own.speedup),
        low=known(own.low),
        high=known(own.high),
        p_faster=known(own.p_faster),
    )


def known(value: float | None) -> float | None:
    """The number, None where it is none: JSON has no NaN."""
    return value if value is not None and math.isfinite(value) else None


def points(study: Study) -> tuple[Point, ...]:
    """The cost curves as they were measured."""
    return tuple(
        Point(
            draft=name,
            k=point.proposed,
            context=depth.context,
            draft_s=point.draft_s,
            verify_s=point.verify_s,
            rest_s=point.rest_s,
            plain_s=depth.plain.step_s,
            spread=point.spread,
            ceiling=depth.ceiling(point.proposed),
            break_even=depth.break_even(point.proposed),
        )
        for name, curve in cost.named(study.curves)
        for depth in curve.depths or (curve,)
        for point in depth.points
        if point.proposed
    )


def ran(study: Study, one: Cell, arm: str) -> Ran:
    """A cell that the run has an arm for, with what its steps are expected to cost."""
    shares = step_shares(study, one)
    return Ran(
        arm=arm,
        draft=one.draft,
        k=one.k,
        rule=one.rule,
        # Of the lever that was studied, not of the arm: an arm of another draft is then found out.
        draft_sha256=draft_sha256(asdict(_lever(study, one))),
        **{f"{name}_share": share for name, share in shares.items()},
    )


def step_shares(study: Study, one: Cell) -> dict[str, float]:
    """The parts of a step that the forecast expects, in plain steps, over all steps of the texts.

    Their sum is tokens_per_step / speedup of the cell, which is what it forecasts of a step.
    """
    curve, texts, whole = study.curves[one.draft], study.texts[one.draft], study.ranking.of(one)
    at = (slice(None), EXACT_RULES.index(one.rule), one.k - 1)
    pairs = zip(study.plan.prompts, texts, strict=True)
    parts = [step_parts(text, curve, one.k, len(prompt.ids)) for prompt, text in pairs]
    summed = {name: float(replay.summed(texts, [each[name] for each in parts]).mean[at].sum()) for name in PARTS}
    # In plain steps, each at its own context: those are in the forecast's speed-up.
    scale = whole.tokens_per_step / whole.speedup / sum(summed.values())
    return {name: value * scale for name, value in summed.items()}


def _lever(study: Study, one: Cell) -> DraftSpec:
    draft = study.experiment.levers[one.draft].draft()
    assert draft is not None
    return replace(draft, k=one.k, rule=one.rule, threshold=None)
