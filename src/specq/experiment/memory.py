"""What must be in memory at once: all targets with their drafts, or those of one block of arms at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from specq.core.errors import Unsupported
from specq.experiment.checks import Refusal
from specq.experiment.schema import Engine, Experiment
from specq.experiment.sizes import PlannedArm, PlannedModel

if TYPE_CHECKING:
    from specq.experiment.eval_plan import PlannedEval

GIB = 1 << 30
NAMES_SHOWN = 4
LOGIT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One arm with the models that it runs on: its target, and its draft's second model where it has one.

    `evals` are the run's as its target reads them.
    """

    arm: PlannedArm
    target: PlannedModel
    draft: PlannedModel | None
    evals: tuple[PlannedEval, ...] = ()

    @property
    def cache_bytes(self) -> int:
        """Bytes of the arm's caches."""
        return self.arm.cache_bytes or 0

    def uses(self, model: PlannedModel) -> bool:
        """Whether the arm runs on this very model, or drafts with it."""
        return model is self.target or model is self.draft


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Arms that share a target, in their order; the first has no draft.

    `model_bytes` counts the target and each draft that is loaded beside it, `cache_bytes` the caches of
    the arm that has the largest.
    """

    arms: tuple[str, ...]
    model_bytes: int
    cache_bytes: int

    @property
    def needed_bytes(self) -> int:
        """Bytes of the block alone."""
        return self.model_bytes + self.cache_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a run holds at once. `blocks` is empty where all targets are in memory together.

    `together_bytes` is what all of them would take.
    """

    blocks: tuple[Block, ...]
    needed_bytes: int
    together_bytes: int
    refusals: tuple[Refusal, ...]
    note: str


def blocks(loads: Sequence[Load], engine: Engine) -> tuple[Block, ...]:
    """The blocks of all arms, in the order of their first arms.

    An engine loads a second model once for each target that it drafts for, and shares it among the arms of
    that target whose drafts differ in k or rule alone.
    """
    found: dict[object, list[Load]] = {}
    for load in loads:
        found.setdefault(load.arm.target.weights, []).append(load)
    return tuple(_block(group, engine) for group in found.values())


def _block(loads: Sequence[Load], engine: Engine) -> Block:
    drafts = {}
    for load in loads:
        spec = load.arm.draft
        if spec is not None and load.draft is not None and load.draft is not load.target:
            key = replace(spec.proposer, dtype=spec.dtype or engine.dtype)
            drafts[key] = load.draft.weight_bytes
    return Block(
        arms=tuple(load.arm.id for load in loads),
        model_bytes=loads[0].target.weight_bytes + sum(drafts.values()),
        cache_bytes=max(load.cache_bytes for load in loads),
    )


def held(found: Sequence[Block], experiment: Experiment, available: int | None, logits_bytes: int) -> Held:
    """What of the blocks is in memory at once; None available means that it is not checked.

    All of them where they fit and `workload.order` does not ask for blocks. `logits_bytes` are those that
    the audit of a run in blocks keeps on disk.
    """
    if not found:
        # Every arm is refused, so nothing is loaded.
        return Held(blocks=(), needed_bytes=0, together_bytes=0, refusals=(), note="")
    together = sum(block.model_bytes for block in found) + max(block.cache_bytes for block in found)
    largest = max(found, key=lambda block: block.needed_bytes)
    fits = available is None or together <= available
    asked = experiment.workload.order == "blocks"
    if len(found) == 1 or (fits and not asked):
        alone = asked and len(found) == 1
        note = 'order = "blocks" changes nothing here: all arms share one target' if alone else ""
        refusals = _refused(largest, available, ())
        return Held(blocks=(), needed_bytes=together, together_bytes=together, refusals=refusals, note=note)
    why = "as workload.order asks"
    if available is not None and not fits:
        why = f"for all models together need {gib(together)} and {gib(available)} are free"
    return Held(
        blocks=tuple(found),
        needed_bytes=largest.needed_bytes,
        together_bytes=together,
        refusals=_refused(largest, available, largest.arms),
        note=_note(found, experiment, why, largest, logits_bytes),
    )


def logits_bytes(target: PlannedModel, experiment: Experiment, prompts: int) -> int:
    """The most that the baseline's float32 logits along its answers to all prompts take, once each; 0 unaudited."""
    if not experiment.audit.enabled:
        return 0
    return prompts * experiment.workload.max_new_tokens * target.facts.vocab * LOGIT_BYTES


def _refused(block: Block, available: int | None, arms: Sequence[str]) -> tuple[Refusal, ...]:
    if available is None or block.needed_bytes <= available:
        return ()
    whose = f"even one target at a time, {_some(arms)}: its " if arms else ""
    reason = (
        f"memory will not hold it: {whose}weights and caches need {gib(block.needed_bytes)} and {gib(available)} are "
        "free; allowed is what fits: take a smaller model, a shorter dtype or fewer drafts"
    )
    return (Refusal(arm=None, reason=reason, error=Unsupported),)


def _note(found: Sequence[Block], experiment: Experiment, why: str, largest: Block, logits_bytes: int) -> str:
    load = experiment.workload
    odd = load.repeats * load.processes % 2
    kept = f"; the audit keeps up to {gib(logits_bytes)} of the baseline's logits in the run's folder until it ends"
    return (
        f"arms go in blocks, {why}: one target at a time ({' | '.join(_some(block.arms) for block in found)}), in "
        f"fresh processes that need up to {gib(largest.needed_bytes)}, forwards and then backwards (ABBA). What that "
        "costs in trust: what changes on the machine between two blocks is in their ratios, for arms of different "
        "blocks do not take turns on a prompt; going back and forth cancels a steady drift and nothing else"
        + (", and an odd number of turns not even that: give an even workload.repeats" if odd else "")
        + (kept if logits_bytes else "")
    )


def _some(arms: Sequence[str]) -> str:
    more = f" and {len(arms) - NAMES_SHOWN} more" if len(arms) > NAMES_SHOWN else ""
    return ", ".join(arms[:NAMES_SHOWN]) + more


def gib(count: int) -> str:
    """A count of bytes as messages show it."""
    return f"{count / GIB:.2f} GiB"
