"""An audit as rows of a two-column table, and which arms of several are not like for like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from specq.quantize.audited import CalibrationUsed, QuantAudit
from specq.quantize.recipes import ROW

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")
_MOST = 12


def rows(audit: QuantAudit) -> list[tuple[str, str]]:
    """(label, value) in the order a reader asks; long lists of layers are folded over their numbers."""
    quantized = f"{len(audit.quantized)} of {audit.asked} layers asked for"
    table = [
        ("format", " ".join(filter(None, [audit.format, _scheme(audit)]))),
        ("quantized", quantized if audit.quantized else f"nothing ({audit.asked} linear layers)"),
        *_listed("quantized layers", fold(audit.quantized)),
        *_listed("left in floats", _with_reasons(audit.skipped)),
        *_listed("fallen back to nearest", _with_reasons(audit.fallen_back)),
        ("embeddings, head", f"{audit.embeddings}, {audit.head}"),
        ("bits a weight", _bits(audit)),
        ("bytes on disk", _disk(audit)),
        ("bytes in memory", f"{audit.memory_bytes:,}"),
        ("kernel", audit.kernel),
        ("finite", _finite(audit)),
        ("distance to the source", _distance(audit)),
        ("tokenizer", _same(audit.same_tokenizer)),
        ("special ids", _same(audit.same_special_ids)),
        ("chat template", _same(audit.same_template)),
        *([("calibration", _calibration(audit.calibration))] if audit.calibration else []),
        ("source's weights", audit.source_grid or "on no coarse grid (in the layers looked at)"),
    ]
    return [*table, *(("note", note) for note in audit.notes)]


def like_for_like(audits: Mapping[str, QuantAudit]) -> dict[str, tuple[str, ...]]:
    """Arms that left other parts in floats than most do, each with the parts in which it differs, folded.

    The set that most arms share is the measure; between equals the one of the arm that comes first. {} when
    all arms agree. "+" marks what the arm left in floats and the others did not, "-" the reverse.
    """
    left = {arm: frozenset(audit.left_unquantized) for arm, audit in audits.items()}
    if not left:
        return {}
    sets = list(left.values())
    usual = max(sets, key=sets.count)
    differing = {arm: (mine - usual, usual - mine) for arm, mine in left.items() if mine != usual}
    return {
        arm: (*(f"+ {name}" for name in fold(sorted(more))), *(f"- {name}" for name in fold(sorted(less))))
        for arm, (more, less) in differing.items()
    }


def fold(names: Iterable[str]) -> list[str]:
    """Names that differ in their numbers alone as one, with the count: "model.layers.*.mlp.down_proj (30)"."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(_NUMBER.sub("*", name), []).append(name)
    return [f"{pattern} ({len(one)})" if len(one) > 1 else one[0] for pattern, one in found.items()]


def _listed(label: str, lines: Sequence[str]) -> list[tuple[str, str]]:
    if not lines:
        return []
    more = [f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return [(label, ", ".join([*lines[:_MOST], *more]))]


def _with_reasons(pairs: Iterable[tuple[str, str]]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for name, reason in pairs:
        by_reason.setdefault(reason, []).append(name)
    return [f"{folded}: {reason}" for reason, names in by_reason.items() for folded in fold(names)]


def _scheme(audit: QuantAudit) -> str:
    if not audit.quantized:
        return ""
    group = {None: "scales of several shapes", ROW: "one scale a row"}.get(
        audit.group_size, f"groups of {audit.group_size}"
    )
    symmetry = {None: "symmetric and not", True: "symmetric", False: "asymmetric"}[audit.symmetric]
    return f"({f'{audit.bits} bits' if audit.bits else 'several bit widths'}, {group}, {symmetry})"


def _bits(audit: QuantAudit) -> str:
    alone = audit.bits_per_quantized_weight
    return f"{audit.bits_per_weight:.2f} over all weights" + (
        "" if alone is None else f", {alone:.2f} over the quantized layers"
    )


def _disk(audit: QuantAudit) -> str:
    if not audit.predicted_bytes:
        return f"{audit.disk_bytes:,}"
    if audit.disk_bytes == audit.predicted_bytes:
        return f"{audit.disk_bytes:,} (as predicted)"
    away = round(audit.disk_bytes / audit.predicted_bytes - 1, 3)
    # A sign before 0.0 % would tell of a difference that the number denies.
    far = f"{away:+.1%}" if away else "less than 0.1% away"
    return f"{audit.disk_bytes:,} ({audit.predicted_bytes:,} predicted, {far})"


def _finite(audit: QuantAudit) -> str:
    if not audit.non_finite:
        return "yes, every floating tensor"
    return f"NO: NaN or infinite values in {', '.join(fold(audit.non_finite)[:_MOST])}"


def _distance(audit: QuantAudit) -> str:
    if audit.kl_mean is None or audit.kl_worst is None or audit.argmax_agreement is None:
        return "not measured"
    return (
        f"KL mean {audit.kl_mean:.4g}, worst {audit.kl_worst:.4g} nats; argmax agrees at "
        f"{audit.argmax_agreement:.1%} of {audit.positions} positions"
    )


def _same(same: bool | None) -> str:
    return {None: "not compared", True: "as the source's", False: "DIFFERS from the source's"}[same]


def _calibration(used: CalibrationUsed) -> str:
    dropped = f", {used.rows_too_short} too short" if used.rows_too_short else ""
    return (
        f"{used.source}: {used.rows_used:,} of {used.rows_given:,} rows{dropped}, "
        f"{used.tokens_used:,} of {used.tokens_given:,} tokens"
    )
