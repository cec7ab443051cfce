"""Targets and drafts together: what was forecast of every pair on one scale, beside what the run measured of some."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specq.core.typed import checks_of, fields_of, in_words
from specq.report import speed
from specq.report.arm import ArmReport
from specq.report.evals import EvalReport
from specq.report.interplay import Interplay, Rate, interplay
from specq.report.measures import Measure
from specq.report.runfile import RunFile

BASELINE = "baseline"
"""The plain target's name among targets; no lever may have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCell:
    """One target with one draft, as it was forecast; None where there is nothing to tell, and `why_not` says so.

    `target` is a lever's name, or "baseline" for the plain target; `draft` None is plain decoding. `speedup` with its
    95 % interval is over plain decoding of the plain target, `over_target` over plain decoding of its own target.
    `bytes` counts weights, target and draft. `arm` is the run's, where it was measured. `interplay` is that of the two
    levers by the forecast alone.
    """

    target: str
    draft: str | None
    k: int | None = None
    rule: str | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    over_target: float | None = None
    over_low: float | None = None
    over_high: float | None = None
    tokens_per_step: float | None = None
    tpot_s: float | None = None
    bytes: int | None = None
    arm: str | None = None
    interplay: str | None = None
    why_not: str = ""

    @property
    def label(self) -> str:
        """Its levers as tables name them, with the tokens that a step proposes."""
        draft = None if self.draft is None else self.draft if self.k is None else f"{self.draft} k = {self.k}"
        if self.target == BASELINE:
            return draft or BASELINE
        return self.target if draft is None else f"{self.target} + {draft}"

    @property
    def rate(self) -> Rate | None:
        """The forecast speed-up over plain decoding of the plain target."""
        return None if self.speedup is None else Rate.of(self.speedup, self.low, self.high)

    @property
    def on_target(self) -> Rate | None:
        """The forecast speed-up over plain decoding of its own target."""
        return None if self.over_target is None else Rate.of(self.over_target, self.over_low, self.over_high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A cell and what the run measured of it: None and empty where it was not run.

    `quality` holds, by eval, how far its target moved the score; an exact draft leaves that alone.
    """

    cell: GridCell
    speedup: Measure | None
    quality: Mapping[str, Measure]
    interplay: Interplay | None
    verdict: str

    @property
    def best(self) -> Rate | None:
        """The measured speed-up where there is one, else the forecast."""
        found = self.speedup
        if found is None or found.value is None:
            return self.cell.rate
        return Rate.of(found.value, found.low, found.high)

    @property
    def is_measured(self) -> bool:
        """Whether the run has a speed-up of it."""
        return self.speedup is not None and self.speedup.value is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class GridReport:
    """The whole grid, the cells that can be run first and the fastest first; `fault` says why it cannot be read.

    `evals` are the run's by name, and whether their scores are shares of right answers. `models` are those that stand
    in the target's place, by the lever that names them.
    """

    cells: tuple[Beside, ...]
    evals: Mapping[str, bool] = field(default_factory=dict)
    fault: str = ""
    models: Mapping[str, str] = field(default_factory=dict)

    def front(self) -> list[Beside]:
        """The cells that no other beats in speed, memory and quality: nowhere worse and somewhere better.

        Speed as measured where it was, else as forecast. A cell whose quality is not known, where others have one, is
        not placed.
        """
        whole = {id(one): _spots(one, self.evals) for one in self.cells}
        placed = [(one, spots) for one in self.cells if (spots := whole[id(one)]) is not None]
        return [one for one, spots in placed if not any(_beats(other, spots) for _, other in placed)]


def of_run(
    run: RunFile, arms: Sequence[ArmReport], evals: Sequence[EvalReport], rows: Sequence[Mapping[str, Any]]
) -> GridReport | None:
    """The grid that was forecast beside what the arms of the run measured; None where no grid was forecast."""
    if not rows:
        return None
    try:
        cells = [_cell(row, place) for place, row in enumerate(rows)]
    except ValueError as fault:
        return GridReport(cells=(), fault=f"the grid of targets and drafts cannot be used: {fault}")
    made = {arm.id: arm for arm in arms}
    speeds = {(one.target, one.draft): one.arm for one in cells if one.arm in made}
    found = [
        Beside(
            cell=cell,
            speedup=_speedup(cell.arm, run, made),
            quality=_quality(speeds.get((cell.target, None)), made, evals, run.baselines),
            interplay=_interplay(cell, speeds, run, made),
            verdict=_verdict(cell.arm, made),
        )
        for cell in cells
    ]
    levers: Mapping[str, Mapping[str, Any]] = run.setting("levers", default={})
    return GridReport(
        cells=tuple(sorted(found, key=_place)),
        evals={one.name: one.binary for one in evals},
        models={name: str(one["model"]) for name, one in levers.items() if one.get("kind") == "model"},
    )


def rate_over(run: RunFile, base: str, arm: str) -> Rate | None:
    """The speed-up of an arm over another of the same run, on the turns of the prompts that both have."""
    compared = speed.compare([run.generated[base]], run.generated[arm]).decode
    if compared is None or compared.pooled.value <= 0:
        return None
    return Rate.of(compared.pooled.value, compared.pooled.low, compared.pooled.high)


def of_cells(cells: Iterable[GridCell]) -> dict[tuple[str, str], Interplay]:
    """How each changed target and each draft go together by the forecast, where all three parts are forecast."""
    by = {(one.target, one.draft): one for one in cells}
    found = {}
    for (target, draft), cell in by.items():
        if target == BASELINE or draft is None:
            continue
        parts = by.get((target, None)), by.get((BASELINE, draft))
        alone, plain = (None if part is None else part.rate for part in parts)
        if alone is not None and plain is not None and cell.on_target is not None:
            found[target, draft] = interplay(alone, plain, cell.on_target, cell.rate)
    return found


def _spots(one: Beside, evals: Collection[str]) -> tuple[float, ...] | None:
    """Speed, memory and quality, more is better in all; None where one is not known."""
    best, scores = one.best, [found.value for name in evals if (found := one.quality.get(name)) is not None]
    if best is None or one.cell.bytes is None or None in scores or len(scores) < len(evals):
        return None
    return (best.value, -float(one.cell.bytes), *(score for score in scores if score is not None))


def _beats(other: Sequence[float], one: Sequence[float]) -> bool:
    return other != one and all(its >= mine for its, mine in zip(other, one, strict=True))


def _place(one: Beside) -> tuple[bool, float]:
    best = one.best
    return best is None, 0.0 if best is None else -best.value


def _speedup(arm: str | None, run: RunFile, made: Mapping[str, ArmReport]) -> Measure | None:
    if arm is None or arm not in made:
        return None
    if arm == next(iter(run.baselines), None):
        return Measure(name="speedup", unit="ratio", value=1.0, note="by definition")
    return made[arm].measures.get("speedup")


def _quality(
    plain: str | None, made: Mapping[str, ArmReport], evals: Sequence[EvalReport], baselines: Sequence[str]
) -> dict[str, Measure]:
    """How far a target moved each score: its own plain arm's change, and nothing for the baseline."""
    found = {}
    for one in evals:
        key = f"quality_change.{one.name}"
        if plain is not None and plain in baselines:
            found[one.name] = Measure(name=key, unit="", value=0.0)
        elif plain is not None and (change := made[plain].measures.get(key)) is not None:
            found[one.name] = change
    return found


def _interplay(
    cell: GridCell, speeds: Mapping[tuple[str, str | None], str | None], run: RunFile, made: Mapping[str, ArmReport]
) -> Interplay | None:
    if cell.target == BASELINE or cell.draft is None:
        return None
    keys = ((cell.target, None), (BASELINE, cell.draft), (cell.target, cell.draft))
    target, draft, both = (speeds.get(key) for key in keys)
    if target is None or draft is None or both is None:
        return None
    rates = [_rate(made[arm].measures.get("speedup")) for arm in (target, draft, both)]
    on_target = rate_over(run, target, both)
    if rates[0] is None or rates[1] is None or rates[2] is None or on_target is None:
        return None
    return interplay(rates[0], rates[1], on_target, rates[2])


def _rate(found: Measure | None) -> Rate | None:
    if found is None or not found.value:
        return None
    return Rate.of(found.value, found.low, found.high)


def _verdict(arm: str | None, made: Mapping[str, ArmReport]) -> str:
    found = None if arm is None or arm not in made else made[arm].verdict
    return "" if found is None else found.kind


def _cell(row: Mapping[str, Any], place: int) -> GridCell:
    kinds = fields_of(GridCell)
    if unknown := [name for name in row if name not in kinds]:
        raise ValueError(f"grid[{place}] has an unknown {unknown[0]}")
    for name, check in checks_of(GridCell).items():
        if name in row and not check(row[name]):
            raise ValueError(f"grid[{place}]: {name} must be {in_words(kinds[name])}")
    if not {"target", "draft"} <= row.keys():
        raise ValueError(f"grid[{place}] names no target and no draft")
    for name in ("speedup", "low", "high", "over_target", "over_low", "over_high"):
        if row.get(name) is not None and row[name] <= 0:
            raise ValueError(f"grid[{place}]: {name} must be above 0")
    return GridCell(**row)
