"""The pictures of a load run: throughput against latency with the floor drawn in, and ratios along the levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specq.core.nouns import listed
from specq.load.found import Found, Level
from specq.load.measures import Spread
from specq.report.charts_canvas import BAD, INK, MARKERS, MUTED, SERIES, Chart, chart
from specq.report.page_text import label
from specq.report.words import NOTHING, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 260
_LATENCIES = (
    ("ttft", "Time to the first token", "ttft_s", "s", 1.0),
    ("tpot", "Time a token", "tpot_s", "ms", 1000.0),
    ("e2e", "Whole requests", "e2e_s", "s", 1.0),
)


def pictures(found: Found) -> tuple[Chart, ...]:
    """The charts of a run that has levels."""
    if not found.levels:
        return ()
    curves = [_curve(found, *one) for one in _LATENCIES]
    ratios = _ratios(found)
    return tuple(one for one in (*curves, ratios, _pauses(found)) if one is not None)


def _curve(found: Found, name: str, title: str, what: str, unit: str, scale: float) -> Chart | None:
    """A latency over the throughput it was found at: the median, and p95 where there are requests enough."""
    told = [one for one in found.levels if getattr(one.latency, what).p50 is not None]
    if not told:
        return None
    told_floors = {which: found.asked.floors.get(f"{what}_{which}") for which in ("p95", "p99")}
    floors = {which: limit for which, limit in told_floors.items() if limit is not None}

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.grid()
        axes.set_axisbelow(True)
        servers = list(dict.fromkeys(one.server for one in told))
        for place, server in enumerate(servers):
            of = [one for one in told if one.server == server]
            named = f"{label(server)}, " if len(servers) > 1 else ""
            color, marker = SERIES[place % len(SERIES)], MARKERS[place % len(MARKERS)]
            _line(axes, of, what, "p50", scale, color, marker, f"{named}p50")
            for which in dict.fromkeys(("p95", *floors)):
                _line(axes, of, what, which, scale, color, marker, f"{named}{which}")
            _knee(axes, found, of, what, scale, color)
        for which, limit in floors.items():
            style = "--" if which == "p95" else "-."
            axes.axhline(limit * scale, color=BAD, linewidth=1.4, linestyle=style, label=f"floor of {which}")
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.set_xlabel("tokens/s")
        axes.set_ylabel(unit)
        figure.legend(loc="outside lower center", ncols=2)

    columns = (found.asked.unit, "tokens/s", *(f"{which}, {unit}" for which in ("p50", "p95", "p99")))
    rows = [_row(found, one, getattr(one.latency, what), scale) for one in told]
    lines = [f"Each point is a level of {found.asked.unit}; a ring marks the knee."]
    limits = listed([f"{which} of at most {limit * scale:g} {unit}" for which, limit in floors.items()])
    if floors:
        lines.append(f"Broken lines are the floor: {limits}.")
    lead = f"Latency over throughput; the floor is {limits}." if floors else "Latency over throughput."
    height = HEIGHT + 16 * len({one.server for one in told})
    return chart(
        f"load-{name}", f"{title} over throughput", lead, height, paint, columns=columns, rows=rows, lines=lines
    )


def _row(found: Found, one: Level, latency: Spread, scale: float) -> tuple[str, ...]:
    name = f"{one.server} {one.level:g}" if len(found.asked.servers) > 1 else f"{one.level:g}"
    values = (latency.p50, latency.p95, latency.p99)
    return (name, number(one.rates.tokens_per_s), *(number(None if one is None else one * scale) for one in values))


def _line(
    axes: Axes, of: Sequence[Level], what: str, which: str, scale: float, color: str, marker: str, name: str
) -> None:
    spots = [(one, value) for one in of if (value := getattr(getattr(one.latency, what), which)) is not None]
    if not spots:
        return
    median = which == "p50"
    xs, ys = [one.rates.tokens_per_s for one, _ in spots], [value * scale for _, value in spots]
    axes.plot(
        xs,
        ys,
        marker=marker,
        color=color,
        linestyle={"p50": "-", "p95": ":", "p99": "-."}[which],
        markerfacecolor=color if median else "none",
        markersize=5,
        linewidth=1.4,
        label=name,
    )
    if median:
        for (one, _), x, y in zip(spots, xs, ys, strict=True):
            axes.annotate(f"{one.level:g}", (x, y), xytext=(4, -10), textcoords="offset points", color=INK, fontsize=8)


def _knee(axes: Axes, found: Found, of: Sequence[Level], what: str, scale: float, color: str) -> None:
    knee = found.knees.get(of[0].server)
    spot = None if knee is None else next((one for one in of if one.level == knee.level), None)
    if spot is not None:
        y = getattr(spot.latency, what).p50 * scale
        axes.plot([spot.rates.tokens_per_s], [y], "o", color=color, markerfacecolor="none", markersize=13)


def _ratios(found: Found) -> Chart | None:
    """The other servers' speed-up along the levels, with intervals."""
    told = [one for one in found.ratios if one.speedup is not None]
    if not told:
        return None
    base = found.asked.servers[0].name

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.grid()
        axes.set_axisbelow(True)
        axes.axhline(1, color=MUTED, linewidth=1.2)
        for place, server in enumerate(dict.fromkeys(one.server for one in told)):
            color = SERIES[(place + 1) % len(SERIES)]
            for name, what, style in (("time a token", "speedup", "-"), ("tokens/s", "throughput", ":")):
                spots = [(one.level, getattr(one, what)) for one in told if one.server == server]
                known = [(level, of) for level, of in spots if of is not None]
                xs, ys = [level for level, _ in known], [of.value for _, of in known]
                axes.plot(xs, ys, style, marker="o", markersize=4, color=color, label=f"{label(server)}, {name}")
                if what == "speedup":
                    for level, of in known:
                        if of.low is not None and of.high is not None:
                            axes.plot([level, level], [of.low, of.high], color=color, linewidth=1.4)
        axes.set_xscale("log", base=2)
        levels = sorted({one.level for one in told})
        axes.set_xticks(levels, [f"{level:g}" for level in levels])
        axes.minorticks_off()
        axes.set_xlabel(found.asked.unit)
        axes.set_ylabel(f"times {label(base)}")
        figure.legend(loc="outside lower center", ncols=1)

    rows = []
    for one in told:
        shown = []
        for each in (one.speedup, one.throughput):
            shown += [NOTHING if each is None else f"{each.value:.2f}"]
            known = each is not None and each.low is not None and each.high is not None
            shown += [f"{each.low:.2f} to {each.high:.2f}" if known else NOTHING]  # type: ignore[union-attr]
        rows.append((f"{one.server} {one.level:g}", *shown))
    columns = (found.asked.unit, "time a token", "95 % interval", "tokens/s", "95 % interval")
    lines = (f"Above 1 is faster than {base}. Vertical lines are intervals over prompts.",)
    title = f"Speed-up over {base} along the levels"
    return chart("load-ratio", title, f"Ratios over {base}.", HEIGHT, paint, columns=columns, rows=rows, lines=lines)


