"""The picture of targets and drafts together: speed against memory, and against each eval's change."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specq.report.charts_canvas import INK, MARKERS, MUTED, SERIES, Chart, chart, limits
from specq.report.forecast_grid import Beside, GridReport
from specq.report.interplay import Rate
from specq.report.page_text import label
from specq.report.words import NOTHING, points, ratio, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT, LEGEND = 190, 16
_ROOM = 60
_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Up:
    """What stands upright in a panel: its name, its value of a cell, and whether less is better."""

    name: str
    of: Callable[[Beside], float | None]
    less: bool = False


def pictures(found: GridReport | None) -> tuple[Chart, ...]:
    """One picture with a panel for memory and one for each eval; none without cells."""
    cells = [] if found is None else [one for one in found.cells if one.best is not None]
    if found is None or len(cells) < 2:
        return ()
    targets = list(dict.fromkeys(one.cell.target for one in cells))
    drafts = list(dict.fromkeys(one.cell.draft for one in cells))
    ups = [
        _Up(name="weights, MiB, less is up", of=_weights, less=True),
        *(_change(*one) for one in found.evals.items()),
    ]
    front = {id(one) for one in found.front()}
    kinds = len(targets) + len(drafts)

    def paint(figure: Figure) -> None:
        panels = figure.subplots(len(ups), 1, sharex=True, squeeze=False)[:, 0]
        spans = [_best(one) for one in cells]
        left, right = limits([one.value for one in spans], [end for one in spans for end in (one.low, one.high)])
        for axes, up in zip(panels, ups, strict=True):
            axes.grid()
            axes.set_axisbelow(True)
            axes.set_xlim(left, right)
            _panel(axes, up, cells, targets, drafts, front)
        panels[-1].set_xlabel("times as fast as plain decoding of the plain target")
        for name, style in _legend(targets, drafts):
            panels[0].plot([], [], label=name, **style)
        figure.legend(loc="outside lower center", ncols=2, handlelength=1.4)

    columns = ("cell", "speed-up", "known by", "weights", *(f"change on {name}" for name in found.evals), "front")
    rows = [_row(one, found, id(one) in front) for one in cells]
    return (
        chart(
            "forecast-grid",
            "Targets and drafts: speed, memory and quality",
            "Every target with every draft: how fast, how large, and what it changes.",
            _ROOM + HEIGHT * len(ups) + LEGEND * math.ceil(kinds / 2),
            paint,
            columns=columns,
            rows=rows,
            lines=[
                "Filled: measured in this run. Hollow: forecast alone. Colours are targets, shapes drafts. Large: no "
                "other cell is at least as good in everything and better in something. Lines: 95 % intervals of the "
                "speed-up."
            ],
        ),
    )


def _best(one: Beside) -> Rate:
    assert one.best is not None
    return one.best


def _weights(one: Beside) -> float | None:
    return None if one.cell.bytes is None else one.cell.bytes / _MIB


def _change(name: str, binary: bool) -> _Up:
    def value(one: Beside) -> float | None:
        found = one.quality.get(name)
        return None if found is None or found.value is None else found.value * (100 if binary else 1)

    return _Up(name=f"change on {label(name)}{', points' if binary else ''}", of=value)


def _panel(
    axes: Axes,
    up: _Up,
    cells: Sequence[Beside],
    targets: Sequence[str],
    drafts: Sequence[str | None],
    front: set[int],
) -> None:
    axes.set_ylabel(up.name)
    # The front last, so that it lies on top.
    for one in sorted(cells, key=lambda one: id(one) in front):
        height = up.of(one)
        if height is None:
            continue
        rate, color = _best(one), SERIES[targets.index(one.cell.target) % len(SERIES)]
        if rate.low is not None and rate.high is not None:
            axes.plot([rate.low, rate.high], [height, height], color=color, linewidth=0.9, alpha=0.6)
        axes.plot(
            [rate.value],
            [height],
            MARKERS[drafts.index(one.cell.draft) % len(MARKERS)],
            color=color,
            markerfacecolor=color if one.is_measured else "none",
            markeredgewidth=1.5,
            markersize=9 if id(one) in front else 6,
        )
    axes.margins(y=0.15)
    if up.less:
        axes.invert_yaxis()


def _legend(targets: Sequence[str], drafts: Sequence[str | None]) -> list[tuple[str, dict[str, object]]]:
    found: list[tuple[str, dict[str, object]]] = [
        (label(name, 20), {"color": SERIES[place % len(SERIES)], "linewidth": 4}) for place, name in enumerate(targets)
    ]
    for place, draft in enumerate(drafts):
        shape = {"color": MUTED, "marker": MARKERS[place % len(MARKERS)], "linewidth": 0, "markeredgecolor": INK}
        found.append((label(draft or "no draft", 20), shape))
    return found


def _row(one: Beside, found: GridReport, front: bool) -> tuple[str, ...]:
    scores = [None if (change := one.quality.get(name)) is None else change.value for name in found.evals]
    return (
        one.cell.label,
        ratio(_best(one).value),
        "measured" if one.is_measured else "forecast",
        size(one.cell.bytes),
        *(points(score, binary) for score, binary in zip(scores, found.evals.values(), strict=True)),
        "yes" if front else NOTHING,
    )
