"""The lab's pictures: the two halves and the first token's time over length, what the cache saves, and batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from specq.lab.batching import Batch
from specq.lab.context import Context
from specq.lab.halves import Halves
from specq.lab.prompt_cache import Cache
from specq.lab.rows import Spread
from specq.report.charts_canvas import BAND, INK, MUTED, SERIES, Chart, chart, rows_axes, rows_height
from specq.report.words import NOTHING, milliseconds, number, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 220


def halves(found: Halves) -> Chart:
    """Prefill and decode tokens/s over the prompt's length, on a scale of powers: they are far apart."""
    lengths = [cell.prompt_tokens for cell in found.cells]
    decode = [(cell.prompt_tokens, cell.decode_tokens_per_s) for cell in found.cells]

    def paint(figure: Figure) -> None:
        axes = _over_length(figure, "tokens/s")
        _curve(axes, lengths, [cell.prefill_tokens_per_s for cell in found.cells], 0, "prefill")
        there = [(length, one) for length, one in decode if one is not None]
        _curve(axes, [length for length, _ in there], [one for _, one in there], 1, "decode")
        _powers(axes)
        figure.legend(loc="outside lower center", ncols=2, handlelength=1.8)

    rows = [
        (f"{cell.prompt_tokens:,.0f}", _told(cell.prefill_tokens_per_s), _told(cell.decode_tokens_per_s))
        for cell in found.cells
    ]
    return chart(
        "halves",
        "The two halves of a request",
        "Tokens a second by prompt length.",
        _HEIGHT,
        paint,
        columns=("prompt tokens", "prefill, tokens/s", "decode, tokens/s"),
        rows=rows,
        lines=["Bars go from the least to the greatest of the repeats."],
    )


def first_token(found: Halves | None, deep: Context | None) -> Chart | None:
    """The time to the first token over the prompt's length, with the line that the additive model draws."""
    if found is not None:
        points = [(cell.prompt_tokens, cell.ttft_s) for cell in found.cells]
    elif deep is not None:
        points = [(depth.prompt_tokens, depth.ttft_s) for depth in deep.depths]
    else:
        return None
    model = None if found is None else found.model
    lengths = [length for length, _ in points]
    shares = {} if deep is None else {d.prompt_tokens: d.ttft_share.median for d in deep.depths if d.ttft_share}

    def paint(figure: Figure) -> None:
        axes = _over_length(figure, "time to first token, ms")
        if model is not None:
            line = [1000 * model.e2e_s(length, 1) for length in (lengths[0], lengths[-1])]
            axes.plot([lengths[0], lengths[-1]], line, color=MUTED, linewidth=1, label="additive model")
        scaled = [
            Spread(median=1000 * one.median, low=1000 * one.low, high=1000 * one.high, n=one.n) for _, one in points
        ]
        _curve(axes, lengths, scaled, 0, "measured")
        axes.set_ylim(bottom=0)
        figure.legend(loc="outside lower center", ncols=2, handlelength=1.8)

    rows = [
        (
            f"{length:,.0f}",
            milliseconds(one.median),
            milliseconds(one.low),
            milliseconds(one.high),
            share(shares.get(length)),
        )
        for length, one in points
    ]
    return chart(
        "ttft",
        "The first token over the length of the prompt",
        "Milliseconds to the first token by prompt length.",
        _HEIGHT,
        paint,
        columns=("prompt tokens", "first token, ms", "least", "greatest", "share of the request"),
        rows=rows,
        lines=["Where the points leave the line, reading a token costs more the longer the prompt is."]
        if model
        else [],
    )


def cache(found: Cache) -> Chart:
    """The time to the first token of each case, with the share of its prompt that came from the cache."""

    def paint(figure: Figure) -> None:
        axes = rows_axes(figure, [case.name for case in found.cases])
        widths = [1000 * case.ttft_s.median for case in found.cases]
        axes.barh(range(len(widths)), widths, 0.62, color=SERIES[0])
        for row, case in enumerate(found.cases):
            ends = [1000 * case.ttft_s.low, 1000 * case.ttft_s.high]
            axes.plot(ends, [row, row], color=INK, linewidth=1.2)
            axes.text(max(ends), row, f"  {share(case.rate.share)} cached", va="center", fontsize=9)
        axes.set_xlim(0, 1.4 * max(1000 * case.ttft_s.high for case in found.cases))
        axes.set_xlabel("time to first token, ms")

    rows = [
        (case.name, milliseconds(case.ttft_s.median), share(case.rate.share), share(case.possible))
        for case in found.cases
    ]
    return chart(
        "cache",
        "What a prefix cache saves, and what breaks it",
        "Milliseconds to the first token of the second request.",
        rows_height(len(found.cases)),
        paint,
        columns=("second request", "first token, ms", "cached", "at most"),
        rows=rows,
        lines=["A hit is no sign of a good answer. Lines go from the least to the greatest of the repeats."],
    )


def batch(found: Batch) -> Chart:
    """Tokens a second of all requests over the batch, beside what as many times one row would be."""
    sizes = [point.batch for point in found.points]
    alone = found.points[0].tokens_per_s.median

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        if found.free_until > sizes[0]:
            axes.axvspan(sizes[0], found.free_until, color=BAND, linewidth=0, label="decoding is free")
        axes.plot(sizes, [size * alone for size in sizes], color=MUTED, linewidth=1, label="batch x one row")
        _curve(axes, sizes, [point.tokens_per_s for point in found.points], 0, "measured")
        axes.grid(axis="y")
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("requests at once")
        axes.set_ylabel("tokens/s of all")
        figure.legend(loc="outside lower center", ncols=3, handlelength=1.4, columnspacing=1.0)

    rows = [
        (
            str(point.batch),
            _told(point.tokens_per_s),
            milliseconds(point.tpot_s.median),
            milliseconds(point.e2e_s.median),
        )
        for point in found.points
    ]
    return chart(
        "batch",
        "What a batch brings and costs",
        "Tokens a second of all requests together by batch.",
        _HEIGHT,
        paint,
        columns=("batch", "tokens/s of all", "a token of each, ms", "request, ms"),
        rows=rows,
    )


def _powers(axes: Axes) -> None:
    """A scale of powers with plain numbers on it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:,g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _over_length(figure: Figure, what: str) -> Axes:
    axes = figure.add_subplot()
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.set_xlabel("prompt tokens")
    axes.set_ylabel(what)
    return axes


def _curve(axes: Axes, places: Sequence[float], values: Sequence[Spread], series: int, name: str) -> None:
    """Medians with a bar from the least to the greatest."""
    medians = [one.median for one in values]
    ends = [[one.median - one.low for one in values], [one.high - one.median for one in values]]
    how: dict[str, Any] = {"color": SERIES[series], "linewidth": 1.8, "marker": "os"[series], "markersize": 4.5}
    axes.errorbar(places, medians, yerr=ends, capsize=2, elinewidth=1, label=name, **how)


def _told(value: Spread | None) -> str:
    return NOTHING if value is None else number(value.median)
