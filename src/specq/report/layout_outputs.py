"""What becomes of the outputs, as sections: quantized weights, changed outputs and the lossless audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specq.quantize.audit_rows import fold
from specq.report.arm import ArmReport
from specq.report.assemble import Report
from specq.report.audit import BASELINE
from specq.report.distribution import BUCKETS
from specq.report.measures import Measure
from specq.report.quantized import QuantizedWeights, listed
from specq.report.section import Section, measured, table
from specq.report.targets import NO_KERNEL
from specq.report.words import NOTHING, agreement, number, share, signed, size

_KINDS = ("identical", "tie", "lossy", "diverged", "differs")


def quantized_weights(report: Report) -> Section:
    """One row for each model that the run quantized, with what its audit found."""
    several = len(report.quantized) > 1
    columns = (
        "weights",
        "arms",
        "layers",
        "fell back",
        "in floats",
        "bits/weight",
        "on disk",
        "source",
        "embeddings, head",
        "KL mean",
        "KL worst",
        "same argmax",
        "calibration tokens",
        "kernel",
        *(["like for like"] if several else []),
    )
    lines = [
        "layers: quantized, of those that the recipe asked for; in floats: linear layers left as they were; "
        "bits/weight: over all weights, scales counted; KL in nats a token and same argmax: against the source, on "
        "fixed texts.",
        *_left(report.quantized),
        *(line for one in report.quantized for line in _about(one)),
        *dict.fromkeys(_grid(one) for one in report.quantized if one.audit is not None and one.audit.source_grid),
    ]
    return table("Quantized weights", columns, [_row(one)[: len(columns)] for one in report.quantized], lines)


def _row(one: QuantizedWeights) -> tuple[str, ...]:
    audit = one.audit
    if audit is None:
        return (one.words, one.who, *[NOTHING] * 5, size(one.source_bytes), *[NOTHING] * 7)
    used = audit.calibration
    return (
        one.words,
        one.who,
        f"{len(audit.quantized)} of {audit.asked}",
        str(len(audit.fallen_back)),
        str(len(audit.skipped)),
        f"{audit.bits_per_weight:.2f}",
        size(audit.disk_bytes),
        size(one.source_bytes),
        f"{audit.embeddings}, {audit.head}",
        number(audit.kl_mean),
        number(audit.kl_worst),
        agreement(audit.argmax_agreement),
        NOTHING if used is None else f"{used.tokens_used:,} of {used.tokens_given:,}",
        _kernel(audit.kernel),
        "no" if one.unlike else "yes",
    )


def _kernel(kernel: str) -> str:
    """The kernels of an audit; why there is none stands below the table's heading."""
    parts = (NO_KERNEL.strip(": ") if part.startswith(NO_KERNEL) else part for part in kernel.split("; "))
    return "; ".join(dict.fromkeys(parts))


def _left(weights: Sequence[QuantizedWeights]) -> list[str]:
    """What was left in floats, each list once with the arms that it is true of."""
    alike: dict[str, list[str]] = {}
    for one in weights:
        if one.audit is not None:
            alike.setdefault(listed(one.left) or "nothing", []).append(one.who)
    return [f"{', '.join(who)}: left in floats: {left}." for left, who in alike.items()]


def _about(one: QuantizedWeights) -> list[str]:
    """What does not fit into a cell."""
    audit = one.audit
    if audit is None:
        return [f"{one.who}: {one.unread}."]
    found = []
    if audit.fallen_back:
        reasons = ", ".join(dict.fromkeys(why for _, why in audit.fallen_back))
        names = listed(fold(name for name, _ in audit.fallen_back))
        found.append(f"{one.who}: rounded to nearest after all: {names} ({reasons}).")
    found += [f"{one.who}: {part}." for part in audit.kernel.split("; ") if part.startswith(NO_KERNEL)]
    if one.unlike:
        found.append(f"{one.who}: not like for like: {listed(one.unlike)} (+ in floats here alone, - in the others).")
    if audit.calibration is not None and audit.calibration.rows_too_short:
        used = audit.calibration
        found.append(f"{one.who}: {used.rows_too_short} of {used.rows_given} calibration texts were too short.")
    return found


