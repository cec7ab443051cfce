"""The pictures of the front: one for each thing that speed is weighed against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specq.report.charts_canvas import BAD, GRID, INK, MUTED, SERIES, WIDTH, Chart, draw, limits
from specq.report.charts_front import Front, Placed, Spot, shown
from specq.report.page_text import label
from specq.report.words import NOTHING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Box = tuple[float, float, float, float]
HEIGHT = 250
# With more arms than this only the front and the baseline are named, and drawn with their intervals.
NAMED = 10
# Points of room that a letter of a name takes, about; and where a name may stand beside its point.
_LETTER, _LINE = 5.6, 11
_PLACES = (
    *((6, 9), (6, -9), (-6, 9), (-6, -9), (0, 11), (0, -11)),
    *((8, 20), (8, -20), (-8, 20), (-8, -20), (9, 0), (-9, 0), (0, 31), (0, -31)),
)


def pictures(found: Front | None) -> tuple[Chart, ...]:
    """One picture for each axis against speed; the last carries the numbers of all."""
    if found is None:
        return ()
    last = len(found.axes) - 1
    return tuple(_picture(found, place, numbers=place == last) for place in range(1, last + 1))


def _picture(found: Front, place: int, *, numbers: bool) -> Chart:
    right, up = found.axes[0], found.axes[place]
    named = [one for one in found.placed if len(found.placed) <= NAMED or one.baseline or not one.beaten_by]

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.grid()
        axes.set_axisbelow(True)
        axes.set_xlim(_range([one.spots[0] for one in found.placed]))
        axes.set_ylim(_range([one.spots[place] for one in found.placed]))
        for one in found.placed:
            _point(axes, one, one.spots[0], one.spots[place], intervals=one in named)
        axes.set_xlabel(f"{right.title}, {right.unit}")
        axes.set_ylabel(f"{up.title}, {up.unit}" + (", less is up" if up.sign < 0 else ""))
        if up.sign < 0:
            axes.invert_yaxis()
        # Names are placed once the axes stand where they will be.
        figure.draw_without_rendering()
        _name(axes, named, [(one.spots[0].value, one.spots[place].value) for one in found.placed], place)

    name, title = f"front-{place}", f"{up.title[0].upper()}{up.title[1:]} against speed"
    said = " ".join(
        f"{one.arm.label}: {shown(right, one.spots[0])} times, {shown(up, one.spots[place])}, "
        f"{'behind another arm' if one.beaten_by else 'on the front'}."
        for one in found.placed
    )
    svg = draw(name, title, said, HEIGHT, paint)
    if not numbers:
        return Chart(name=name, title=title, said=said, svg=svg)
    columns = ("arm", *(axis.title for axis in found.axes), "verdict", "front")
    rows = tuple(_row(found, one) for one in found.placed)
    lines = _lines(found, len(named))
    return Chart(name=name, title=title, said=said, svg=svg, lines=lines, columns=columns, rows=rows, open=True)


def _lines(found: Front, named: int) -> tuple[str, ...]:
    lines = [
        "Filled: on the front, for no other arm is at least as good in everything and better in something. Hollow: "
        "behind another arm. Red: rejected, whatever it is ahead in. Square: the baseline. Up and right is better.",
        "What counts are the numbers as measured. Thin lines are their intervals, cut at the frame: arms whose lines "
        "overlap may well stand the other way round.",
    ]
    if named < len(found.placed):
        lines.append(f"Of {len(found.placed)} arms the front and the baseline are named; the table has all.")
    return (*lines, *found.left_out)


def _row(found: Front, one: Placed) -> tuple[str, ...]:
    cells = (shown(axis, spot) for axis, spot in zip(found.axes, one.spots, strict=True))
    behind = ", ".join(one.beaten_by[:2]) + (f" and {len(one.beaten_by) - 2} more" if len(one.beaten_by) > 2 else "")
    verdict = one.arm.verdict.kind if one.arm.verdict is not None else NOTHING
    return (one.arm.label, *cells, verdict, f"behind {behind}" if behind else "on it")


def _range(spots: Sequence[Spot]) -> tuple[float, float]:
    low, high = limits([spot.value for spot in spots], [end for spot in spots for end in (spot.low, spot.high)])
    # Names need room beside the outermost points.
    spare = 0.1 * (high - low)
    return low - spare, high + spare


def _point(axes: Axes, one: Placed, x: Spot, y: Spot, *, intervals: bool) -> None:
    color = _color(one, SERIES[0])
    if intervals and x.low is not None and x.high is not None:
        axes.plot([x.low, x.high], [y.value, y.value], color=color, linewidth=0.9, alpha=0.6)
    if intervals and y.low is not None and y.high is not None:
        axes.plot([x.value, x.value], [y.low, y.high], color=color, linewidth=0.9, alpha=0.6)
    fill = "none" if one.beaten_by else color
    shape = "s" if one.baseline else "o"
    axes.plot([x.value], [y.value], shape, color=color, markerfacecolor=fill, markersize=7, markeredgewidth=1.5)


def _color(one: Placed, front: str) -> str:
    if one.beaten_by:
        return MUTED
    return BAD if one.rejected else front


def _name(axes: Axes, named: Sequence[Placed], points: Sequence[tuple[float, float]], place: int) -> None:
    """Write names beside their points, each where it hides no other name or point, or the fewest."""
    to_points = 72 / axes.figure.dpi

    def spot(x: float, y: float) -> tuple[float, float]:
        across, above = axes.transData.transform((x, y)) * to_points
        return float(across), float(above)

    taken: list[Box] = [(x - 5, y - 5, x + 5, y + 5) for x, y in (spot(*point) for point in points)]
    for one in named:
        name = "baseline" if one.baseline else label(one.arm.label, 16)
        at = (one.spots[0].value, one.spots[place].value)
        boxes = [_box(spot(*at), name, offset) for offset in _PLACES]
        costs = [sum(_overlap(box, other) for other in taken) + _outside(box) for box in boxes]
        best = costs.index(min(costs))
        taken.append(boxes[best])
        across, above = _PLACES[best]
        far = {"arrowstyle": "-", "color": GRID, "linewidth": 0.8} if abs(above) > 15 else None
        axes.annotate(
            name,
            at,
            (across, above),
            textcoords="offset points",
            ha="left" if across > 0 else "right" if across < 0 else "center",
            va="center",
            fontsize=9,
            color=_color(one, INK),
            arrowprops=far,
            annotation_clip=False,
        ).set_in_layout(False)


def _box(spot: tuple[float, float], name: str, offset: tuple[int, int]) -> Box:
    wide = _LETTER * len(name)
    left = spot[0] + offset[0] - (0 if offset[0] > 0 else wide if offset[0] < 0 else wide / 2)
    bottom = spot[1] + offset[1] - _LINE / 2
    return (left, bottom, left + wide, bottom + _LINE)


def _overlap(one: Box, other: Box) -> float:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return wide * high if wide > 0 and high > 0 else 0.0


def _outside(box: Box) -> float:
    """What standing outside the picture costs, more than hiding a name."""
    return 2 * _LINE * (max(0.0, 4 - box[0]) + max(0.0, box[2] - WIDTH + 4)) + 50 * max(0.0, box[3] - HEIGHT)
