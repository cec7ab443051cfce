"""What becomes of the outputs, as sections: quantized weights, changed outputs and the lossless audit."""

from __future__ import annotations

from collections.abc import Sequence

from specq.quantize.audit_rows import fold
from specq.report.assemble import ArmReport, Report
from specq.report.audit import BASELINE
from specq.report.quantized import QuantizedWeights, listed
from specq.report.section import Section, measured, table
from specq.report.targets import NO_KERNEL
from specq.report.words import NOTHING, agreement, number, share, size


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

    def row(arm: ArmReport) -> tuple[str, ...]:
        kl, agreed = measured(arm, "kl_mean"), measured(arm, "argmax_agreement")
        ends = NOTHING if kl.low is None else f"{number(kl.low, 2)} to {number(kl.high, 2)}"
        shares = NOTHING if agreed.low is None else f"{agreement(agreed.low)} to {agreement(agreed.high)}"
        same, of = arm.same_outputs
        return (
            arm.label,
            number(kl.value, 2),
            ends,
            number(measured(arm, "kl_worst").value, 2),
            agreement(agreed.value),
            shares,
            str(measured(arm, "kl_worst").n),
            f"{same} of {of}",
            *([share(measured(arm, "quantized_cache_share").value)] if cached else []),
        )

    before = ("arm", "KL mean", "95 % interval", "KL worst", "same argmax", "95 % interval", "positions", "same ids")
    lines = [
        "A changed target may answer otherwise by right. Both read along the baseline's answers: KL of the baseline's "
        "next-token law against the arm's, in nats a token; same argmax: positions where both name the same token. "
        "What that costs on your task is not measured.",
    ]
    if cached:
        lines.append("cache share: of the keys and values that attention read, those from the quantized cache.")
    return table("Changed outputs", (*before, *(["cache share"] if cached else [])), map(row, held), lines)


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
    lines += ["same ids: answers, of all repeats, with the baseline's token ids."] if arms else []
    columns: tuple[str, ...] = ("arm", "audit", "against", "identical", "tie", "diverged")
    rows = [(*_audited(arm), NOTHING if arm is report.arms[0] else _same(arm)) for arm in arms]
    columns = (*columns, "surprise z", "steps z", "positions", "same ids")
    # Only the tests of the run's own temperature have something to say.
    asked = [i for i in range(len(columns)) if i < 2 or any(row[i] != NOTHING for row in rows)]
    return table(
        "Lossless audit", tuple(columns[i] for i in asked), [tuple(row[i] for i in asked) for row in rows], lines
    )


def _audited(arm: ArmReport) -> tuple[str, ...]:
    found = arm.audit
    counts = [str(found.count(kind)) if found.kinds else NOTHING for kind in ("identical", "tie", "diverged")]
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
