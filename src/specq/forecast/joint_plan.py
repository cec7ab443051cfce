"""Every target with every draft, before any weight is loaded: which cells there can be, and what each holds."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from specq.core.errors import Unsupported
from specq.core.types import DraftSpec, TargetSpec
from specq.experiment import checks
from specq.experiment import plan as planning
from specq.experiment.arms import on_target
from specq.experiment.config import from_resolved
from specq.experiment.levers import SELF, Lever
from specq.experiment.memory import gib
from specq.experiment.plan import Plan
from specq.experiment.schema import Experiment
from specq.experiment.sizes import PlannedArm
from specq.forecast.of_file import OTHER_TARGETS, Asked
from specq.report.forecast_grid import BASELINE

Key = tuple[str, str | None]
"""A target's name and a draft's; None: it decodes plainly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """The grid as it can be run: `bytes` of the cells that can, and why the others cannot.

    The weights of a target and of what its draft holds beside it are counted, caches are not. `plan` is of all cells,
    but needs the memory of one target with its drafts. `together` says whether memory holds all targets at once,
    without their drafts.
    """

    asked: Asked
    plan: Plan
    bytes: Mapping[Key, int]
    why_not: Mapping[Key, str]
    together: bool

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that can be run, the baseline first."""
        return tuple(target for target, draft in self.bytes if draft is None)

    def drafts(self, target: str) -> tuple[str, ...]:
        """The drafts that a target can be run with."""
        return tuple(draft for own, draft in self.bytes if own == target and draft is not None)


def lay(asked: Asked, *, free: int | None) -> Laid:
    """Plan every target with every draft.

    What stops the baseline, a target alone or a draft on the baseline stops the grid, for it is a mistake; what stops
    a pair alone is said of it.

    Args:
        asked: levers that change the target, and drafts.
        free: bytes that the device has, None: not checked.

    Raises:
        UserError: models, tokenizers or prompts will not do, a target speaks other tokens than the baseline, or memory
            holds not even the baseline with its drafts.
    """
    experiment = asked.experiment
    why: dict[Key, str] = {
        (target, draft): reason
        for target in asked.targets
        for draft in asked.drafts
        if (reason := _senseless(experiment.levers[target], experiment.levers[draft], target, draft))
    }
    pairs = [(target, draft) for target in asked.targets for draft in asked.drafts if (target, draft) not in why]
    # The memory of all targets at once is no question here: each is studied by itself.
    plan = planning.make(with_arms(experiment, ["each", *(" + ".join(pair) for pair in pairs)]), available_bytes=_ALL)
    _check_tokens(plan)
    keys = {key(arm, experiment): arm for arm in plan.arms}
    refused: dict[str, str] = {}
    for refusal in plan.refusals:
        if refusal.arm is not None:
            refused.setdefault(refusal.arm, refusal.reason)
    own = {keys[pair].id: pair for pair in pairs}
    replace(plan, refusals=tuple(one for one in plan.refusals if one.arm is None or one.arm not in own)).check()
    why |= {own[arm]: reason for arm, reason in refused.items() if arm in own}
    arms = {name: arm for name, arm in keys.items() if not arm.refused}
    needed = _needed(arms)
    why |= _too_large(arms, needed, free)
    if free is not None and (evals := max(plan.evals_bytes, plan.proofs_bytes)) > free:
        raise Unsupported(
            f"memory will not hold it: answering the evals needs {gib(evals)} and {gib(free)} are free; lower "
            "batch_size or max_new_tokens in [[evals]], or leave the evals out"
        )
    sizes = {name: arm.model_bytes or 0 for name, arm in arms.items() if name not in why}
    plain = sum(size for (_, draft), size in sizes.items() if draft is None)
    largest = max(arm.cache_bytes or 0 for arm in arms.values())
    order = [(t, d) for t in (BASELINE, *asked.targets) for d in (None, *asked.drafts)]
    kept = max(needed[target] for target, draft in sizes if draft is None)
    return Laid(
        asked=asked,
        plan=replace(plan, available_bytes=free, needed_bytes=kept),
        bytes={name: sizes[name] for name in order if name in sizes},
        why_not={name: why[name] for name in order if name in why},
        together=free is None or plain + largest <= free,
    )


_ALL = sys.maxsize


def free_bytes(experiment: Experiment) -> int | None:
    """What the experiment's device has free; None: it is not checked."""
    return checks.free_bytes(experiment.engine)