def _grid(one: QuantizedWeights) -> str:
    grid = "" if one.audit is None else one.audit.source_grid
    return f"The source's own {grid}: where the grids agree, the cost looks smaller than it is."


def changed(arms: Sequence[ArmReport]) -> Section:
    """How far the outputs of changed targets are from the baseline's."""
    held = [arm for arm in arms if arm.target is not None]
    cached = any("quantized_cache_share" in arm.measures for arm in held)
    # Older runs kept sums alone.
    by_position = any("perplexity_ratio" in arm.measures for arm in held)

    def row(arm: ArmReport) -> tuple[str, ...]:
        same, of = arm.same_outputs
        return (
            arm.label,
            *_distances(arm, "", by_position),
            str(measured(arm, "kl_worst").n),
            f"{same} of {of}",
            *([share(measured(arm, "quantized_cache_share").value)] if cached else []),
        )

    columns = ("arm", *_distance_columns(by_position), "positions", "same ids")
    lines = [
        "A changed target may answer otherwise by right. Both read along the baseline's answers: KL of the baseline's "
        "next-token law against the arm's, in nats a token; same argmax: positions where both name the same token. "
        f"{_costs(held)}",
    ]
    if by_position:
        lines.append(
            "text's token: how the mean probability of the text's own token moved; perplexity ratio: the arm's "
            "perplexity over the baseline's. The text is the baseline's own answer, so the baseline is asked about "
            "words that it chose itself and both tend to count against the arm. A ratio below 1 is possible all the "
            "same: the arm is then surer of the baseline's words than the baseline is, which makes it no better model."
        )
    if cached:
        lines.append("cache share: of the keys and values that attention read, those from the quantized cache.")
    return table("Changed outputs", (*columns, *(["cache share"] if cached else [])), map(row, held), lines)


def _costs(changed: Sequence[ArmReport]) -> str:
    """Where it stands what changed outputs cost on the task, and of which arms nobody measured it."""
    unscored = [arm.label for arm in changed if not any(name.startswith("quality.") for name in arm.measures)]
    if len(unscored) == len(changed):
        return "What that costs on your task is not measured."
    but = f"; of {listed(unscored)} it is not measured" if unscored else ""
    return f"What that costs on your task stands under Quality{but}."


def by_context(arms: Sequence[ArmReport]) -> Section:
    """The same by how many tokens were read before; nothing where all positions lie in one bucket."""
    rows = []
    for arm in arms:
        # A draft leaves its plain arm's law as it is, so its rows would say the same again.
        if arm.target is None or arm.plain != arm.id:
            continue
        for bucket in BUCKETS:
            worst, mean = (measured(arm, f"{name}.{bucket.name}") for name in ("kl_worst", "kl_mean"))
            if worst.n:
                counts = (str(worst.n), str(mean.n))
                rows.append((bucket, (arm.label, bucket.words, *_distances(arm, f".{bucket.name}", True), *counts)))
    if len({bucket.name for bucket, _ in rows}) < 2:
        rows = []
    lines = [
        "The same by context: how many tokens, of the prompt and of the answer, were read before the position. A "
        "prompt's answer may reach over several, and the prompts of two rows differ."
    ]
    columns = ("arm", "context", *_distance_columns(True), "positions", "prompts")
    return table("Changed outputs by context", columns, [row for _, row in rows], lines)


def _distance_columns(by_position: bool) -> tuple[str, ...]:
    ends = "95 % interval"
    tail, text = (
        (("KL median", "KL p99"), ("text's token, points", ends, "perplexity ratio", ends)) if by_position else ((), ())
    )
    return ("KL mean", ends, *tail, "KL worst", "same argmax", ends, *text)


def _distances(arm: ArmReport, suffix: str, by_position: bool) -> tuple[str, ...]:
    """What _distance_columns names, of all positions or of a bucket's."""

    def of(name: str) -> Measure:
        return measured(arm, name + suffix)

    def pair(name: str, words: Callable[[float | None], str]) -> tuple[str, str]:
        found = of(name)
        return words(found.value), NOTHING if found.low is None else f"{words(found.low)} to {words(found.high)}"

    tail = [number(of(name).value, 2) for name in ("kl_median", "kl_p99")]
    text = (*pair("reference_probability_change", signed), *pair("perplexity_ratio", _ratio))
    return (
        *pair("kl_mean", lambda value: number(value, 2)),
        *(tail if by_position else ()),
        number(of("kl_worst").value, 2),
        *pair("argmax_agreement", agreement),
        *(text if by_position else ()),
    )


