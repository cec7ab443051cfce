"""The report as sections of plain text: what the terminal and Markdown show, in the same order.

Text here is not escaped; whoever renders it does that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specq.report.assemble import ArmReport, Report
from specq.report.measures import PARTS, Measure
from specq.report.words import NOTHING, interval, milliseconds, number, ratio, share, size

POSITIONS_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, lines of text and a table; the first column is text, the others are numbers."""

    title: str
    lines: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def sections(report: Report) -> tuple[Section, ...]:
    """All sections that have something to say: flags, A/A and limits come before every result."""
    drafted = [arm for arm in report.arms if "draft_acceptance" in arm.measures]
    everything = (
        Section(title="Read this first", lines=report.flags),
        _null(report),
        _limits(report),
        _speed(report),
        _spread(report),
        _latency(report.arms),
        _draft(drafted),
        _positions(drafted),
        _steps(report.arms),
        _strata(report.arms),
        _cost(report.arms),
        _audit(report),
        Section(
            title="Verdicts",
            lines=tuple(
                f"{arm.verdict.kind}: {arm.verdict.sentence}" for arm in report.arms if arm.verdict is not None
            ),
        ),
        Section(title="Recommendation", lines=(report.recommendation,)),
        Section(title="Notes", lines=report.notes),
    )
    return tuple(section for section in everything if section.lines or section.rows)


def heading(report: Report) -> tuple[str, ...]:
    """The lines above all sections: question, run and state."""
    state = "complete" if report.complete else "UNFINISHED"
    return (report.question, f"{report.experiment} / {report.run}, {state}", f"Baseline: {report.baseline}")


def _null(report: Report) -> Section:
    rows = tuple((m.name, ratio(m.value), interval(m), str(m.n)) for m in report.null)
    return Section(
        title="No difference looks like this here (A/A)",
        lines=("One baseline against the other; arms are held against both together.",) if rows else (),
        columns=("", "ratio", "95 % interval", "prompts"),
        rows=rows,
    )


def _limits(report: Report) -> Section:
    known = {measure.name: measure for measure in report.workload}
    lines = []
    if "prefill_share" in known:
        lines.append(
            f"{known['prompts'].n} prompts, {number(known['prompt_to_output'].value)} prompt tokens per new token. "
            f"Prefill is {share(known['prefill_share'].value)} of the baseline's time, so no decode lever can make a "
            f"request more than {ratio(known['e2e_speedup_limit'].value)} times as fast end to end."
        )
    if "ceiling_tokens_per_s" in known:
        lines.append(
            f"Ceiling: a target pass reads {number((known['bytes_per_token'].value or 0) / 1e6)} MB at "
            f"{number((known['bandwidth_bytes_per_s'].value or 0) / 1e9)} GB/s measured here, so at most "
            f"{number(known['ceiling_tokens_per_s'].value)} passes a second; plain decoding gets one token a pass."
        )
    if "canary_drift" in known:
        lines.append(f"Drift of the canary over the run: {share(known['canary_drift'].value)}.")
    return Section(title="Limits", lines=tuple(lines))


def _speed(report: Report) -> Section:
    def row(arm: ArmReport) -> tuple[str, ...]:
        speed, e2e = _get(arm, "speedup"), _get(arm, "e2e_speedup")
        return (
            arm.label,
            ratio(speed.value),
            interval(speed),
            ratio(e2e.value),
            interval(e2e),
            number(_get(arm, "decode_tokens_per_s").value),
            share(_get(arm, "ceiling_share").value),
        )

    columns = ("arm", "speedup", "95 % interval", "e2e_speedup", "95 % interval", "tokens/s", "of ceiling")
    lines = ("Pooled over prompts: above 1 is faster. The twin is compared with the first baseline alone.",)
    return _table("Speed", columns, map(row, _ran(report.arms)), lines)


def _spread(report: Report) -> Section:
    def row(arm: ArmReport) -> tuple[str, ...]:
        mean = _get(arm, "speedup_per_prompt")
        five = (ratio(_get(arm, f"speedup_per_prompt.{q}").value) for q in ("min", "q1", "median", "q3", "max"))
        slower = _get(arm, "slower_share")
        return (arm.label, ratio(mean.value), interval(mean), *five, share(slower.value), str(slower.n))

    columns = ("arm", "mean", "95 % interval", "min", "q1", "median", "q3", "max", "slower", "prompts")
    arms = [arm for arm in _ran(report.arms) if "speedup_per_prompt" in arm.measures]
    lines = ("Each prompt's own ratio; the mean is geometric. slower: share of prompts made slower.",)
    return _table("Speedup over prompts", columns, map(row, arms), lines)


def _latency(arms: Sequence[ArmReport]) -> Section:
    rows = []
    for arm in _ran(arms):
        for name in ("ttft_s", "tpot_s", "e2e_s"):
            tails = [_get(arm, f"{name}.{tail}") for tail in ("p50", "p95", "p99")]
            shown = [milliseconds(m.value) for m in (_get(arm, name), *tails)]
            rows.append((f"{arm.label} {name}", *shown, str(tails[0].n)))
    lines = ("Milliseconds. p95 needs 20 generations and p99 100; tpot_s is pooled, the others are means.",)
    return _table("Latency", ("arm", "mean", "p50", "p95", "p99", "generations"), rows, lines)


