"""The charts of a report: speed-ups, where the time of a token goes, how far drafts survive, what quality costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from specq.report.assemble import ArmReport, Report
from specq.report.charts_canvas import (
    BAD,
    BAND,
    INK,
    MARKERS,
    MOST_ROWS,
    MUTED,
    SERIES,
    Chart,
    chart,
    interval_line,
    limits,
    rows_axes,
    rows_height,
)
from specq.report.charts_front import SPEEDUPS, objective_speedup
from specq.report.evals import ArmQuality, EvalReport, Slice
from specq.report.guards import NOISE, PROBED
from specq.report.measures import PARTS, Measure
from specq.report.page_text import label
from specq.report.section import measured
from specq.report.words import NOTHING, interval, milliseconds, ratio, signed, span

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def speedups(report: Report) -> Chart | None:
    """Both speed-ups of every compared arm, with the range that the baseline shows against itself."""
    arms = [arm for arm in report.arms if arm.verdict is not None and measured(arm, "speedup").value is not None]
    if not arms:
        return None
    shown = arms[:MOST_ROWS]
    null = {measure.name: measure for measure in report.null}
    objective = objective_speedup(report)
    band = null.get(objective)

    def paint(figure: Figure) -> None:
        axes = rows_axes(figure, [label(arm.label) for arm in shown])
        found = [*report.null, *(measured(arm, name) for arm in shown for name in SPEEDUPS)]
        values = [1.0, *(one.value for one in found if one.value is not None)]
        axes.set_xlim(limits(values, [end for one in found for end in (one.low, one.high)]))
        if band is not None and band.low is not None and band.high is not None:
            axes.axvspan(band.low, band.high, color=BAND, linewidth=0, label="baseline against itself")
        axes.axvline(1, color=MUTED, linewidth=1)
        for name, color, marker, up in (("speedup", SERIES[0], "o", -0.14), ("e2e_speedup", SERIES[1], "D", 0.14)):
            for row, arm in enumerate(shown):
                one = measured(arm, name)
                if one.value is None:
                    continue
                interval_line(axes, row + up, one.low, one.high, color=color, width=2)
                axes.plot([one.value], [row + up], marker, color=color, markersize=5, label="" if row else name)
        axes.set_xlabel("times as fast as the baseline")
        figure.legend(loc="outside lower center", ncols=3, handlelength=1.4, columnspacing=1.2)

    columns = ("arm", "speedup", "95 % interval", "e2e_speedup", "95 % interval")
    rows = [_ratios(arm.label, [measured(arm, name) for name in SPEEDUPS]) for arm in arms]
    if null:
        nothing = Measure(name="", unit="", value=None)
        rows.insert(0, _ratios("baseline against itself", [null.get(name, nothing) for name in SPEEDUPS]))
    lines = ["Lines are 95 % intervals over prompts; an arrow: it goes on."]
    if band is not None and band.low is not None:
        lines[0] += f" The band is what {objective} shows without any difference."
    return chart(
        "speedups",
        "Speed-ups with their intervals",
        "Right of 1 is faster.",
        rows_height(len(shown), legend=1),
        paint,
        columns=columns,
        rows=rows,
        lines=[*lines, *_left_out(arms)],
    )


def token_time(report: Report) -> Chart | None:
    """Where the decode time of a token goes, as stacked bars."""
    arms = [arm for arm in report.arms if "step_verify_s" in arm.measures and measured(arm, "tokens_per_step").value]
    if not arms:
        return None
    parts = (*PARTS, "outside")
    seconds = {arm.id: [_a_token(arm, part) for part in parts] for arm in arms}
    shown = arms[:MOST_ROWS]

    def paint(figure: Figure) -> None:
        axes = rows_axes(figure, [label(arm.label) for arm in shown])
        left = [0.0] * len(shown)
        for place, part in enumerate(parts):
            widths = [1000 * seconds[arm.id][place] for arm in shown]
            if any(widths):
                axes.barh(range(len(shown)), widths, 0.62, left, color=SERIES[place], label=part)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set_xlim(0, 1.04 * max(left) or 1)
        axes.set_xlabel("milliseconds a token")
        figure.legend(loc="outside lower center", ncols=5, handlelength=0.9, handletextpad=0.5, columnspacing=1.1)

    columns = ("arm", *parts, "together")
    rows = [(arm.label, *(_ms(part) for part in seconds[arm.id]), milliseconds(sum(seconds[arm.id]))) for arm in arms]
    lines = ["Decode time over the tokens that it emitted: a step's parts over tokens_per_step, in milliseconds."]
    return chart(
        "token-time",
        "Where the time of a token goes",
        "Milliseconds a token.",
        rows_height(len(shown), legend=1),
        paint,
        columns=columns,
        rows=rows,
        lines=[*lines, *_left_out(arms)],
    )


def survival(report: Report) -> Chart | None:
    """The share of steps whose first j proposals were all accepted, one curve a draft."""
    curves = {arm.id: _survival(arm) for arm in report.arms}
    arms = [arm for arm in report.arms if curves[arm.id]]
    if not arms:
        return None
    # A picture of more curves than colours cannot be read.
    shown, longest = arms[: len(SERIES)], max(map(len, curves.values()))

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for place, arm in enumerate(shown):
            values = [1.0, *curves[arm.id]]
            (curve,) = axes.plot(range(len(values)), values, color=SERIES[place], linewidth=1.8, label=label(arm.label))
            curve.set(marker=MARKERS[place], markersize=4.5)
        axes.set_ylim(-0.02, 1.04)
        axes.grid(axis="y")
        axes.set_xticks(range(0, longest + 1, 1 + longest // 12))
        axes.set_xlabel("place in the proposal")
        axes.set_ylabel("steps that accepted all up to it")
        figure.legend(loc="outside lower center", ncols=2, handlelength=1.8)

    columns = ("arm", *map(str, range(1, longest + 1)))
    rows = [
        (arm.label, *(ratio(value) for value in found), *[NOTHING] * (longest - len(found)))
        for arm in arms
        for found in [curves[arm.id]]
    ]
    lines = [f"Drawn are the first {len(shown)} of {len(arms)} drafts."] if len(arms) > len(shown) else []
    return chart(
        "survival",
        "How far drafts survive",
        "Share of steps that accepted all proposals up to each place.",
        200 + 16 * ((len(shown) + 1) // 2),
        paint,
        columns=columns,
        rows=rows,
        lines=lines,
    )


def quality(report: EvalReport, name: str) -> Chart | None:
    """The change of every arm on an eval with its intervals, against the floor's margins; noise floor and probe too.

    `name` is what the picture's ids begin with.
    """
    judged = _judged(report)
    if not judged:
        return None
    scale = 100 if report.binary else 1
    shown = judged[:MOST_ROWS]

    def paint(figure: Figure) -> None:
        axes = rows_axes(figure, [label(title) for title, _ in shown])
        values = [0.0, *(scale * part.change.value for _, part in shown)]
        values += [-scale * part.margin for _, part in shown if part.margin is not None]
        axes.set_xlim(limits(values, [scale * end for _, part in shown for end in (part.change.low, part.change.high)]))
        axes.axvline(0, color=MUTED, linewidth=1)
        margins = []
        for row, (_, part) in enumerate(shown):
            change = part.change
            whole = (scale * change.low, scale * change.high)
            interval_line(axes, row, *whole, color=SERIES[0], width=1.2)
            decide = (scale * change.low_one_sided, scale * change.high_one_sided)
            interval_line(axes, row, *decide, color=SERIES[0], width=4)
            axes.plot([scale * change.value], [row], "o", color=INK, markersize=5)
            if part.margin is not None:
                margins.append((row, -scale * part.margin))
        for place, (row, margin) in enumerate(margins):
            said = "" if place else "floor"
            axes.plot([margin, margin], [row - 0.42, row + 0.42], color=BAD, linewidth=2, label=said)
        axes.set_xlabel("change, points" if report.binary else f"change of {label(report.metric)}")
        if margins:
            figure.legend(loc="outside lower center", handlelength=1.4)

    columns = ("arm", "change", "95 % interval", "at worst", "at best", "floor")
    rows = [(title, *_change(part, report.binary)) for title, part in judged]
    lines = [
        "Arm less baseline on the same items. Thin: 95 % interval. Thick: from at worst to at best, the one-sided 95 % "
        "bounds that decide: wholly right of the floor is within it, wholly left of it is a breach."
    ]
    lines += [f"Drawn are the first {len(shown)} of {len(judged)} rows."] if len(judged) > len(shown) else []
    guards = [(guard, report.unmeasured[guard]) for guard in (NOISE, PROBED) if guard in report.unmeasured]
    lines += [f"The {guard} is not drawn, for it was not measured: {why}." for guard, why in guards]
    lines += [f"{one.label} is not drawn: its answers are the baseline's own." for one in report.arms if one.proved]
    lines += [f"{one.label} is not drawn: nothing of it can be compared." for one in report.arms if one.all is None]
    return chart(
        name,
        f"Quality on {label(report.name, 60)}: change from the baseline",
        "Right of 0 is better.",
        rows_height(len(shown), legend=1),
        paint,
        columns=columns,
        rows=rows,
        lines=lines,
    )


def _judged(report: EvalReport) -> list[tuple[str, Slice]]:
    """Every comparison that is drawn: an arm on all items and on each tag with a margin, the noise floor, the probe."""
    found = []
    for one in report.arms:
        for part in one.slices if not one.proved else ():
            if part.tag is None:
                found.append((one.label, part))
            elif part.margin is not None:
                found.append((f"{one.label} on {part.tag}", part))
    others: tuple[tuple[str, ArmQuality | None], ...] = (("noise floor", report.noise), ("probe", report.probe))
    # The floor asks nothing of these two.
    return found + [
        (title, replace(one.all, margin=None)) for title, one in others if one is not None and one.all is not None
    ]


def _change(part: Slice, binary: bool) -> tuple[str, ...]:
    change = part.change
    ends = (signed(change.low_one_sided, binary), signed(change.high_one_sided, binary))
    floor = NOTHING if part.margin is None else signed(-part.margin, binary)
    return (signed(change.value, binary), span(change.low, change.high, binary), *ends, floor)


def _ratios(name: str, found: Sequence[Measure]) -> tuple[str, ...]:
    return (name, *(cell for measure in found for cell in (ratio(measure.value), interval(measure))))


def _a_token(arm: ArmReport, part: str) -> float:
    return (measured(arm, f"step_{part}_s").value or 0.0) / (measured(arm, "tokens_per_step").value or 1.0)


def _ms(seconds: float) -> str:
    return "<0.01" if 0 < seconds < 1e-5 else milliseconds(seconds)


def _survival(arm: ArmReport) -> list[float]:
    found: list[float] = []
    while (value := measured(arm, f"survival[{len(found) + 1}]").value) is not None:
        found.append(value)
    return found


def _left_out(arms: Sequence[ArmReport]) -> list[str]:
    return [f"Drawn are the first {MOST_ROWS} of {len(arms)} arms."] if len(arms) > MOST_ROWS else []
