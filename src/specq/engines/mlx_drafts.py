"""A draft model of the MLX engine, and how its bits are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specq.core.errors import Unsupported
from specq.core.types import DraftSpec
from specq.quantize import recipes
from specq.quantize.mlx_methods import GROUPS


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
