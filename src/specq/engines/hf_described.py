"""What a run records of a draft's own model on the reference engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specq.core.types import DraftSpec
from specq.models import facts as model_facts
from specq.models import refs
from specq.quantize.replace import held_bytes

if TYPE_CHECKING:
    from specq.engines.hf_target import HFTarget


def draft(target: HFTarget, spec: DraftSpec) -> dict[str, Any] | None:
    """The fields of a second model, None where the draft is the target itself; bytes are those beside the target's."""
    if spec.model is None or (loaded := target.loaded_draft(spec)) is target.loaded:
        return None
    facts = target.facts if spec.model == "self" else model_facts.facts(refs.resolve(spec.model))
    dtype = str(loaded.model.dtype).removeprefix("torch.")
    return {
        "name": target.resolved.name if spec.model == "self" else spec.model,
        "weight_bytes": held_bytes(target.model, loaded.model) - held_bytes(target.model),
        "bytes_per_token": loaded.bytes_per_token or facts.bytes_per_token(dtype),
        "cache_bytes_per_token": facts.cache_bytes_per_token(dtype),
        "parameters": facts.parameters,
        "dtype": dtype,
        "sha256": facts.weights_sha256,
    }
