"""The best drafts run live, taking turns with plain decoding, and forecast beside measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specq import report
from specq.core.types import EXACT_RULES
from specq.experiment.config import from_resolved
from specq.experiment.schema import Experiment
from specq.forecast import replay
from specq.forecast.predict import Cell, Forecast, one_a_draft
from specq.forecast.study import Study
from specq.run import runner
from specq.run.runner import OnProgress

PARTS = ("draft", "verify", "rest")
MOST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Forecast and measurement of one cell, and where they part.

    `acceptance`, `draft`, `verify` and `rest` are factors: what the tokens per step, and the seconds of each part of a
    step, measured against plain steps of the same run, make of the speed-up. Their product is measured over forecast.
    """

    forecast: Forecast
    arm: str
    speedup: float
    low: float | None
    high: float | None
    tokens_per_step: float
    acceptance: float
    draft: float
    verify: float
    rest: float
    verdict: str


def chosen(study: Study) -> list[Cell]:
    """The best cell of each of the best two drafts, the best first."""
    return [one.cell for one in one_a_draft(study.ranking.forecasts)[:MOST]]


def experiment(study: Study, cells: Sequence[Cell], *, repeats: int) -> Experiment:
    """The live run of some cells beside plain decoding: each a lever of its own."""
    values = study.experiment.resolved()
    levers = values["levers"]
    values["levers"] = {
        f"{cell.draft}_k{cell.k}": levers[cell.draft] | {"k": cell.k, "rule": cell.rule} for cell in cells
    }
    values["arms"] = {"run": ["each"]}
    values["workload"] |= {"repeats": repeats, "memory": False}
    return from_resolved(values)


def validate(
    study: Study, cells: Sequence[Cell], *, out: Path, repeats: int, on_progress: OnProgress | None
) -> tuple[Path, list[Gap]]:
    """Run the cells live and hold them against their forecasts; the run's folder and the gaps.

    Raises:
        Interrupted, RunFailed, UserError: as a run does; what was recorded is kept.
    """
    asked = experiment(study, cells, repeats=repeats)
    folder = runner.run(asked, out=out, on_progress=on_progress, write_report=report.write)
    return folder, gaps(study, cells, folder)


def gaps(study: Study, cells: Sequence[Cell], folder: Path) -> list[Gap]:
    """Forecast against the measurement of a run that has a lever for each cell, named as `experiment` names it."""
    run = report.open_run(folder)
    steps, first = run.steps, run.report.arms[0].id
    plain = steps[steps["arm"] == first]
    plain_s = float(plain[["draft_s", "verify_s", "sample_s", "rest_s"]].sum(axis=1).mean())
    found = []
    for cell in cells:
        lever = f"{cell.draft}_k{cell.k}"
        arm = next(one for one in run.report.arms if one.label == lever)
        own = steps[steps["arm"] == arm.id]
        live = {
            "draft": float(own["draft_s"].mean()) / plain_s,
            "verify": float(own["verify_s"].mean()) / plain_s,
            "rest": float((own["sample_s"] + own["rest_s"]).mean()) / plain_s,
        }
        forecast = study.ranking.of(cell)
        expected = step_shares(study, cell)
        speed, tokens = arm.measures["speedup"], arm.measures["tokens_per_step"].value or math.nan
        factors = _factors(expected, live)
        found.append(
            Gap(
                forecast=forecast,
                arm=arm.id,
                speedup=speed.value or math.nan,
                low=speed.low,
                high=speed.high,
                tokens_per_step=tokens,
                acceptance=tokens / forecast.tokens_per_step,
                verdict="" if arm.verdict is None else arm.verdict.kind,
                **factors,
            )
        )
    return found


def step_shares(study: Study, cell: Cell) -> dict[str, float]:
    """The parts of a step that the forecast expects, in plain steps, over all steps of the texts."""
    curve, texts = study.curves[cell.draft], study.texts[cell.draft]
    at = (slice(None), EXACT_RULES.index(cell.rule), cell.k - 1)
    count = float(replay.steps(texts, cell.k).mean[at].sum())
    parts = curve.parts(cell.k)
    summed = {name: replay.summed(texts, parts[name]).mean[at].sum() for name in PARTS}
    return {name: float(total) / count / curve.plain.step_s for name, total in summed.items()}


def _factors(expected: dict[str, float], live: dict[str, float]) -> dict[str, float]:
    """What each part's change makes of the whole step's, in turn: factors whose product is expected over live."""
    factors, now_ = {}, dict(expected)
    for name in PARTS:
        before = sum(now_.values())
        now_[name] = live[name]
        factors[name] = before / sum(now_.values())
    return factors
