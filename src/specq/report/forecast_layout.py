"""What was forecast of a run, as sections: beside what was measured, the ranking, the ceilings and the strata."""

from __future__ import annotations

from collections.abc import Sequence

from specq.core.nouns import counted
from specq.report import forecast_grid_layout
from specq.report.forecast_file import Cell, Forecasts
from specq.report.forecast_gaps import FACTORS, ForecastReport, Gap
from specq.report.section import Section, table
from specq.report.words import NOTHING, interval, milliseconds, near_tie, no_interval, number, ratio, share

TITLES = (
    *("Forecast", "Forecast: where the difference comes from", "Forecast: ranking", "Forecast: ceilings"),
    *("Forecast: strata", forecast_grid_layout.TITLE),
)


def sections(found: ForecastReport | None) -> tuple[Section, ...]:
    """All sections on the forecast, titled as TITLES; none without one, one line where it cannot be used."""
    if found is None:
        return ()
    if found.forecasts is None:
        return (Section(title=TITLES[0], lines=(found.fault,)),)
    whole = found.forecasts
    return (
        _beside(whole, found.gaps),
        _split(found.gaps),
        _ranking(whole, found.gaps),
        _ceilings(whole),
        _strata(whole),
        forecast_grid_layout.section(found.grid),
    )


def best_of_each(cells: Sequence[Cell]) -> list[Cell]:
    """The best k of each draft and rule, the fastest first, as the cells are."""
    seen: dict[tuple[str, str], Cell] = {}
    for one in cells:
        seen.setdefault((one.draft, one.rule), one)
    return list(seen.values())


def bounds(low: float | None, high: float | None) -> str:
    """An interval of a ratio in words, or a dash."""
    return NOTHING if low is None or high is None else f"{ratio(low)} to {ratio(high)}"


def beside(gap: Gap) -> tuple[str, ...]:
    """Forecast and measurement of an arm: both with their intervals, and whether the forecast's holds the other."""
    cell = gap.cell
    return (
        ratio(cell.speedup),
        bounds(cell.low, cell.high),
        ratio(gap.speedup.value),
        interval(gap.speedup),
        NOTHING if gap.inside is None else "yes" if gap.inside else "no",
    )


def split(gap: Gap) -> tuple[str, ...]:
    """Measured over forecast speed-up, and its four factors."""
    if not gap.factors or gap.speedup.value is None:
        return (NOTHING,) * (1 + len(FACTORS))
    return tuple(f"{value:.3f}" for value in (gap.speedup.value / gap.cell.speedup, *gap.factors))


def _beside(whole: Forecasts, gaps: Sequence[Gap]) -> Section:
    took = ", ".join(f"{name} {number(float(value))} s" for name, value in whole.seconds.items())
    lines = [
        f"Forecast from {counted(whole.prompts, 'text')} of the target before the run "
        "began, beside what the run measured: speed-ups over plain decoding. inside: the measured one lies in the "
        "forecast's 95 % interval.",
        *(f"{gap.label}: {gap.why}." for gap in gaps if gap.why),
        f"Forecasting took: {took}. Made {whole.created} by specq {whole.specq}.",
    ]
    columns = (
        *("arm", "forecast", "95 % interval", "measured", "95 % interval", "inside"),
        *("tokens/step forecast", "measured", "verdict"),
    )
    rows = [
        (
            gap.label,
            *beside(gap),
            ratio(gap.cell.tokens_per_step),
            ratio(gap.tokens_per_step.value),
            gap.verdict or NOTHING,
        )
        for gap in gaps
    ]
    return Section(title=TITLES[0], lines=tuple(lines), columns=columns, rows=tuple(rows))


def _split(gaps: Sequence[Gap]) -> Section:
    lines = (
        "Factors whose product is measured / forecast; below 1 the run was slower for it. acceptance: tokens per step. "
        "draft, verify: seconds of drafting and of the target's pass, in plain steps of the same run. rest: sampling, "
        "rolling back, and time that no step was billed for.",
    )
    rows = [(gap.label, *split(gap)) for gap in gaps if gap.factors]
    return table(TITLES[1], ("arm", "measured / forecast", *FACTORS), rows, lines)


def _ranking(whole: Forecasts, gaps: Sequence[Gap]) -> Section:
    arms = {gap.cell.key: gap.label for gap in gaps}
    shown = best_of_each(whole.cells)
    # What was run stands in the ranking, whatever its place.
    shown += [gap.cell for gap in gaps if gap.cell.key not in {one.key for one in shown}]
    rows = [
        (
            one.draft,
            one.rule,
            str(one.k),
            ratio(one.tokens_per_step),
            ratio(one.speedup),
            bounds(one.low, one.high),
            number(one.tokens_per_s),
            share(one.p_faster),
            share(one.slower_prompts),
            share_of_time(one.regret),
            arms.get(one.key, NOTHING),
        )
        for one in shown
    ]
    lines = [
        "The best k of each draft and rule; rules that do the same here stand once. faster: share of resamples in "
        "which it beats plain decoding; slower prompts: share of prompts that it slows down; regret: mean share of "
        f"time lost against the best choice. Plain decoding: {number(whole.plain_tokens_per_s)} tokens/s."
    ]
    if whole.cells and whole.cells[0].low is None:
        lines.append(no_interval(whole.prompts))
    elif whole.more_prompts is not None:
        best, *others = dict.fromkeys(cell.draft for cell in whole.cells)
        rivals = [one for one in others if any(cell.draft == one and cell.speedup > 1 for cell in whole.cells)]
        lines.append(near_tie(whole.more_prompts, best, rivals[0] if rivals else None))
    columns = (
        *("draft", "rule", "k", "tokens/step", "speed-up", "95 % interval", "tokens/s"),
        *("faster", "slower prompts", "regret", "run as"),
    )
    return table(TITLES[2], columns, rows, lines)


def share_of_time(value: float | None) -> str:
    """A share of time as per cent with a decimal."""
    return NOTHING if value is None else f"{100 * value:.1f} %"


def _ceilings(whole: Forecasts) -> Section:
    rows = [
        (
            f"{one.draft} k = {one.k}",
            str(one.context),
            *(milliseconds(part) for part in (one.draft_s, one.verify_s, one.rest_s, one.plain_s)),
            share(one.spread),
            ratio(one.ceiling),
            ratio(one.break_even),
        )
        for one in whole.points
    ]
    lines = [
        "Milliseconds of a step, measured before the run, after so many tokens (context). ceiling: the speed-up with "
        "every token right; break even: the tokens per step at which it is as fast as plain decoding.",
        *(f"{name} is hopeless here: {why}." for name, why in whole.hopeless.items()),
    ]
    columns = (
        *("draft, k", "context", "draft", "verify", "rest", "plain step"),
        *("spread", "ceiling", "break even, tokens/step"),
    )
    return table(TITLES[3], columns, rows, lines)


def _strata(whole: Forecasts) -> Section:
    rows = [
        (
            f"{one.draft} k = {one.k} {one.rule}",
            one.by,
            one.name,
            str(one.n),
            ratio(one.tokens_per_step),
            ratio(one.speedup),
            bounds(one.low, one.high),
            share(one.p_faster),
        )
        for one in whole.strata
    ]
    lines = ("What is expected on a part of the prompts or tokens; n counts prompts, of positions tokens.", *whole.said)
    columns = ("draft", "by", "part", "n", "tokens/step", "speed-up", "95 % interval", "faster")
    return table(TITLES[4], columns, rows, lines)