def _draft(arms: Sequence[ArmReport]) -> Section:
    def row(arm: ArmReport) -> tuple[str, ...]:
        names = ("tokens_per_step", "draft_acceptance", "target_rows_per_token", "draft_tokens_per_token")
        tokens = _get(arm, "tokens_per_step")
        first, *others = (ratio(_get(arm, name).value) for name in names)
        return (arm.label, first, interval(tokens), *others)

    columns = ("arm", "tokens_per_step", "95 % interval", "draft_acceptance", "rows/token", "drafted/token")
    lines = ("rows/token: target rows computed for each token emitted; drafted/token: tokens proposed for each.",)
    return _table("Draft", columns, map(row, arms), lines)


def _positions(arms: Sequence[ArmReport]) -> Section:
    # An arm that never proposed has no places; its row of dashes says so.
    longest = max((1, *(sum(name.startswith("survival[") for name in arm.measures) for arm in arms)))
    shown = list(range(1, longest + 1))
    if longest > POSITIONS_SHOWN:
        shown = [*shown[: POSITIONS_SHOWN - 1], longest]
    rows = []
    for arm in arms:
        for name in ("survival", "conditional_acceptance"):
            cells = (ratio(_get(arm, f"{name}[{j}]").value) for j in shown)
            rows.append((f"{arm.label} {name}", *cells))
    lines = ("By place in the proposal; a step that proposed fewer does not survive, and conditional leaves it out.",)
    return _table("Acceptance by place", ("arm", *map(str, shown)), rows, lines)


def _steps(arms: Sequence[ArmReport]) -> Section:
    parts = (*PARTS, "outside")

    def row(arm: ArmReport) -> tuple[str, ...]:
        cells = (
            f"{milliseconds(_get(arm, f'step_{part}_s').value)} ({share(_get(arm, f'step_{part}_share').value)})"
            for part in parts
        )
        return (arm.label, *cells)

    with_steps = [arm for arm in arms if "step_verify_s" in arm.measures]
    lines = ("Milliseconds a step and share of decode time; outside: decode time that no step was billed for.",)
    return _table("Where a step's time goes", ("arm", *parts), map(row, with_steps), lines)


def _strata(arms: Sequence[ArmReport]) -> Section:
    rows = [
        (
            f"{arm.label} on {stratum.tag}",
            ratio(stratum.speedup.value),
            interval(stratum.speedup),
            ratio(stratum.tokens_per_step),
            ratio(stratum.draft_acceptance),
            str(stratum.n),
        )
        for arm in arms
        if arm.verdict is not None
        for stratum in arm.strata
    ]
    columns = ("arm", "speedup", "95 % interval", "tokens_per_step", "draft_acceptance", "prompts")
    return _table("By tag", columns, rows)


def _cost(arms: Sequence[ArmReport]) -> Section:
    def row(arm: ArmReport) -> tuple[str, ...]:
        return (
            arm.label,
            number(_get(arm, "device_s_per_answer").value),
            size(_get(arm, "peak_bytes").value),
            share(_get(arm, "repeated_share").value),
            f"{_get(arm, 'past_stop_tokens').value or 0:.0f}",
            str(arm.generations),
            str(arm.failed),
        )

    columns = ("arm", "device s/answer", "peak memory", "repeated", "past stop", "answers", "failed")
    lines = ("repeated: 4-grams of the output seen before in it, which flatter a draft; past stop: tokens.",)
    return _table("Cost and care", columns, map(row, arms), lines)


def _audit(report: Report) -> Section:
    rows = []
    lines: list[str] = []
    for arm in report.arms[1:]:
        audit = arm.audit
        same, of = arm.same_outputs
        counts = [str(audit.count(kind)) if audit.kinds else NOTHING for kind in ("identical", "tie", "diverged")]
        z = [NOTHING if value is None else f"{value:+.1f}" for value in (audit.surprise_z, audit.steps_z)]
        rows.append((arm.label, audit.status, *counts, *z, str(audit.positions), f"{same} of {of}"))
        if audit.gap_limit is not None and not lines:
            lines.append(
                f"A gap of at most {number(audit.gap_limit)} logits is a tie; the baseline against itself has "
                f"{audit.noise_ties} in {audit.noise_positions} positions."
            )
        if audit.seen_above is not None and len(lines) == 1:
            lines.append(f"A fault on more than {share(audit.seen_above)} of prompts would have shown (95 %).")
    columns = ("arm", "audit", "identical", "tie", "diverged", "surprise z", "steps z", "positions", "same ids")
    return _table("Lossless audit", columns, rows, lines)


def _table(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]], lines: Sequence[str] = ()) -> Section:
    listed = tuple(rows)
    return Section(title=title, lines=tuple(lines) if listed else (), columns=columns, rows=listed)


def _ran(arms: Sequence[ArmReport]) -> list[ArmReport]:
    return [arm for arm in arms if arm.generations]


def _get(arm: ArmReport, name: str) -> Measure:
    return arm.measures.get(name, Measure(name=name, unit="", value=None))
