"""Targets and drafts together as a section: every cell, forecast and measured, and whether the two levers add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specq.report.forecast_grid import Beside, GridReport, of_cells
from specq.report.interplay import overall
from specq.report.section import Section
from specq.report.words import NOTHING, interval, milliseconds, points, ratio, size

TITLE = "Forecast: targets and drafts"
LEAD = (
    "Every target with every draft, the best k and rule of each: speed-ups over plain decoding of the plain target. "
    "over its target: over plain decoding of its own target. weights: of target and draft. A change of quality is its "
    "target's, which an exact draft leaves alone. together: what the two levers make of each other, forecast and as "
    "measured."
)


def section(found: GridReport | None) -> Section:
    """The whole grid, one line where it cannot be read; nothing without one."""
    if found is None:
        return Section(title=TITLE)
    if found.fault:
        return Section(title=TITLE, lines=(found.fault,))
    front = {id(one) for one in found.front()}
    rows = tuple(_row(one, found.evals, id(one) in front) for one in found.cells if one.best is not None)
    return Section(title=TITLE, lines=(LEAD, *lines(found)), columns=columns(found), rows=rows)


def columns(found: GridReport) -> tuple[str, ...]:
    """The heads of the table; a quality column for each eval."""
    return (
        *("cell", "forecast", "95 % interval", "over its target", "tokens/step", "ms/token", "weights"),
        *("measured", "95 % interval", *(f"change on {name}" for name in found.evals), "verdict"),
        *("together, forecast", "together, measured", "front"),
    )


def lines(found: GridReport) -> Iterator[str]:
    """Which other models there are, what goes with what, measured before forecast, and what could not be run."""
    for name, model in found.models.items():
        yield f"{name} is another model in the target's place: {model}."
    told = {(one.cell.target, str(one.cell.draft)): one.interplay for one in found.cells if one.interplay is not None}
    guessed = of_cells(one.cell for one in found.cells)
    for how, pairs in (("Measured", told), ("Forecast", guessed)):
        if pairs:
            yield f"{how}: {overall([one.kind for one in pairs.values()])}"
        # What was measured needs no guess.
        yield from (
            f"{how}: {one.sentence(*names)}" for names, one in pairs.items() if pairs is told or names not in told
        )
    front = [one.cell.label for one in found.front()]
    if front:
        yield f"No other cell is at least as good in everything and better in something than {', '.join(front)}."
    for one in found.cells:
        if one.cell.why_not:
            yield f"{one.cell.target} with {one.cell.draft or 'no draft'} is no cell: {one.cell.why_not}."


def _row(one: Beside, binary: Mapping[str, bool], front: bool) -> tuple[str, ...]:
    cell = one.cell
    low, high = cell.low, cell.high
    measured = one.speedup if one.is_measured else None
    scores = [None if (change := one.quality.get(name)) is None else change.value for name in binary]
    return (
        cell.label,
        ratio(cell.speedup),
        NOTHING if low is None or high is None else f"{ratio(low)} to {ratio(high)}",
        ratio(cell.over_target),
        ratio(cell.tokens_per_step),
        milliseconds(cell.tpot_s),
        size(cell.bytes),
        NOTHING if measured is None else ratio(measured.value),
        NOTHING if measured is None else interval(measured),
        *(points(score, share) for score, share in zip(scores, binary.values(), strict=True)),
        one.verdict or NOTHING,
        cell.interplay or NOTHING,
        NOTHING if one.interplay is None else one.interplay.kind,
        "yes" if front else NOTHING,
    )
