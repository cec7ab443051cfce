"""What an arm reads and holds, from headers alone: weights, cache, and the limit that bandwidth sets."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from specq.core.types import CACHE_BLOCK, CACHE_BLOCK_BYTES, DraftSpec
from specq.experiment.arms import Arm
from specq.models.facts import DTYPE_BYTES, Facts
from specq.models.refs import Resolved
from specq.quantize.held import Held, Place, Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedModel:
    """A model that a run will load, in the dtype it will be held in.

    One that the run quantizes says in `how` by what. `held` is what its `weights` take at their `place`: of a draft
    that shares weights with its target, its own alone.
    """

    role: Literal["target", "draft"]
    resolved: Resolved
    facts: Facts
    dtype: str
    weights: Weights
    place: Place
    held: Held
    how: str | None = None

    @property
    def name(self) -> str:
        """The model as the user wrote it, and by what it is quantized."""
        return self.resolved.name if self.how is None else f"{self.how} of {self.resolved.name}"

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights as held, dense copies too."""
        return self.held.weight_bytes

    def cache_bytes(self, tokens: int, dtype: str | None = None) -> int:
        """Bytes of the key-value cache at `tokens` of context, None: in its own dtype; windows are left out."""
        return tokens * self.facts.cache_bytes_per_token(dtype or self.cache_dtype)

    @property
    def cache_dtype(self) -> str:
        """The dtype of keys and values: that of the weights, or 16 bits beside weights that are no floats."""
        return self.dtype if self.dtype in DTYPE_BYTES else "float16"

    def bytes_per_token(self) -> int:
        """Bytes of weights that one pass of one row reads."""
        return self.held.read_bytes

    def exit_bytes_per_token(self, layers: int) -> int:
        """The same for the first `layers` layers with the model's own norm and head, all layers alike."""
        head = self.held.head_bytes
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
            "copy_bytes": self.held.copy_bytes,
            "bytes_per_token": self.bytes_per_token(),
            "cache_bytes_per_token": self.facts.cache_bytes_per_token(self.cache_dtype),
            "kernels": list(self.held.kernels),
            "notes": list(facts.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedArm(Arm):
    """An arm with its sizes.

    `model_bytes` counts the target's weights and the draft's own. `cache_bytes` counts both caches
    at the longest prompt and its full output, of all requests that run at once. `bytes_per_step` are the weights that
    one step reads: one target pass and k draft passes. `ceiling_tokens_per_s` is the bandwidth over that, times the
    k + 1 tokens of a step whose proposals are all accepted (1 without a draft); None when no
    bandwidth was measured. Caches and arithmetic only lower it. `no_kernel` tells which layers of its models run on
    no packed kernel, and why. A `refused` arm has no sizes: what it would hold may not even exist.
    """

    model_bytes: int | None = None
    cache_bytes: int | None = None
    bytes_per_step: int | None = None
    ceiling_tokens_per_s: float | None = None
    no_kernel: tuple[str, ...] = ()
    refused: bool = False


def planned_arm(
    arm: Arm, target: PlannedModel, draft: PlannedModel | None, *, tokens: int, bandwidth: float | None
) -> PlannedArm:
    """The arm with its sizes at `tokens` of context; `draft` is a second model, None when there is none."""
    k = arm.draft.k if arm.draft else 0
    read = target.bytes_per_token() + k * _draft_bytes(arm.draft, target, draft)
    own = draft is not None and draft is not target
    of_draft = draft.held.no_kernel if draft is not None and own else ()
    return PlannedArm(
        **_fields(arm),
        model_bytes=target.weight_bytes + (draft.weight_bytes if draft and own else 0),
        cache_bytes=cache_bytes(arm, target, draft, tokens) * arm.target.batch,
        bytes_per_step=read,
        ceiling_tokens_per_s=None if bandwidth is None else (k + 1) * bandwidth / read,
        no_kernel=(*target.held.no_kernel, *(f"the draft's {one}" for one in of_draft)),
    )


def refused_arm(arm: Arm) -> PlannedArm:
    """An arm that cannot run, without sizes."""
    return PlannedArm(**_fields(arm), refused=True)


def _fields(arm: Arm) -> dict[str, Any]:
    return {field.name: getattr(arm, field.name) for field in fields(Arm)}


def cache_bytes(
    arm: Arm, target: PlannedModel, draft: PlannedModel | None, tokens: int, dtype: str | None = None
) -> int:
    """Bytes of both caches of an arm at `tokens` of context; `dtype` None is that of each model."""
    kind = arm.target.kv_cache
    # Bytes of an element of a quantized cache against one as computed.
    share = 1.0 if kind is None else CACHE_BLOCK_BYTES[kind] / CACHE_BLOCK / DTYPE_BYTES[dtype or target.cache_dtype]
    return round(target.cache_bytes(tokens, dtype) * share) + (draft.cache_bytes(tokens, dtype) if draft else 0)


def _draft_bytes(spec: DraftSpec | None, target: PlannedModel, draft: PlannedModel | None) -> int:
    if draft is not None:
        return draft.bytes_per_token()
    return target.exit_bytes_per_token(spec.layers) if spec and spec.layers else 0