def _pauses(found: Found) -> Chart | None:
    """p99 of the gaps before, during and after long prompts; p50 of all where one has too few gaps for it."""
    told = [one for one in found.levels if one.pauses is not None]
    if not told:
        return None
    names = ("before", "during", "after")
    spreads: list[Spread] = [getattr(one.pauses, name) for one in told for name in names]
    # One picture has one quantile: a p50 beside a p99 looks like a pause that went away.
    which = "p99" if all(of.p99 is not None for of in spreads if of.n) else "p50"

    def gaps(one: Level, name: str) -> float | None:
        found: float | None = getattr(getattr(one.pauses, name), which)
        return None if found is None else 1000 * found

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        for place, one in enumerate(told):
            color = SERIES[place % len(SERIES)]
            at = [third + 0.8 * (place + 0.5) / len(told) - 0.4 for third in range(len(names))]
            named = f"{label(one.server)} {one.level:g}"
            axes.bar(at, [gaps(one, name) or 0.0 for name in names], width=0.8 / len(told), color=color, label=named)
        axes.set_xticks(range(len(names)), names)
        axes.set_ylabel("ms")
        figure.legend(loc="outside lower center", ncols=2)

    rows = [(f"{one.server} {one.level:g}", *(number(gaps(one, name)) for name in names)) for one in told]
    return chart(
        "load-gaps",
        "Gaps between tokens around long prompts",
        f"{which} of the gaps in milliseconds.",
        HEIGHT,
        paint,
        columns=(found.asked.unit, *names),
        rows=rows,
        lines=(f"{which} of the gaps; p50 of all where one of them has fewer than 100 gaps.",),
    )
