"""Forecast beside measurement: what the two make of each arm that was forecast, and where they part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specq.core import hashes
from specq.report import forecast_file, forecast_grid
from specq.report.arm import ArmReport
from specq.report.evals import EvalReport
from specq.report.forecast_file import Cell, Forecasts, Ran
from specq.report.forecast_grid import GridReport
from specq.report.measures import PARTS, Measure
from specq.report.runfile import RunFile
from specq.report.section import measured

FACTORS = ("acceptance", "draft", "verify", "rest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The forecast of one arm beside what the run measured of it; None where that is not known, and `why` says so.

    `acceptance`, `draft`, `verify` and `rest` are factors whose product is measured over forecast speed-up: what the
    tokens per step, the seconds of drafting and those of the target's pass (in plain steps of the same run) make of it,
    and what is left: sampling, rolling back, and time that no step was billed for. `inside` tells whether the measured
    speed-up lies in the forecast's interval.
    """

    arm: str
    label: str
    cell: Cell
    speedup: Measure
    tokens_per_step: Measure
    inside: bool | None = None
    acceptance: float | None = None
    draft: float | None = None
    verify: float | None = None
    rest: float | None = None
    verdict: str = ""
    why: str = ""

    @property
    def factors(self) -> tuple[float, ...]:
        """The four factors in the order of FACTORS; empty where they are not known."""
        found = [getattr(self, name) for name in FACTORS]
        return () if None in found else tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastReport:
    """What forecast.json says, held against the run; `fault` says why it cannot be used, "" where it can.

    `grid` is that of targets and drafts, None where none was forecast.
    """

    fault: str
    forecasts: Forecasts | None
    gaps: tuple[Gap, ...]
    grid: GridReport | None = None


def of_run(run: RunFile, arms: Sequence[ArmReport], evals: Sequence[EvalReport] = ()) -> ForecastReport | None:
    """What was forecast of a run beside what its arms measured; None for a run without a forecast."""
    forecasts, fault = forecast_file.read(run.folder, run.info)
    if forecasts is None:
        return ForecastReport(fault=fault, forecasts=None, gaps=()) if fault else None
    grid = forecast_grid.of_run(run, arms, evals, forecasts.grid)
    asked = {str(arm["id"]): arm for arm in run.info["arms"]}
    made = {arm.id: arm for arm in arms}
    plain_s = _plain_step_s([made[id] for id in run.baselines if id in made])
    gaps = [_gap(forecasts, one, made.get(one.arm), asked.get(one.arm), plain_s) for one in forecasts.arms]
    return ForecastReport(fault="", forecasts=forecasts, gaps=tuple(gaps), grid=grid)


def draft_sha256(draft: Any) -> str:
    """The hash of a draft's settings as run.json has them: what ties a forecast to the arm that it is of."""
    return hashes.of_json(draft)


def factors(
    cell: Cell, expected: Ran, *, speedup: float, tokens_per_step: float, draft: float, verify: float
) -> dict[str, float] | None:
    """What acceptance, drafting, verifying and the rest make of measured / forecast speed-up; None without a number.

    The forecast's step is tokens_per_step / speedup plain steps long. Each part of it is put to what was measured in
    turn, and its factor is the step before over the step after; the rest is what the others leave, so that the product
    of all is measured over forecast.

    Args:
        cell: the forecast.
        expected: the parts of its step, in plain steps.
        speedup: as measured.
        tokens_per_step: as measured.
        draft: the measured part of a step, in plain steps of the same run.
        verify: likewise.
    """
    whole = expected.draft_share + expected.verify_share + expected.rest_share
    drafted = whole - expected.draft_share + draft
    verified = drafted - expected.verify_share + verify
    numbers = (whole, drafted, verified, speedup, tokens_per_step)
    if not all(math.isfinite(one) and one > 0 for one in numbers):
        return None
    found = {
        "acceptance": tokens_per_step / cell.tokens_per_step,
        "draft": whole / drafted,
        "verify": drafted / verified,
    }
    found["rest"] = speedup / cell.speedup / math.prod(found.values())
    return found


def _gap(
    forecasts: Forecasts,
    ran: Ran,
    arm: ArmReport | None,
    asked: Mapping[str, Any] | None,
    plain_s: float | None,
) -> Gap:
    nothing = Measure(name="", unit="", value=None)
    gap = Gap(
        arm=ran.arm,
        label=ran.arm if arm is None else arm.label,
        cell=forecasts.cell(ran.key),
        speedup=nothing,
        tokens_per_step=nothing,
    )
    if arm is None or asked is None:
        return replace(gap, why="the run has no such arm")
    if draft_sha256(asked.get("draft")) != ran.draft_sha256:
        return replace(gap, why="the arm's draft is not the one that was forecast")
    speedup, tokens = measured(arm, "speedup"), measured(arm, "tokens_per_step")
    verdict = "" if arm.verdict is None else arm.verdict.kind
    gap = replace(gap, speedup=speedup, tokens_per_step=tokens, verdict=verdict)
    if speedup.value is None or tokens.value is None:
        return replace(gap, why=_why_unmeasured(arm))
    low, high = gap.cell.low, gap.cell.high
    inside = None if low is None or high is None else low <= speedup.value <= high
    draft_s, verify_s = (measured(arm, f"step_{part}_s").value for part in ("draft", "verify"))
    split = None
    if draft_s is not None and verify_s is not None and plain_s:
        split = factors(
            gap.cell,
            ran,
            speedup=speedup.value,
            tokens_per_step=tokens.value,
            draft=draft_s / plain_s,
            verify=verify_s / plain_s,
        )
    if split is None:
        return replace(gap, inside=inside, why="the seconds of its steps or of plain ones are not known")
    return replace(
        gap,
        inside=inside,
        acceptance=split["acceptance"],
        draft=split["draft"],
        verify=split["verify"],
        rest=split["rest"],
    )


def _why_unmeasured(arm: ArmReport) -> str:
    if not arm.generations:
        return f"all its {arm.failed} samples failed" if arm.failed else "the run has no answer of it"
    if arm.faults:
        return f"its numbers are void: {arm.faults[0]}"
    return "the run has no turn that it shares with the baseline"


def _plain_step_s(baselines: Sequence[ArmReport]) -> float | None:
    """Seconds of a plain step: the mean over all steps of the baselines, which every arm is held against."""
    seconds, steps = 0.0, 0
    for arm in baselines:
        parts = [measured(arm, f"step_{part}_s") for part in PARTS]
        if all(part.value is not None for part in parts):
            seconds += sum(part.value or 0.0 for part in parts) * parts[0].n
            steps += parts[0].n
    return seconds / steps if steps and seconds > 0 else None
