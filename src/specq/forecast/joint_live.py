"""The joint grid live: which of its cells are run, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specq import report
from specq.core.errors import ConfigError
from specq.experiment.arms import arms
from specq.experiment.config import from_resolved
from specq.experiment.schema import Experiment
from specq.forecast import kept, record
from specq.forecast.joint import Grid
from specq.forecast.joint_plan import Key
from specq.forecast.predict import Cell
from specq.report.forecast_grid import BASELINE, GridCell, GridReport
from specq.run import runner
from specq.run.runner import OnProgress

CELLS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The cells to run beside the baseline, what matters most first; `left_out` would have been the next ones.

    A target alone is run with each of its drafts, which are held against it, and counts as one of the cells that were
    asked for where it is among the first of them.
    """

    cells: tuple[GridCell, ...]
    left_out: tuple[GridCell, ...]


def chosen(cells: Sequence[GridCell], most: int = CELLS) -> Chosen:
    """The cells that are worth a measurement, at most so many.

    In this order: the best by forecast, with its target alone; every other target alone, whose quality all its cells
    share; the best one's draft on the plain target, which tells whether the two add; each target's best draft; and what
    the forecast cannot part from the best, since their intervals overlap.

    Args:
        cells: the fastest first.
        most: of them, the baseline and its twin apart, and the target alone that comes with a draft on it.
    """
    able = [one for one in cells if one.rate is not None and (one.target, one.draft) != (BASELINE, None)]
    if not able:
        return Chosen(cells=(), left_out=())
    best = able[0]
    wanted: dict[Key, GridCell] = {}

    def want(found: Sequence[GridCell]) -> None:
        for one in found:
            wanted.setdefault((one.target, one.draft), one)

    want([best])
    want([one for one in able if one.target == best.target and one.draft is None])
    want([one for one in able if one.draft is None])
    want([one for one in able if one.target == BASELINE and one.draft == best.draft])
    firsts: dict[str, GridCell] = {}
    for one in able:
        if one.draft is not None:
            firsts.setdefault(one.target, one)
    want(list(firsts.values()))
    want([one for one in able if _not_apart(one, best)])
    listed = list(wanted.values())
    # An arm with a draft brings its target's plain arm with it, so that it is run however few are asked for.
    targets = {one.target for one in listed[:most] if one.draft is not None}
    brought = [one for one in listed[most:] if one.draft is None and one.target in targets]
    left_out = [one for one in listed[most:] if one not in brought]
    return Chosen(cells=(*listed[:most], *brought), left_out=tuple(left_out))


def _not_apart(one: GridCell, best: GridCell) -> bool:
    return one.high is None or best.low is None or one.high >= best.low


def levers(cells: Sequence[GridCell]) -> dict[Key, str]:
    """The draft lever of each cell that has a draft: named by its tokens, and by its rule where names would meet."""
    rules: dict[str, dict[str | None, None]] = {}
    for one in cells:
        rules.setdefault(f"{one.draft}_k{one.k}", {})[one.rule] = None
    found: dict[Key, str] = {}
    for one in cells:
        if one.draft is not None:
            name = f"{one.draft}_k{one.k}"
            found[one.target, one.draft] = name if len(rules[name]) == 1 else f"{name}_{one.rule}"
    return found


def experiment(asked: Experiment, cells: Sequence[GridCell]) -> Experiment:
    """The live run: each cell an arm, its draft a lever of its own with the k and the rule of the forecast.

    Prompts, turns, memory, evals and floor are those that were asked for.
    """
    values = asked.resolved()
    given, named = values["levers"], levers(cells)
    targets = dict.fromkeys(one.target for one in cells if one.target != BASELINE)
    values["levers"] = {name: given[name] for name in targets}
    for one in cells:
        if one.draft is not None:
            own = given[one.draft] | {"k": one.k, "rule": one.rule}
            values["levers"][named[one.target, one.draft]] = own
    values["arms"] = {"run": list(dict.fromkeys(_arm(one, named) for one in cells))}
    return from_resolved(values)


def _arm(one: GridCell, named: dict[Key, str]) -> str:
    parts = [one.target] if one.target != BASELINE else []
    return " + ".join([*parts, *([named[one.target, one.draft]] if one.draft is not None else [])])


def measure(grid: Grid, *, most: int = CELLS, out: Path, on_progress: OnProgress | None) -> tuple[Path, GridReport]:
    """Run the chosen cells beside the baseline; the run's folder, and forecast beside measurement.

    The whole grid lies in the folder from the start, so that any report of the run has it.

    Raises:
        ConfigError: nothing is left to run.
        Interrupted, RunFailed, UserError: as a run does; what was recorded is kept.
    """
    cells = chosen(grid.cells, most).cells
    if not cells:
        raise ConfigError(
            f"--measure {most}: no cell beside the baseline would run; type --measure {CELLS}, or --no-live"
        )
    asked = experiment(grid.experiment, cells)
    named, ids = levers(cells), {frozenset(arm.levers): arm.id for arm in arms(asked)}
    made = {(one.target, one.draft): ids[frozenset(_arm(one, named).split(" + "))] for one in cells}
    made[BASELINE, None] = arms(asked)[0].id
    plain = grid.studies[BASELINE]
    own = {
        Cell(draft=one.draft, k=one.k, rule=one.rule): made[one.target, one.draft]  # type: ignore[arg-type]
        for one in cells
        if one.target == BASELINE and one.draft is not None and one.k is not None
    }
    forecasts = record.of_study(plain, asked, own, grid=grid.rows(made))
    beside = record.beside(forecasts) | kept.beside(plain, asked)
    folder = runner.run(asked, out=out, on_progress=on_progress, write_report=report.write, beside=beside)
    found = report.open_run(folder).report.forecast
    return folder, GridReport(cells=()) if found is None or found.grid is None else found.grid
