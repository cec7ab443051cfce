"""What a quantized folder really holds, as data; stored with the artifact and shown in reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from specq.core.errors import ModelError
from specq.core.typed import tuples

NO_KERNEL = "no kernel here: "
"""How the reason begins why a layer runs on no packed kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationUsed:
    """The text that a method saw: rows and tokens as given, as used, and what was dropped or cut."""

    source: str
    sha256: str
    rows_given: int
    rows_used: int
    rows_too_short: int
    tokens_given: int
    tokens_used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantAudit:
    """The audit of a quantized folder. None stands where a fact could not be had, and `notes` say why.

    `format` is the name that the folder's config gives its weights ("pack-quantized", "mlx affine").
    `asked` counts the linear layers that the recipe asked for (all but the head for folders that others
    made); `quantized` names those that are; `skipped` and `fallen_back` hold (layer, reason), the latter for
    layers that a calibrated method rounded to nearest after all. Bits per weight are effective: scales,
    zero points and whatever stayed in floats counted; `bits_per_weight` over all weights, the other over
    quantized layers alone. `predicted_bytes` is what the recipe should need on disk. `memory_bytes` is what
    the weights take when held as stored.
    `embeddings` and `head` are "kept", "quantized", "tied" (a head that is the embedding) or "none".
    `non_finite` names tensors with NaN or infinite values. KL in nats a token, source against this folder,
    on `positions` positions: mean and worst; `argmax_agreement` is a share. `same_tokenizer`,
    `same_special_ids` and `same_template` compare with the source. `source_grid` says on which grid the
    source's own weights lie, None when they lie on none. `kernel` names the packed kernel that runs the
    layers here, with the dtype and the devices for which that is so, or "no kernel here: " and why.
    """

    format: str
    bits: int | None
    group_size: int | None
    symmetric: bool | None
    asked: int
    quantized: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]
    fallen_back: tuple[tuple[str, str], ...]
    bits_per_weight: float
    bits_per_quantized_weight: float | None
    disk_bytes: int
    predicted_bytes: int | None
    memory_bytes: int
    embeddings: str
    head: str
    non_finite: tuple[str, ...]
    kl_mean: float | None
    kl_worst: float | None
    argmax_agreement: float | None
    positions: int
    same_tokenizer: bool | None
    same_special_ids: bool | None
    same_template: bool | None
    calibration: CalibrationUsed | None
    source_grid: str | None
    kernel: str
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads them back."""
        return asdict(self)

    @property
    def left_unquantized(self) -> tuple[str, ...]:
        """Names of what stayed in floats: arms that differ in them are not like for like."""
        kept = [f"{part} {what}" for part, what in (("embeddings", self.embeddings), ("head", self.head))]
        return (*sorted(name for name, _ in self.skipped), *(k for k in kept if not k.endswith("quantized")))


def from_json(value: Mapping[str, Any]) -> QuantAudit:
    """The audit of a JSON object.

    Raises:
        ModelError: a field is missing or unknown; another version of specq wrote it.
    """
    known = {f.name for f in fields(QuantAudit)}
    if set(value) != known:
        wrong = sorted(set(value) ^ known)
        raise ModelError(f"a quantization audit by another version of specq (fields {', '.join(wrong)}): audit it anew")
    given = {key: tuples(item) for key, item in value.items()}
    used = value["calibration"]
    return QuantAudit(**{**given, "calibration": None if used is None else CalibrationUsed(**used)})
