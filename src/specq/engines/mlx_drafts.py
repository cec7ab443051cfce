"""A draft model of the MLX engine, and how its bits are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specq.core.errors import Unsupported
from specq.core.types import DraftSpec
from specq.models import facts as model_facts
from specq.models import headers, refs
from specq.models.facts import DTYPE_BYTES
from specq.quantize import mlx_methods, recipes
from specq.quantize.mlx_methods import GROUPS

if TYPE_CHECKING:
    from specq.engines.mlx_target import MLXTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDraft:
    """A draft model beside a target: its cache, the rows of its vocabulary, its context, and what was done to it."""

    name: str
    kv: Any
    vocabulary: int
    context: int | None
    notes: tuple[str, ...]


def rounding(draft: DraftSpec) -> recipes.Recipe:
    """A draft's bits as a recipe.

    Raises:
        Unsupported: MLX has no groups of that size.
    """
    # MLX has no scale of a whole row: its own default stands in for it.
    group = draft.group_size or GROUPS[0]
    if group not in GROUPS:
        raise Unsupported(
            f"bits = {draft.bits} with group_size = {group}: the mlx engine has no such groups, allowed is 32, 64 or "
            "128, and 0 for 64"
        )
    return recipes.make({"method": "mlx-rtn", "bits": draft.bits, "group_size": group, "head": draft.head})


def described(target: MLXTarget, draft: DraftSpec) -> dict[str, Any] | None:
    """What a run records of a draft's second model; None where the draft is the target itself."""
    loaded = target.draft_model(draft)
    model = loaded.kv.model
    if model is target.kv.model:
        return None
    facts = target.facts if draft.model == "self" else model_facts.facts(refs.resolve(str(draft.model)))
    values = mlx_methods.parameters(model)
    held = sum(value.nbytes for _, value in values)
    floats = [value for _, value in values if mlx_methods.is_float(value)]
    dtype = str(max(floats, key=lambda value: value.size).dtype).rpartition(".")[2]
    read = facts.bytes_per_token(dtype)
    if draft.bits is not None:
        # Of rounded weights nothing lies on disk; of an embedding that is not the head a token reads one row.
        roles = {} if facts.tied else mlx_methods.layer_roles(model, headers.read_json(facts.folder / "config.json"))
        read = held - sum(value.nbytes for name, value in values if roles.get(name.rpartition(".")[0]) == "embedding")
    return {
        "name": loaded.name,
        "weight_bytes": held,
        "bytes_per_token": read,
        "cache_bytes_per_token": loaded.kv.bytes_per_token(facts.cache_elements, DTYPE_BYTES[dtype]),
        "parameters": facts.parameters,
        "dtype": dtype,
        "sha256": facts.weights_sha256,
    }
