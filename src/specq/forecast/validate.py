"""The best drafts run live, taking turns with plain decoding, and forecast beside measurement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from specq import report
from specq.experiment.arms import arms
from specq.experiment.config import from_resolved
from specq.experiment.schema import Experiment
from specq.forecast import kept, record
from specq.forecast.predict import Cell, one_a_draft
from specq.forecast.study import Study
from specq.report.forecast_file import Forecasts
from specq.report.forecast_gaps import Gap
from specq.run import runner
from specq.run.runner import OnProgress

MOST = 2


def chosen(study: Study) -> list[Cell]:
    """The best cell of each of the best two drafts, the best first."""
    return [one.cell for one in one_a_draft(study.ranking.forecasts)[:MOST]]


def experiment(study: Study, cells: Sequence[Cell], *, repeats: int) -> Experiment:
    """The live run of some cells beside plain decoding: each a lever of its own."""
    values = study.experiment.resolved()
    levers = values["levers"]
    values["levers"] = {
        lever(cell): levers[cell.draft] | {"k": cell.k, "rule": cell.rule, "threshold": None} for cell in cells
    }
    values["arms"] = {"run": ["each"]}
    # A ceiling on memory is refused where no peak is measured.
    values["workload"] |= {"repeats": repeats, "memory": values["floor"]["peak_bytes"] is not None}
    return from_resolved(values)


def lever(cell: Cell) -> str:
    """The name of a cell's lever in the live run."""
    return f"{cell.draft}_k{cell.k}"


def of_cells(study: Study, cells: Sequence[Cell], asked: Experiment) -> Forecasts:
    """The forecast that lies beside the live run of some cells, each with its arm."""
    ids = {arm.levers: arm.id for arm in arms(asked)}
    return record.of_study(study, asked, {cell: ids[lever(cell),] for cell in cells})


def validate(
    study: Study, cells: Sequence[Cell], *, out: Path, repeats: int, on_progress: OnProgress | None
) -> tuple[Path, list[Gap]]:
    """Run the cells live and hold them against their forecasts; the run's folder and the gaps.

    The forecast lies in the folder from the start, so that a report of a resumed or unfinished run has it.

    Raises:
        Interrupted, RunFailed, UserError: as a run does; what was recorded is kept.
    """
    asked = experiment(study, cells, repeats=repeats)
    folder = runner.run(
        asked,
        out=out,
        on_progress=on_progress,
        write_report=report.write,
        beside=record.beside(of_cells(study, cells, asked)) | kept.beside(study, asked),
    )
    return folder, gaps(folder)


def gaps(folder: Path) -> list[Gap]:
    """Forecast against measurement, as the report of a run says it, for the cells that the run was made for."""
    found = report.open_run(folder).report.forecast
    return [] if found is None else list(found.gaps)
