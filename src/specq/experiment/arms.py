"""Levers to arms. An arm's id is its levers and its replica number, whatever the order they are written in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from specq.core.types import DraftSpec, TargetSpec
from specq.experiment.levers import LOSSLESS_KINDS, SELF
from specq.experiment.schema import Experiment

BASELINE = "baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """The baseline plus a set of levers; the baseline has none.

    `plain` is the id of the arm with the same target, no draft, no prefix cache and no batch: what these must leave
    unchanged.
    """

    id: str
    levers: tuple[str, ...]
    replica: int
    draft: DraftSpec | None
    target: TargetSpec = field(default_factory=TargetSpec)
    plain: str = f"{BASELINE}#1"


def arms(experiment: Experiment) -> tuple[Arm, ...]:
    """The arms of an experiment: "baseline#1", its A/A twin "baseline#2", then one for each set of levers.

    An arm with a draft, a prefix cache or a batch on a changed target comes after the same target's plain arm, which is
    added where it was not asked for: they are held against what they must not change.
    """
    made: dict[str, Arm] = {}
    for n in (1, 2):
        made[f"{BASELINE}#{n}"] = Arm(id=f"{BASELINE}#{n}", levers=(), replica=n, draft=None)
    for levers in experiment.lever_sets():
        plain = tuple(name for name in levers if experiment.levers[name].kind not in LOSSLESS_KINDS)
        for names in dict.fromkeys((plain or levers, levers)):
            arm = _arm(experiment, names, plain)
            made.setdefault(arm.id, arm)
    return tuple(made.values())


def _arm(experiment: Experiment, names: tuple[str, ...], plain: tuple[str, ...]) -> Arm:
    levers = [experiment.levers[name] for name in names]
    target = TargetSpec()
    for lever in levers:
        target = lever.change(target)
    draft = next((draft for lever in levers if (draft := lever.draft()) is not None), None)
    return Arm(
        id=f"{'+'.join(names)}#1",
        levers=names,
        replica=1,
        draft=None if draft is None else on_target(draft, target),
        target=target,
        plain=f"{'+'.join(plain) or BASELINE}#1",
    )


def on_target(draft: DraftSpec, target: TargetSpec) -> DraftSpec:
    """The draft as it serves a target.

    "self" by a recipe is the model before it is quantized, so on another model than the experiment's it is that one,
    by name.
    """
    if draft.model == SELF and draft.recipe is not None and target.source is not None:
        return replace(draft, model=target.source)
    return draft


def sources(experiment: Experiment) -> dict[str, tuple[str, ...]]:
    """The models that arms put in the target's place, in the order of the arms, each with the levers that name it."""
    found = dict.fromkeys(arm.target.source for arm in arms(experiment) if arm.target.source is not None)
    levers = experiment.levers.items()
    return {
        source: tuple(name for name, lever in levers if lever.kind == "model" and lever.model == source)
        for source in found
    }
