"""What `specq drafts` prints of a joint grid: every cell as forecast, what is run of them, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from specq.cli import draft_notes, live_views
from specq.cli.views import table, text
from specq.core.nouns import counted
from specq.forecast import joint_live
from specq.forecast.joint import Grid
from specq.report import Report, forecast_grid_layout
from specq.report.forecast_grid import Beside, GridReport
from specq.report.interplay import Interplay
from specq.report.plain import plain
from specq.report.words import ratio
from specq.run.provenance import hide_home, tidy


def of_target(target: str, parts: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """The cost curves of one target's drafts."""
    yield text(f"{target}:")
    yield from parts


def forecast(found: Grid) -> Iterator[RenderableType]:
    """The scale of the targets, and all cells before any is run."""
    load = found.experiment.workload
    warm = "greedy" if load.temperature == 0 else f"temperature {load.temperature:g}"
    yield text(
        f"Plain decoding of each target, {next(iter(found.plain.values())).turns} turns; forecasts from "
        f"{counted(len(found.laid.plan.prompts), 'text')} of each ({warm}, up to "
        f"{counted(load.max_new_tokens, 'token')})."
    )
    yield from table(
        ("target", "ms/step", "speed-up"),
        [(name, f"{1000 * one.step_s:.2f}", one.speedup.words()) for name, one in found.plain.items()],
    )
    yield from (text(f"{name}: {words}") for name, words in found.drift().items())
    for name, one in found.studies.items():
        if words := draft_notes.past_end(one, "--set workload.lengths=natural"):
            yield text(f"{name}: {words}")
    yield from _grid(unmeasured(found))


def outcome(
    found: Grid, beside: GridReport | None, live: Report | None, folder: Path | None
) -> Iterator[RenderableType]:
    """All cells once more with what was measured, how far that can be trusted, what was left out, what it took."""
    if beside is not None:
        yield from _grid(beside)
    if beside is not None:
        yield from (text(words) for words in fastest(beside.cells))
    if live is not None:
        yield from live_views.trusted(live)
    if folder is not None and beside is not None:
        yield from _left_out(found, beside)
    spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in found.seconds.items())
    yield text(f"Forecasting took {sum(found.seconds.values()):.0f} s: {spent}.")
    if folder is not None:
        yield text(f"The live run: {folder}; to see it type: specq show {folder}")


def fastest(cells: Sequence[Beside]) -> Iterator[str]:
    """What was fastest of what was measured; where its verdict is reject, also what was fastest of the rest."""
    measured = [(one, one.best.words()) for one in cells if one.is_measured and one.best is not None]
    if not measured:
        return
    best, speed = measured[0]
    rejected = best.verdict == "reject"
    more = ", and rejected" if rejected else ""
    yield f"Fastest of what was measured: {best.cell.label}, {speed} times plain decoding{more}."
    if not rejected:
        return
    left = [(one, speed) for one, speed in measured if one.verdict not in ("", "reject")]
    if left:
        other, speed = left[0]
        yield f"Fastest of what is not rejected: {other.cell.label}, {speed} times plain decoding ({other.verdict})."
    else:
        yield "All that was measured is rejected: plain decoding of the plain target stays."


def unmeasured(found: Grid) -> GridReport:
    """The grid as its report shows it, with no cell measured."""
    cells = (Beside(cell=one, speedup=None, quality={}, interplay=None, verdict="") for one in found.cells)
    levers = found.experiment.levers.items()
    models = {name: str(hide_home(lever.model)) for name, lever in levers if lever.kind == "model"}
    return GridReport(cells=tuple(cells), models=models)


def as_json(found: Grid, beside: GridReport | None, live: Report | None, folder: Path | None) -> dict[str, Any]:
    """Every cell with its forecast and measurement, and how levers go together, as plain values."""
    shown = unmeasured(found) if beside is None else beside
    measured = {(one.cell.target, one.cell.draft): one.interplay for one in shown.cells if one.interplay is not None}
    front = {id(one) for one in shown.front()}
    return {
        "target": found.experiment.target.model,
        "prompts": len(found.laid.plan.prompts),
        "tokens": {name: one.tokens for name, one in found.studies.items()},
        "past_end_tokens": {name: one.past_end for name, one in found.studies.items()},
        "drift": found.drift(),
        "plain": {name: plain(one) for name, one in found.plain.items()},
        "cells": [
            {
                **asdict(one.cell),
                "label": one.cell.label,
                "measured": plain(one.speedup) if one.is_measured else None,
                "quality": {name: plain(change) for name, change in one.quality.items()},
                "verdict": one.verdict or None,
                "front": id(one) in front,
            }
            for one in shown.cells
        ],
        "together": {
            "forecast": [_pair(*names, one) for names, one in found.pairs.items()],
            "measured": [_pair(target, str(draft), one) for (target, draft), one in measured.items()],
        },
        "trust": None if live is None else live_views.as_json(live),
        "run": None if folder is None else tidy(folder),
        "seconds": dict(found.seconds),
    }


def _pair(target: str, draft: str, one: Interplay) -> dict[str, Any]:
    return {"target": target, "draft": draft, **plain(one), "sentence": one.sentence(target, draft)}


def _grid(found: GridReport) -> Iterator[RenderableType]:
    section = forecast_grid_layout.section(found)
    yield from (text(line) for line in section.lines)
    yield from table(section.columns, section.rows)


def _left_out(found: Grid, beside: GridReport) -> Iterator[RenderableType]:
    """Cells that would have been worth a run."""
    ran = {(one.cell.target, one.cell.draft) for one in beside.cells if one.cell.arm is not None}
    chosen = joint_live.chosen(found.cells, len(found.cells))
    missed = [one for one in chosen.cells if (one.target, one.draft) not in ran]
    if missed:
        names = ", ".join(f"{one.label} ({ratio(one.speedup)})" for one in missed)
        yield text(f"Not run, by forecast: {names}; --measure {len(chosen.cells)} runs them too.")
