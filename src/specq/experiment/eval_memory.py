"""What evals hold in memory beside what measuring holds: batches of answers, perturbed weights, proofs in float32."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from specq.core.errors import Unsupported
from specq.core.types import TargetSpec
from specq.experiment.checks import Refusal
from specq.experiment.eval_plan import PlannedEval
from specq.experiment.memory import Load, blocks, gib
from specq.experiment.models import place_of
from specq.experiment.schema import Experiment
from specq.experiment.sizes import PlannedModel, cache_bytes
from specq.models.facts import DTYPE_BYTES
from specq.quantize.held import Place

FLOAT32 = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalsHeld:
    """The most bytes that answering evals and proving drafts hold at once, each in a process of its own; 0: none."""

    answers_bytes: int
    proofs_bytes: int

    @property
    def needed_bytes(self) -> int:
        """The larger of both."""
        return max(self.answers_bytes, self.proofs_bytes)


def held(experiment: Experiment, loads: Sequence[Load], evals: Sequence[PlannedEval]) -> EvalsHeld:
    """What evals hold: one target at a time with its drafts, whether arms are measured in blocks or not."""
    if not loads or not evals:
        return EvalsHeld(answers_bytes=0, proofs_bytes=0)
    answers = 0
    for block in blocks(loads, experiment.engine):
        arms = [load for load in loads if load.arm.id in block.arms]
        answers = max(answers, block.model_bytes + max(_batch(load, one) for load in arms for one in evals))
    if any(one.probe for one in evals) and any(load.arm.levers for load in loads):
        answers = max(answers, _probe(experiment, loads[0], evals))
    return EvalsHeld(answers_bytes=answers, proofs_bytes=_proofs(experiment, loads, evals))


def refusals(found: EvalsHeld, available: int | None) -> tuple[Refusal, ...]:
    """What of it does not fit; None available means that it is not checked."""
    said = []
    if available is not None and found.answers_bytes > available:
        said.append((found.answers_bytes, "answering the evals", "lower batch_size or max_new_tokens in [[evals]]"))
    if available is not None and found.proofs_bytes > available:
        way = "set through_loop = true in [[evals]], so that drafts answer by themselves"
        said.append((found.proofs_bytes, "proving in float32 that drafts leave the answers alone", way))
    return tuple(
        Refusal(
            arm=None,
            reason=f"memory will not hold it: {what} needs {gib(needed)} and {gib(available or 0)} are free; {way}",
            error=Unsupported,
        )
        for needed, what, way in said
    )


def _batch(load: Load, one: PlannedEval, dtype: str | None = None) -> int:
    """Bytes of the caches of the longest batch of answers; texts that are scored go one by one, on the target alone."""
    if not one.items:
        return 0
    own = next((read for read in load.evals if read.asked.name == one.asked.name), one)
    one = replace(one, tokens=own.tokens, room=own.room)
    # Of a whole text no window is longer than the context.
    window = load.target.facts.context
    tokens = max(room or min(prompt, window or prompt) for room, prompt in zip(one.room, one.tokens, strict=True))
    if one.new_tokens is None:
        return cache_bytes(load.arm, load.target, None, tokens, dtype)
    rows = min(one.batch_size, len(one.items))
    if (spec := load.arm.draft) is not None:
        # A step adds k + 1 columns and keeps as many as its luckiest row took; in the others they are holes. Each row
        # is the luckiest in as many steps as it has tokens at most.
        tokens += (one.new_tokens - 1) * (min(rows, spec.k + 1) - 1) + spec.k + 1
    return rows * cache_bytes(load.arm, load.target, load.draft, tokens, dtype)


def _probe(experiment: Experiment, first: Load, evals: Iterable[PlannedEval]) -> int:
    """Bytes of the baseline's weights with noise on them, which are floats whatever the target is stored in."""
    target = first.target
    dense = target.facts.parameters * DTYPE_BYTES.get(target.dtype, DTYPE_BYTES[FLOAT32])
    weights = max(dense, target.weight_bytes) if target.weights.schemes or target.weights.why else target.weight_bytes
    plain = replace(first, arm=replace(first.arm, draft=None, target=TargetSpec()), draft=None)
    return weights + max((_batch(plain, one) for one in evals if one.probe), default=0)


def _proofs(experiment: Experiment, loads: Sequence[Load], evals: Sequence[PlannedEval]) -> int:
    """Bytes of the largest group of drafts that are proved together: their target and all of them, in float32."""
    asked = [
        replace(one, batch_size=1)
        for one in evals
        if one.new_tokens is not None and not one.asked.through_loop and one.asked.task is None
    ]
    groups: dict[TargetSpec, list[Load]] = {}
    for load in loads:
        if load.arm.draft is not None and not load.arm.draft.lossy:
            groups.setdefault(load.arm.target, []).append(load)
    if not asked:
        return 0
    return max((_proof(experiment, group, asked) for group in groups.values()), default=0)


def _proof(experiment: Experiment, group: Sequence[Load], asked: Sequence[PlannedEval]) -> int:
    target = group[0].target
    drafts: dict[object, int] = {}
    for load in group:
        spec = load.arm.draft
        if spec is None or load.draft is None:
            continue
        dtype = FLOAT32 if spec.dtype in (None, "auto") else spec.dtype
        same = spec.model == "self" and spec.recipe is None and dtype == FLOAT32
        if same and spec.bits is None:
            continue
        shared = same and experiment.engine.kind == "hf"
        place = _in(experiment, load.draft, str(dtype))
        key = replace(spec.proposer, dtype=dtype)
        drafts[key] = load.draft.weights.held(place, shared=shared).weight_bytes
    weights = target.weights.held(_in(experiment, target, FLOAT32)).weight_bytes + sum(drafts.values())
    return weights + max(_batch(load, one, FLOAT32) for load in group for one in asked)


def _in(experiment: Experiment, model: PlannedModel, dtype: str) -> Place:
    """Where a model is held in another dtype, which the CPU may or may not have a layout of its own for."""
    engine = experiment.engine.model_copy(update={"dtype": dtype})
    return place_of(engine, dtype, model.place.prefill)