def with_arms(experiment: Experiment, arms: list[str]) -> Experiment:
    """The experiment with other arms."""
    values = experiment.resolved()
    values["arms"] = {"run": arms}
    return from_resolved(values)


def key(arm: PlannedArm, experiment: Experiment) -> Key:
    """The cell that an arm is."""
    kinds = {experiment.levers[name].kind: name for name in arm.levers}
    changed = [kinds[kind] for kind in OTHER_TARGETS if kind in kinds]
    return changed[0] if changed else BASELINE, kinds.get("draft")


def target_spec(asked: Asked, target: str) -> TargetSpec:
    """What a target's lever changes; nothing for the baseline."""
    return TargetSpec() if target == BASELINE else asked.experiment.levers[target].change(TargetSpec())


def draft_spec(asked: Asked, target: str, draft: str) -> DraftSpec:
    """The draft of a lever of that kind, as it serves a target."""
    found = asked.experiment.levers[draft].draft()
    assert found is not None
    return on_target(found, target_spec(asked, target))


def _check_tokens(plan: Plan) -> None:
    """Refuse a target whose tokens are not the baseline's: cells are compared by their seconds a token."""
    for one in plan.stand_ins:
        if one.other_tokens:
            raise Unsupported(
                f"{one.name}: the tokens of {one.source} are not the target's ({one.other_tokens}), so its seconds a "
                "token have no place beside the other cells'; take the lever out: specq run compares whole answers "
                '(objective.minimise = "e2e_s", workload.lengths = "natural")'
            )


def _senseless(target: Lever, draft: Lever, name: str, own: str) -> str:
    """Why a draft makes no sense on a quantized target, or on another model; "" where it does."""
    if target.kind == "model":
        same = draft.model is not None and draft.recipe is None and _path(draft.model) == _path(str(target.model))
        return f"{own} is {name} itself: a draft that costs as much as its target saves nothing" if same else ""
    if draft.model != SELF:
        return ""
    if draft.bits is not None:
        return (
            f"{own} rounds its target in memory, and {name} is quantized already; for {draft.bits} bits of the plain "
            "target beside it give the lever a recipe in the place of bits"
        )
    same = (draft.recipe, draft.prefill) == (target.recipe, target.prefill)
    if draft.recipe is not None and same:
        return f"{own} is {name} itself: a draft that costs as much as its target saves nothing"
    return ""


def _path(name: str) -> Path:
    return Path(name).expanduser().absolute()


def _needed(arms: Mapping[Key, PlannedArm]) -> dict[str, int]:
    """Bytes of each target with all its drafts, which a study loads together, and of the largest cache."""
    found = {}
    for target in (name for name, draft in arms if draft is None):
        own = [arm for name, arm in arms.items() if name[0] == target]
        plain = arms[target, None].model_bytes or 0
        beside = sum((arm.model_bytes or 0) - plain for arm in own)
        found[target] = plain + beside + max(arm.cache_bytes or 0 for arm in own)
    return found


def _too_large(arms: Mapping[Key, PlannedArm], needed: Mapping[str, int], free: int | None) -> dict[Key, str]:
    """The cells of targets that memory does not hold."""
    found: dict[Key, str] = {}
    for target, count in needed.items():
        if free is None or count <= free:
            continue
        said = f"with its drafts it needs {gib(count)} and {gib(free)} are free"
        if target == BASELINE:
            raise Unsupported(
                f"memory will not hold it: the grid is held against the plain target, and {said}; allowed is what "
                "fits: take a smaller model, a shorter dtype or fewer drafts"
            )
        found |= dict.fromkeys((name for name in arms if name[0] == target), f"memory will not hold it: {said}")
    return found
