"""Pictures of a forecast: how it became what was measured, and the speed-up over the number of tokens proposed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import mul
from typing import TYPE_CHECKING

from specq.report import forecast_grid_chart
from specq.report.charts_canvas import (
    BAD,
    GOOD,
    GRID,
    INK,
    MARKERS,
    MUTED,
    SERIES,
    Chart,
    chart,
    interval_line,
    limits,
    rows_axes,
    rows_height,
)
from specq.report.forecast_file import Cell, Forecasts
from specq.report.forecast_gaps import FACTORS, ForecastReport, Gap
from specq.report.forecast_layout import bounds
from specq.report.page_text import label
from specq.report.words import NOTHING, interval, ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TEXTS = 250


def pictures(found: ForecastReport | None) -> tuple[Chart, ...]:
    """A waterfall for each arm whose difference is split, the speed-ups over k, and targets with drafts.

    None without a forecast.
    """
    if found is None or found.forecasts is None:
        return ()
    split = [gap for gap in found.gaps if gap.factors]
    falls = [_waterfall(gap, f"forecast-{place}") for place, gap in enumerate(split, start=1)]
    return (*falls, *_over_k(found.forecasts, found.gaps), *forecast_grid_chart.pictures(found.grid))


def levels(gap: Gap) -> list[float]:
    """The forecast speed-up, then what it is after each factor in turn; the last is the measured one."""
    return list(accumulate(gap.factors, mul, initial=gap.cell.speedup))


def _waterfall(gap: Gap, name: str) -> Chart:
    heights, cell, measured = levels(gap), gap.cell, gap.speedup
    names = ("forecast", *FACTORS, "measured")
    last = len(names) - 1

    def paint(figure: Figure) -> None:
        axes = rows_axes(figure, names)
        axes.set_xlim(limits([*heights, 1.0], [cell.low, cell.high, measured.low, measured.high]))
        axes.axvline(1, color=MUTED, linewidth=1)
        for row, (before, after) in enumerate(pairwise(heights), start=1):
            color = GOOD if after >= before else BAD
            axes.barh([row], [after - before], 0.56, [before], color=color)
            # A factor of all but 1 is a bar too thin to see.
            axes.plot([after, after], [row - 0.28, row + 0.28], color=color, linewidth=1.5)
        for row, level in enumerate(heights[:-1]):
            axes.plot([level, level], [row, row + 1], color=GRID, linewidth=1, zorder=1)
        axes.plot([heights[-1], heights[-1]], [last - 1, last], color=GRID, linewidth=1, zorder=1)
        interval_line(axes, 0, cell.low, cell.high, color=SERIES[0], width=2)
        axes.plot([cell.speedup], [0], "D", color=SERIES[0], markersize=6)
        interval_line(axes, last, measured.low, measured.high, color=INK, width=2)
        axes.plot([heights[-1]], [last], "o", color=INK, markersize=6)
        axes.set_xlabel("times as fast as plain decoding")

    ends = (bounds(cell.low, cell.high), *[NOTHING] * len(FACTORS), interval(measured))
    given = (NOTHING, *(f"{factor:.3f}" for factor in gap.factors), NOTHING)
    rows = [
        (one, by, ratio(level), end)
        for one, by, level, end in zip(names, given, (*heights, heights[-1]), ends, strict=True)
    ]
    return chart(
        name,
        f"From forecast to measured: {label(gap.label, 60)}",
        f"{gap.label}: the forecast speed-up, what each factor makes of it, and the measured one.",
        rows_height(len(names)),
        paint,
        columns=("", "factor", "speed-up", "95 % interval"),
        rows=rows,
        lines=[
            "Bars are factors that multiply to measured / forecast: red slower, green faster. Lines: 95 % intervals."
        ],
    )


def _over_k(whole: Forecasts, gaps: Sequence[Gap]) -> tuple[Chart, ...]:
    curves = _curves(whole.cells)
    if not curves:
        return ()
    # A picture of more curves than colours cannot be read.
    shown = dict(list(curves.items())[: len(SERIES)])
    points = {gap.cell.key: gap for gap in gaps if gap.speedup.value is not None}
    in_picture = [one for cells in shown.values() for one in cells]

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        own = [points[one.key].speedup for one in in_picture if one.key in points]
        values = [1.0, *(one.speedup for one in in_picture), *(one.value for one in own if one.value is not None)]
        axes.set_ylim(limits(values, [end for one in own for end in (one.low, one.high)]))
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.axhline(1, color=MUTED, linewidth=1)
        for place, (name, cells) in enumerate(shown.items()):
            _curve(axes, name, cells, points, place)
        longest = max(one.k for one in in_picture)
        axes.set_xticks(range(1, longest + 1, 1 + longest // 12))
        axes.set_xlabel("tokens proposed a step (k)")
        axes.set_ylabel("times as fast as plain decoding")
        figure.legend(loc="outside lower center", ncols=2, handlelength=1.8)

    rows = [
        (
            f"{one.draft} k = {one.k}",
            one.rule,
            ratio(one.speedup),
            bounds(one.low, one.high),
            *(
                (ratio(gap.speedup.value), interval(gap.speedup))
                if (gap := points.get(one.key))
                else (NOTHING, NOTHING)
            ),
        )
        for cells in curves.values()
        for one in cells
    ]
    lines = ["Lines: the forecast of each draft under its best rule. Filled points with 95 % intervals: as measured."]
    if len(curves) > len(shown):
        lines.append(f"Drawn are the first {len(shown)} of {len(curves)} drafts.")
    left_out = [gap.label for gap in points.values() if gap.cell.key not in {one.key for one in in_picture}]
    if left_out:
        lines.append(
            f"Measured under another rule or beyond the curves drawn, so not in the picture: {', '.join(left_out)}."
        )
    return (
        chart(
            "forecast-k",
            "Speed-up over the tokens proposed",
            "Forecast speed-up of each draft by the tokens that it proposes a step, and what was measured.",
            _TEXTS + 16 * math.ceil(len(shown) / 2),
            paint,
            columns=("draft", "rule", "forecast", "95 % interval", "measured", "95 % interval"),
            rows=rows,
            lines=lines,
        ),
    )


def _curves(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Of each draft, the best first, the cells under its best cell's rule by k."""
    best: dict[str, Cell] = {}
    for one in cells:
        best.setdefault(one.draft, one)
    return {
        name: sorted((one for one in cells if (one.draft, one.rule) == (name, top.rule)), key=lambda cell: cell.k)
        for name, top in best.items()
    }


def _curve(axes: Axes, name: str, cells: Sequence[Cell], points: dict[tuple[str, int, str], Gap], place: int) -> None:
    color, marker = SERIES[place], MARKERS[place]
    (line,) = axes.plot(
        [one.k for one in cells], [one.speedup for one in cells], color=color, linewidth=1.8, label=label(name)
    )
    line.set(marker=marker, markersize=4, markerfacecolor="none")
    for one in cells:
        gap = points.get(one.key)
        if gap is None or gap.speedup.value is None:
            continue
        if gap.speedup.low is not None and gap.speedup.high is not None:
            axes.plot([one.k, one.k], [gap.speedup.low, gap.speedup.high], color=color, linewidth=2.2)
        axes.plot([one.k], [gap.speedup.value], marker, color=color, markersize=8)
