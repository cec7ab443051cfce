"""What an arm reads and holds, from model facts alone: weights, cache, and the limit that bandwidth sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from specq.core.types import CACHE_BLOCK, CACHE_BLOCK_BYTES, DraftSpec
from specq.experiment.arms import Arm
from specq.models.facts import DTYPE_BYTES, Facts
from specq.models.refs import Resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedModel:
    """A model that a run will load, in the dtype it will be held in.

    A quantized one says in `how` by what, in `stored_bytes` what its weights take, and in `twin_bytes` what a
    dense copy for passes of many rows takes beside them.
    """

    role: Literal["target", "draft"]
    resolved: Resolved
    facts: Facts
    dtype: str
    how: str | None = None
    stored_bytes: int | None = None
    twin_bytes: int = 0

    @property
    def name(self) -> str:
        """The model as the user wrote it, and by what it is quantized."""
        return self.resolved.name if self.how is None else f"{self.how} of {self.resolved.name}"

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights as held, a dense copy too.

        Those on disk, or one element a parameter where the dtype differs.
        """
        return self._stored + self.twin_bytes

    @property
    def _stored(self) -> int:
        if self.stored_bytes is not None:
            return self.stored_bytes
        return self._dense

    @property
    def _dense(self) -> int:
        if self.dtype == self.facts.dtype:
            return self.facts.weight_bytes
        return self.facts.parameters * DTYPE_BYTES[self.dtype]

    def cache_bytes(self, tokens: int) -> int:
        """Bytes of the key-value cache at `tokens` of context; windows are not taken into account."""
        return tokens * self.facts.cache_bytes_per_token(self.dtype)

    def bytes_per_token(self) -> int:
        """Bytes of weights that one pass of one row reads; of a quantized model, what is left of them."""
        return max(0, self.facts.bytes_per_token(self.dtype) - self._dense + self._stored)

    def exit_bytes_per_token(self, layers: int) -> int:
        """The same for the first `layers` layers with the model's own norm and head, all layers alike."""
        head = self.facts.vocab * self.facts.hidden * DTYPE_BYTES[self.dtype]
        return head + round((self.bytes_per_token() - head) * layers / self.facts.layers)

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the folder: a report may be published."""
        facts = self.facts
        return {
            "role": self.role,
            "name": self.name,
            "kind": self.resolved.kind,
            "revision": self.resolved.revision,
            "architecture": facts.architecture,
            "layers": facts.layers,
            "context": facts.context,
            "parameters": facts.parameters,
            "dtype": self.dtype,
            "weight_bytes": self.weight_bytes,
            "bytes_per_token": self.bytes_per_token(),
            "cache_bytes_per_token": self.facts.cache_bytes_per_token(self.dtype),
            "notes": list(facts.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedArm(Arm):
    """An arm with its sizes.

    `model_bytes` counts the target's weights and the draft's own. `cache_bytes` counts both caches
    at the longest prompt and its full output. `bytes_per_step` are the weights that one step reads:
    one target pass and k draft passes. `ceiling_tokens_per_s` is the bandwidth over that, times the
    k + 1 tokens of a step whose proposals are all accepted (1 without a draft); None when no
    bandwidth was measured. Caches and arithmetic only lower it.
    """

    model_bytes: int
    cache_bytes: int
    bytes_per_step: int
    ceiling_tokens_per_s: float | None


def planned_arm(
    arm: Arm, target: PlannedModel, draft: PlannedModel | None, *, tokens: int, bandwidth: float | None
) -> PlannedArm:
    """The arm with its sizes at `tokens` of context; `draft` is a second model, None when there is none."""
    k = arm.draft.k if arm.draft else 0
    read = target.bytes_per_token() + k * _draft_bytes(arm.draft, target, draft)
    own = draft is not None and draft is not target
    cache = round(target.cache_bytes(tokens) * _cache_share(arm, target))
    return PlannedArm(
        id=arm.id,
        levers=arm.levers,
        replica=arm.replica,
        draft=arm.draft,
        target=arm.target,
        plain=arm.plain,
        model_bytes=target.weight_bytes + (draft.weight_bytes if draft and own else 0),
        cache_bytes=cache + (draft.cache_bytes(tokens) if draft else 0),
        bytes_per_step=read,
        ceiling_tokens_per_s=None if bandwidth is None else (k + 1) * bandwidth / read,
    )


def _cache_share(arm: Arm, target: PlannedModel) -> float:
    """Bytes of an element of the arm's cache against one as computed."""
    kind = arm.target.kv_cache
    return 1.0 if kind is None else CACHE_BLOCK_BYTES[kind] / CACHE_BLOCK / DTYPE_BYTES[target.dtype]


def _draft_bytes(spec: DraftSpec | None, target: PlannedModel, draft: PlannedModel | None) -> int:
    if draft is not None:
        return draft.bytes_per_token()
    return target.exit_bytes_per_token(spec.layers) if spec and spec.layers else 0