def _ratio(value: float | None) -> str:
    """Two decimals would say 1.00 of most 8-bit caches."""
    return number(value, 4)


def audit(report: Report) -> Section:
    """The audit of every arm against the plain arm of its target."""
    compiled = bool((report.config.get("engine") or {}).get("compile"))
    arms = report.arms if compiled else report.arms[1:]
    lines = list(dict.fromkeys(_ties(arm) for arm in arms if arm.audit.gap_limit is not None))
    seen = [arm.audit.seen_above for arm in arms if arm.audit.seen_above is not None]
    if lines and seen:
        shown = f"A fault on more than {share(seen[0])} of prompts would have shown (95 %)"
        lines.append(f"{shown}; a rarer one may have been missed.")
    if compiled:
        lines.append("The engine is compiled: the audit scores every arm without a draft too, on the uncompiled path.")
    if any(arm.target is not None for arm in arms):
        lines.append(
            "changed: its target is another one, so it is not lossless; a draft on such a target is held against it."
        )
    if any(arm.audit.status == "lossy" for arm in arms):
        lines.append(
            "lossy: its rule may accept another token than the target's own choice, so it is not lossless. It is held "
            "to its own rule: no token may lie further below the target's best than its threshold allows."
        )
    if any(arm.audit.status == "differs" for arm in arms):
        lines.append(
            "differs: on this server its texts are not those of the arm without a draft. A server gives no scores, so "
            "a rounding tie cannot be told from a fault, and the arm is not called lossless."
        )
    if any(arm.audit.status == "unknown" for arm in arms):
        lines.append("unknown: nothing is known of how the server verifies proposals, so it is not called lossless.")
    lines += ["same ids: answers, of all repeats, with the baseline's token ids."] if arms else []
    columns: tuple[str, ...] = ("arm", "audit", "against", "identical", "tie", "lossy", "diverged", "differs")
    rows = [(*_audited(arm), NOTHING if arm is report.arms[0] else _same(arm)) for arm in arms]
    columns = (*columns, "surprise z", "steps z", "positions", "same ids")
    # Only the tests of the run's own temperature have something to say.
    asked = [i for i in range(len(columns)) if i < 2 or any(row[i] != NOTHING for row in rows)]
    return table(
        "Lossless audit", tuple(columns[i] for i in asked), [tuple(row[i] for i in asked) for row in rows], lines
    )


def _audited(arm: ArmReport) -> tuple[str, ...]:
    found = arm.audit
    counts = [str(found.count(kind)) if found.kinds else NOTHING for kind in _KINDS]
    if not any(kind == "differs" for _, kind in found.kinds):
        counts[4] = NOTHING
    if found.rule_limit is None:
        counts[2] = NOTHING
    if found.of_texts:
        # Nobody looked for either.
        counts[1] = counts[3] = NOTHING
    z = [NOTHING if value is None else f"{value:+.1f}" for value in (found.surprise_z, found.steps_z)]
    positions = NOTHING if arm.target is not None and not found.positions else str(found.positions)
    return (arm.label, found.status, found.against or NOTHING, *counts, *z, positions)


def _same(arm: ArmReport) -> str:
    same, of = arm.same_outputs
    return f"{same} of {of}"


def _ties(arm: ArmReport) -> str:
    found, itself = arm.audit, arm.audit.against or (arm.label if arm.target is not None else BASELINE)
    who = "" if itself == BASELINE else f" for {arm.label}"
    return (
        f"Where two tokens lie at most {number(found.gap_limit)} logits apart, rounding decides{who}: a tie. "
        f"{itself[0].upper() + itself[1:] if itself == BASELINE else itself} against itself has {found.noise_ties} "
        f"ties in {found.noise_positions} positions."
    )
