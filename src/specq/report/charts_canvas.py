"""Draws a chart to inline SVG: text stays text, colours are the page's variables, equal numbers give equal bytes."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from specq.report.page_text import CELL, LINE, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# As wide as a phone, so that text keeps its size there.
WIDTH = 360
ROW = 26
# Beyond this a picture says less than its table.
MOST_ROWS = 24
# A colour that the SVG names is a stand-in for the page's variable, which dark mode changes.
INK, MUTED, GRID, BAND, BAD, GOOD = (f"#0f00{place:02x}" for place in range(1, 7))
SERIES = tuple(f"#0f01{place:02x}" for place in range(1, 7))
_VARIABLES = {
    **dict(zip((INK, MUTED, GRID, BAND, BAD, GOOD), ("ink", "muted", "grid", "band", "bad", "good"), strict=True)),
    **{color: f"s{place}" for place, color in enumerate(SERIES, start=1)},
}
MARKERS = ("o", "s", "^", "D", "v", "P")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "specq",
    # A dollar sign in a name is no formula.
    "text.parse_math": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "figure.facecolor": "none",
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "xtick.color": GRID,
    "xtick.labelcolor": INK,
    "ytick.color": GRID,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 10,
}
_DROPPED = ("metadata", "style")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture with what it shows in words and in numbers.

    `said` is read out where the picture cannot be seen, `lines` tell how to read it, `columns` and `rows` hold its
    numbers, which are `open` where no other table has them. `svg` is markup; everything else is plain text, not
    escaped.
    """

    name: str
    title: str
    said: str
    svg: str
    lines: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    open: bool = False


def draw(name: str, title: str, said: str, height: int, paint: Callable[[Figure], None]) -> str:
    """The picture that `paint` makes, as an svg element whose ids begin with `name`."""
    import matplotlib
    from matplotlib.figure import Figure

    # Whatever the reader's own settings are, the picture is the same.
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
        paint(figure)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return _inline(drawn.getvalue(), name, title, said)


def chart(
    name: str,
    title: str,
    lead: str,
    height: int,
    paint: Callable[[Figure], None],
    *,
    columns: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    lines: Sequence[str] = (),
) -> Chart:
    """A picture whose words are `lead` and then its numbers."""
    said = " ".join((lead, *said_of(rows, columns)))
    svg = draw(name, title, said, height, paint)
    return Chart(name=name, title=title, said=said, svg=svg, lines=tuple(lines), columns=columns, rows=tuple(rows))


def rows_axes(figure: Figure, names: Sequence[str]) -> Axes:
    """Axes with one named row for each of `names`, the first on top."""
    axes = figure.add_subplot()
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    return axes


def rows_height(count: int, *, legend: int = 0) -> int:
    """The height of a picture with that many rows and lines of legend."""
    return 52 + ROW * count + 16 * legend


def _inline(document: str, name: str, title: str, said: str) -> str:
    root = ElementTree.fromstring(document)
    _clean(root, name)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"{name}-title {name}-said"}
    root.insert(0, _element("title", f"{name}-title", label(title, CELL)))
    root.insert(1, _element("desc", f"{name}-said", label(said, LINE)))
    return ElementTree.tostring(root, encoding="unicode")


def _clean(element: ElementTree.Element, name: str) -> None:
    """Leave namespaces, metadata and styles of the whole page out; make ids this picture's own."""
    element.tag = _bare(element.tag)
    element.attrib = {_bare(key): _attribute(_bare(key), value, name) for key, value in element.attrib.items()}
    element.tail = None
    for child in list(element):
        if _bare(child.tag) in _DROPPED:
            element.remove(child)
        else:
            _clean(child, name)
    if len(element):
        element.text = None


def _bare(name: str) -> str:
    return name.rpartition("}")[2]


def _attribute(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return value.replace("#", f"#{name}-")
    value = re.sub(r"url\(#", f"url(#{name}-", value)
    value = re.sub(r"(font: [^;]*?px )[^;]*", r"\1var(--font)", value)
    return re.sub(r"#0f0[01][0-9a-f]{2}", lambda found: f"var(--{_VARIABLES[found[0]]})", value)


def _element(tag: str, ident: str, text: str) -> ElementTree.Element:
    made = ElementTree.Element(tag, {"id": ident})
    made.text = text
    return made


def interval_line(axes: Axes, row: float, low: float | None, high: float | None, *, color: str, width: float) -> None:
    """A horizontal line from low to high, nothing where the interval is not known.

    Set the limits before: an end beyond them is marked by an arrow.
    """
    if low is None or high is None:
        return
    left, right = axes.get_xlim()
    axes.plot([max(low, left), min(high, right)], [row, row], solid_capstyle="butt", color=color, linewidth=width)
    for beyond, edge, arrow in ((low < left, left, "<"), (high > right, right, ">")):
        if beyond:
            axes.plot([edge], [row], arrow, color=color, markersize=6, clip_on=False)


def limits(values: Sequence[float], ends: Sequence[float | None]) -> tuple[float, float]:
    """From where to where an axis goes: all values, and the ends of intervals as far as they leave the values apart."""
    low, high = min(values), max(values)
    room = 1.5 * ((high - low) or abs(high) or 1.0)
    known = [end for end in ends if end is not None]
    left, right = max(min([low, *known]), low - room), min(max([high, *known]), high + room)
    spare = 0.06 * ((right - left) or 1.0)
    return left - spare, right + spare


def said_of(rows: Sequence[Sequence[str]], columns: Sequence[str]) -> Iterator[str]:
    """The rows of a chart's numbers as sentences, for whoever cannot see it."""
    for row in rows[:MOST_ROWS]:
        cells = (f"{column} {cell}" for column, cell in zip(columns[1:], row[1:], strict=True) if cell != "-")
        yield f"{row[0]}: {', '.join(cells)}."
