"""Quality on the user's own items, as sections: scores against the floor, tags, flips, and what guards them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specq.core.nouns import counted
from specq.report.assemble import Report
from specq.report.evals import ArmQuality, EvalReport, Flip, Slice
from specq.report.guards import NOISE, PROBED
from specq.report.section import Section, table
from specq.report.words import NOTHING, moved, number, points, share, signed, span
from specq.stats.scores import Rate

FLIPS_SHOWN = 3
TEXT_SHOWN = 160
# Below it a tag says nothing with any certainty.
TAG_ITEMS = 20


def sections(report: Report) -> Iterator[Section]:
    """For each eval its scores, its tags, its flips and its guards."""
    for one in report.evals:
        yield _scores(one)
        yield _tags(one)
        yield _flips(one)
        yield _guards(one)


def _scores(report: EvalReport) -> Section:
    rows = [_baseline(report)] if report.baseline is not None else []
    rows += [_row(report, one) for one in report.arms if one.all is not None]
    lines = [_about(report)]
    lines += [*_noise(report), *_probe(report), *_critical(report)]
    lines += report.against_control
    lines += [f"{one.label}: {one.how}." for one in report.arms if one.source not in ("", one.arm)]
    lines += [f"{one.label}: {one.unseen}." for one in report.arms if one.unseen]
    lines += [f"{one.label}: {fault}." for one in report.arms for fault in one.faults]
    return _table(f"Quality: {report.name}", report, rows, lines, first="arm")


def _table(
    title: str, report: EvalReport, rows: Sequence[tuple[str, ...]], lines: Sequence[str], *, first: str
) -> Section:
    """A table of scores and changes; columns in which no row has anything to say are left out."""
    change = "change, points" if report.binary else "change"
    ends = ("worse", "better", "p", "margin", "outcome")
    columns = (first, "items", "score", "95 % interval", change, "95 % interval", *ends)
    asked = [i for i in range(len(columns)) if i == 0 or any(row[i] != NOTHING for row in rows)]
    return table(title, tuple(columns[i] for i in asked), [tuple(row[i] for i in asked) for row in rows], lines)


def _about(report: EvalReport) -> str:
    clusters = f" in {report.clusters} clusters, which count once each" if report.clusters < report.items else ""
    sizes = f", {report.batch_size} at a time" if report.output == "text" else ""
    what = "share right" if report.binary else "mean score"
    return (
        f"{counted(report.items, 'item')}{clusters}, metric {report.metric}{sizes}. score: {what}. change: on the "
        "same items, arm less baseline. worse, better: items"
        + (". p: McNemar's mid-p that as many got worse as better." if report.binary else ".")
    )


def _baseline(report: EvalReport) -> tuple[str, ...]:
    assert report.baseline is not None
    rate = report.baseline
    return ("baseline", str(rate.n), *_rate(rate, report.binary), *[NOTHING] * 7)


def _row(report: EvalReport, one: ArmQuality) -> tuple[str, ...]:
    assert one.all is not None
    rate = (one.label, str(one.all.change.n), *_rate(one.all.rate, report.binary))
    # Proved to be the baseline's own answers: there is no change to estimate.
    if one.proved:
        return (*rate, *[NOTHING] * 6, "the baseline's")
    change = _change(report, one.all)
    return (*rate, *change[:-1], "critical" if one.broken else change[-1])


def _change(report: EvalReport, part: Slice) -> tuple[str, ...]:
    change, binary = part.change, report.binary
    return (
        signed(change.value, binary),
        span(change.low, change.high, binary),
        str(change.worse),
        str(change.better),
        NOTHING if change.p is None else number(change.p, 2),
        NOTHING if part.margin is None else signed(-part.margin, binary),
        {"keep": "within", "reject": "breached", "undecided": "undecided"}.get(part.outcome, NOTHING),
    )


def _rate(rate: Rate, binary: bool) -> tuple[str, str]:
    if rate.low is None or rate.high is None:
        return (_score(rate.value, binary), NOTHING)
    return (_score(rate.value, binary), f"{_score(rate.low, binary)} to {_score(rate.high, binary)}")


def _score(value: float, binary: bool) -> str:
    return f"{100 * value:.1f} %" if binary else f"{value:.3f}"


def _noise(report: EvalReport) -> Iterator[str]:
    if why := report.unmeasured.get(NOISE):
        yield f"Noise floor: not measured: {why}."
    elif report.noise is not None and report.noise.all is not None:
        change, binary = report.noise.all.change, report.binary
        yield (
            f"Noise floor: the baseline at batch size {report.noise_batch_size} against itself: "
            f"{moved(change.value, change.low, change.high, binary)}, "
            f"{counted(change.worse, 'item')} worse and {change.better} better."
        )


def _probe(report: EvalReport) -> Iterator[str]:
    if why := report.unmeasured.get(PROBED):
        yield f"Sensitivity probe: not measured: {why}; what loss this eval would notice is not known."
    elif report.probe is not None and report.probe.all is not None:
        change = report.probe.all.change
        yield (
            f"Sensitivity probe: the baseline's weights perturbed by {100 * report.probe_noise:.0f} %: "
            f"{points(change.value, report.binary)} (at best {signed(change.high_one_sided, report.binary)}): "
            + ("noticed." if report.caught else "NOT noticed, so that no loss is found says little.")
        )


def _critical(report: EvalReport) -> Iterator[str]:
    if report.critical:
        right = "right" if report.binary else "with the full score (1)"
        rest = "" if report.can_break == report.critical else "; the others cannot break"
        yield (
            f"Critical: {counted(report.critical, 'item')}. The baseline has {report.can_break} of them {right}, and "
            f"an arm that loses one of those is rejected{rest}."
        )


def _tags(report: EvalReport) -> Section:
    """The tags with enough items to say something, and those that the floor names."""
    asked = {part.tag for one in report.arms for part in one.slices if part.margin is not None}
    rows, few = [], 0
    for tag, rate in report.tags.items():
        if rate.n < TAG_ITEMS and tag not in asked:
            few += 1
            continue
        rows.append((f"{tag}: baseline", str(rate.n), *_rate(rate, report.binary), *[NOTHING] * 7))
        for one in report.arms:
            part = next((part for part in one.slices if part.tag == tag), None)
            if part is not None and one.source == one.arm:
                cells = (*_rate(part.rate, report.binary), *_change(report, part))
                rows.append((f"{tag}: {one.label}", str(part.change.n), *cells))
    are = "is" if few == 1 else "are"
    left = [f"{counted(few, 'tag')} with fewer than {TAG_ITEMS} items {are} in report.json alone."] if few else []
    return _table(f"Quality by tag: {report.name}", report, rows, left, first="tag")


def _flips(report: EvalReport) -> Section:
    lines = []
    for one in report.arms:
        if one.source != one.arm or not one.flips:
            continue
        worse = [flip for flip in one.flips if flip.worse]
        better = [flip for flip in one.flips if not flip.worse]
        shown = [*sorted(worse, key=lambda flip: not flip.critical)[:FLIPS_SHOWN], *better[:1]]
        lines.append(f"{one.label}: {len(worse)} worse, {len(better)} better; for example:")
        lines += [_flip(flip) for flip in shown]
    return Section(title=f"Flips: {report.name}", lines=tuple(lines))


def _flip(flip: Flip) -> str:
    kind = ("worse" if flip.worse else "better") + (", CRITICAL" if flip.critical else "")
    right = f" Right: {_cut(flip.reference)}." if flip.reference else ""
    return f"- {flip.item} ({kind}).{right} Baseline: {_cut(flip.before)}. Arm: {_cut(flip.after)}."


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return f'"{line[:TEXT_SHOWN]}..."' if len(line) > TEXT_SHOWN else f'"{line}"'


def _guards(report: EvalReport) -> Section:
    arms = [one for one in (report.own, *report.arms, report.noise, report.probe) if one is not None and one.answers]
    rows = [
        (
            _name(report, one),
            f"{one.answers} of {report.items}",
            "no" if one.faults else "yes",
            *(str(count) for count in (one.failed, one.empty, one.looping, one.cut)),
            NOTHING if not one.seconds else f"{one.answers / one.seconds:.2f}",
        )
        for one in arms
        if one.source == one.arm
    ]
    columns = ("arm", "answered", "like the baseline", "no score", "empty", "looping", "cut", "items/s, judged")
    lines = [
        "like the baseline: the same items, prompt ids (so template and bos), stops and batch size; no prompt was "
        f"truncated. looping: {share(0.5)} or more of its 4-grams seen before in it. cut: ended at max_new_tokens. "
        "items/s, judged: answered and judged; the time of the metric itself is in it, so it is no speed of the arm.",
    ]
    others = {guard: why for guard, why in report.unmeasured.items() if guard not in (NOISE, PROBED)}
    lines += [f"{guard[0].upper()}{guard[1:]}: not measured: {why}." for guard, why in others.items()]
    return table(f"Guards: {report.name}", columns, rows, lines)


def _name(report: EvalReport, one: ArmQuality) -> str:
    if one is report.noise:
        return f"{one.label}, {report.noise_batch_size} at a time"
    return "probe" if one is report.probe else one.label
