"""The report as sections of plain text: what the terminal and Markdown show, in the same order.

Text here is not escaped; whoever renders it does that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specq.core.nouns import counted
from specq.report import charts_front, forecast_layout, layout_draft, layout_outputs, layout_quality, levers, targets
from specq.report.arm import ArmReport
from specq.report.assemble import Report
from specq.report.measures import Measure
from specq.report.section import Section, measured, table
from specq.report.words import NOTHING, interval, milliseconds, number, ratio, share, size


def sections(report: Report) -> tuple[Section, ...]:
    """All sections that have something to say: flags, A/A and limits come before every result."""
    drafted = [arm for arm in report.arms if "draft_acceptance" in arm.measures]
    everything = (
        Section(title="Read this first", lines=report.flags),
        _null(report),
        Section(title="How arms took turns", lines=report.turns),
        _limits(report),
        Section(title="What binds", lines=report.binding),
        levers.section(report),
        _speed(report),
        _spread(report),
        _latency(report.arms),
        layout_draft.draft(drafted),
        layout_draft.positions(drafted),
        layout_draft.steps(report.arms),
        *forecast_layout.sections(report.forecast),
        _strata(report.arms),
        _cost(report.arms),
        layout_outputs.quantized_weights(report),
        layout_outputs.changed(report.arms),
        layout_outputs.by_context(report.arms),
        layout_outputs.audit(report),
        *layout_quality.sections(report),
        _front(report),
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


def _front(report: Report) -> Section:
    """Which arms no other arm beats in everything that was measured."""
    found = charts_front.weighed(report)
    if found is None:
        return Section(title="Front")
    if not found.drawn:
        why = "There is no front here: it takes two arms, and two things in which they differ, speed among them."
        return Section(title="Front", lines=(why, *found.dropped, *found.left_out))
    kept = [one for one in found.placed if not one.beaten_by]
    behind = [one for one in found.placed if one.beaten_by]
    lines = [
        f"Of {', '.join(axis.title for axis in found.axes)}, as measured, these arms are beaten in all by no other: "
        + ", ".join(one.arm.label + (" (rejected)" if one.rejected else "") for one in kept)
        + "."
    ]
    lines += [f"{one.arm.label} is behind {', '.join(one.beaten_by)}." for one in behind]
    return Section(title="Front", lines=(*lines, *found.dropped, *found.left_out))


def heading(report: Report) -> tuple[str, ...]:
    """The lines above all sections: question, run and state, with the arms that failed on samples."""
    state = ("complete" if report.complete else "UNFINISHED") + (", SMOKE RUN" if report.smoke else "")
    if failed := [f"{arm.label} ({arm.failed})" for arm in report.arms if arm.failed]:
        state += f", WITH FAILED SAMPLES: {', '.join(failed)}"
    return (report.question, f"{report.experiment} / {report.run}, {state}", f"Baseline: {report.baseline}")


def _null(report: Report) -> Section:
    rows = tuple((m.name, ratio(m.value), interval(m), str(m.n)) for m in report.null)
    return Section(
        title="No difference looks like this here (A/A)",
        lines=(
            "The same plain decoding twice, baseline#2 against baseline#1: a speedup inside this range is noise. "
            "Arms are compared with both together.",
        )
        if rows
        else (),
        columns=("", "ratio", "95 % interval", "prompts"),
        rows=rows,
    )


def _limits(report: Report) -> Section:
    known = {measure.name: measure for measure in report.workload}
    lines = []
    if "prefill_share" in known:
        lines.append(
            f"{counted(known['prompts'].n, 'prompt')}, {number(known['prompt_to_output'].value)} prompt tokens per "
            f"new token. Prefill is {share(known['prefill_share'].value)} of the baseline's time, so no decode lever "
            f"can make a request more than {number(known['e2e_speedup_limit'].value)} times as fast end to end."
        )
    if "ceiling_tokens_per_s" in known:
        lines.append(
            f"Ceiling: a target pass reads {number((known['bytes_per_token'].value or 0) / 1e6)} MB at "
            f"{_bandwidth(known)} measured here, so at most {number(known['ceiling_tokens_per_s'].value)} passes "
            "a second; plain decoding gets one token a pass."
        )
    elif "bandwidth_bytes_per_s" not in known:
        lines.append("Ceiling: not measured, for no bandwidth was.")
    for arm in report.arms:
        bytes_read = measured(arm, "bytes_per_token").value
        if bytes_read and arm.plain == arm.id and "bandwidth_bytes_per_s" in known:
            passes = number((known["bandwidth_bytes_per_s"].value or 0) / bytes_read)
            lines.append(f"{arm.label} reads {number(bytes_read / 1e6)} MB a pass: at most {passes} passes a second.")
    if "canary_drift" in known:
        lines.append(
            f"Drift: {share(known['canary_drift'].value)} between the fastest and the slowest time of the canary, "
            "a prompt that is repeated through the run"
            + (", each target held against itself." if report.turns else ".")
        )
    else:
        lines.append("Drift: not measured, for the canary, a prompt that is repeated through a run, ran once at most.")
    return Section(title="Limits", lines=tuple(lines))


def _bandwidth(known: Mapping[str, Measure]) -> str:
    """The bandwidth in GB/s, with the slowest and the fastest try where they were kept."""
    middle, *ends = (
        number((known[name].value or 0) / 1e9)
        for name in ("bandwidth_bytes_per_s", "bandwidth_bytes_per_s.min", "bandwidth_bytes_per_s.max")
        if name in known
    )
    return f"{middle} GB/s" + (f" (tries: {' to '.join(ends)})" if ends else "")


def _speed(report: Report) -> Section:
    def row(arm: ArmReport) -> tuple[str, ...]:
        speed, e2e = measured(arm, "speedup"), measured(arm, "e2e_speedup")
        return (
            _timed(arm),
            ratio(speed.value),
            interval(speed),
            ratio(e2e.value),
            interval(e2e),
            *([_times(measured(arm, "prefill_speedup"))] if prefill else []),
            number(measured(arm, "decode_tokens_per_s").value),
            share(measured(arm, "ceiling_share").value),
        )

    arms = _ran(report.arms)
    prefill = any("prefill_speedup" in arm.measures for arm in arms)
    before = ("arm", "speedup", "95 % interval", "e2e_speedup", "95 % interval")
    columns = (*before, *(["prefill"] if prefill else []), "tokens/s", "of ceiling")
    lines = [
        "Pooled over prompts; above 1 is faster. baseline#2 is compared with baseline#1 alone. tokens/s: after the "
        "first token. of ceiling: target passes a second, of those that the memory bandwidth allows.",
        *report.stand_ins,
    ]
    if prefill:
        lines.append("prefill: the same ratio of the time to the first token; below 1x a quantized prefill is slower.")
    lines += [f"* {arm.label}: {targets.NO_KERNEL}{arm.no_kernel}." for arm in arms if arm.no_kernel]
    return table("Speed", columns, map(row, arms), lines)


def _spread(report: Report) -> Section:
    def row(arm: ArmReport) -> tuple[str, ...]:
        mean = measured(arm, "speedup_per_prompt")
        five = (ratio(measured(arm, f"speedup_per_prompt.{q}").value) for q in ("min", "q1", "median", "q3", "max"))
        slower = measured(arm, "slower_share")
        return (_timed(arm), ratio(mean.value), interval(mean), *five, share(slower.value), str(slower.n))

    columns = ("arm", "mean", "95 % interval", "min", "q1", "median", "q3", "max", "slower", "prompts")
    arms = [arm for arm in _ran(report.arms) if "speedup_per_prompt" in arm.measures]
    lines = ("Each prompt's own ratio; the mean is geometric. slower: share of prompts made slower.",)
    return table("Speedup over prompts", columns, map(row, arms), lines)


def _latency(arms: Sequence[ArmReport]) -> Section:
    rows = []
    for arm in _ran(arms):
        for name in ("ttft_s", "tpot_s", "e2e_s"):
            tails = [measured(arm, f"{name}.{tail}") for tail in ("p50", "p95", "p99")]
            shown = [milliseconds(m.value) for m in (measured(arm, name), *tails)]
            rows.append((f"{_timed(arm)} {name}", *shown, str(tails[0].n)))
    lines = ("Milliseconds. p95 needs 20 generations and p99 100; tpot_s is pooled, the others are means.",)
    return table("Latency", ("arm", "mean", "p50", "p95", "p99", "generations"), rows, lines)


def _strata(arms: Sequence[ArmReport]) -> Section:
    rows = [
        (
            f"{_timed(arm)} on {stratum.tag}",
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
    return table("By tag", columns, rows)


def _cost(arms: Sequence[ArmReport]) -> Section:
    def row(arm: ArmReport) -> tuple[str, ...]:
        return (
            arm.label,
            number(measured(arm, "device_s_per_answer").value),
            *([_held(arm)] if changed else []),
            size(measured(arm, "peak_bytes").value),
            share(measured(arm, "repeated_share").value),
            f"{measured(arm, 'past_stop_tokens').value or 0:.0f}",
            str(arm.generations),
            str(arm.failed),
        )

    changed = any(arm.target is not None or targets.DRAFT in measured(arm, "weight_bytes").note for arm in arms)
    held = ["weights held"] if changed else []
    columns = ("arm", "device s/answer", *held, "peak memory", "repeated", "past stop", "answers", "failed")
    lines = ["repeated: 4-grams of the output seen before in it, which flatter a draft; past stop: tokens."]
    if any(measured(arm, "weight_bytes").note.startswith(targets.BOTH) for arm in arms):
        lines.append(
            "both: packed weights and a dense copy that takes passes of many rows over, so memory of both; "
            'prefill = "packed" keeps the packed weights alone.'
        )
    return table("Cost and care", columns, map(row, arms), lines)


def _ran(arms: Sequence[ArmReport]) -> list[ArmReport]:
    return [arm for arm in arms if arm.generations]


def _timed(arm: ArmReport) -> str:
    """The arm beside a speed of its own, marked where its quantized layers run on no packed kernel."""
    return f"{arm.label} *" if arm.no_kernel else arm.label


def _times(ratio_measured: Measure) -> str:
    return NOTHING if ratio_measured.value is None else f"{ratio_measured.value:.2f}x"


def _held(arm: ArmReport) -> str:
    """Bytes of the weights of an arm's target and of its draft's own model."""
    held = measured(arm, "weight_bytes")
    return size(held.value) + (" (both)" if held.note.startswith(targets.BOTH) else "")
