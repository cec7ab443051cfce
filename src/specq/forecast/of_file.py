"""From an experiment file to what is asked of it: its drafts, and the levers that change their target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from specq.core.errors import ConfigError
from specq.core.types import DraftSpec
from specq.experiment.config import from_resolved
from specq.experiment.levers import Kind, Lever
from specq.experiment.schema import Experiment
from specq.forecast import SERVED
from specq.models import refs

OTHER_TARGETS = ("quantize", "model")
"""Kinds of levers that make another target of an experiment's, each by itself."""

_ELSEWHERE: dict[Kind, str] = {
    "kv_cache": "change the cache",
    "prompt": "change the prompts",
    "prefix_cache": "keep what prompts begin with",
    "batch": "answer several requests at once",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The experiment with the levers that are asked about, each alone an arm; `notes` say what was left out, and why.

    `targets` and `drafts` are the names of its levers that change the target, and of those that draft.
    """

    experiment: Experiment
    targets: tuple[str, ...]
    drafts: tuple[str, ...]
    notes: tuple[str, ...]


def ask(experiment: Experiment, *, targets: bool) -> Asked:
    """What is asked of the drafts of an experiment, and with `targets` of its other targets beside them.

    Every k and every exact rule is forecast, so that levers that propose the same stand once, under the first name,
    and a lossy lever under an exact rule.

    Raises:
        ConfigError: it has no lever of kind draft, its engine is a server, or its answers have one token.
    """
    if experiment.engine.is_server:
        raise ConfigError(
            f'{experiment.name}: engine.kind = "{experiment.engine.kind}": allowed is hf or mlx, which read the '
            f"weights; {SERVED}"
        )
    if experiment.workload.max_new_tokens < 2:
        raise ConfigError(
            f"{experiment.name}: workload.max_new_tokens = {experiment.workload.max_new_tokens}: the first token comes "
            "with the prompt and takes no step, so there is none to forecast; allowed is 2 or more"
        )
    levers = experiment.levers
    drafts, notes = _drafts(levers.items(), experiment.name)
    changed = {name: lever for name, lever in levers.items() if lever.kind in OTHER_TARGETS}
    if changed and not targets:
        notes.append(f"{', '.join(changed)} change the target: only drafts of the plain target are forecast here")
    for kind, does in _ELSEWHERE.items():
        if own := [name for name, lever in levers.items() if lever.kind == kind]:
            notes.append(f"{', '.join(own)} {does} and are left out: specq run measures them")
    kept = (changed if targets else {}) | drafts
    values = experiment.resolved()
    values["levers"] = {name: lever.model_dump(mode="json") for name, lever in kept.items()}
    values["arms"] = {"run": ["each"]}
    return Asked(
        experiment=from_resolved(values),
        targets=tuple(changed) if targets else (),
        drafts=tuple(drafts),
        notes=tuple(notes),
    )


def changes_target(experiment: Experiment) -> bool:
    """Whether it has levers that give the target other weights: then targets and drafts make a grid."""
    return any(lever.kind in OTHER_TARGETS for lever in experiment.levers.values())


def _drafts(levers: Iterable[tuple[str, Lever]], name: str) -> tuple[dict[str, Lever], list[str]]:
    found: dict[str, Lever] = {}
    same: dict[tuple[DraftSpec, DraftSpec | None], list[str]] = {}
    notes, kinds = [], dict[str, list[str]]()
    for own, lever in levers:
        kinds.setdefault(lever.kind, []).append(own)
        draft = lever.draft()
        if draft is None:
            continue
        if draft.lossy:
            notes.append(f"{own}: {draft.rule} is lossy, so its steps cannot be replayed: the exact rules are forecast")
            lever = _exact(lever)
        proposer = draft.proposer
        if proposer.model is not None:
            proposer = replace(proposer, model=refs.same(proposer.model))
        proposer = replace(proposer, stop_below=draft.stop_below)
        proposes = (proposer, draft.lookup.proposer if draft.lookup_first else None)
        if proposes in same:
            same[proposes].append(own)
            continue
        same[proposes] = [own]
        found[own] = lever
    if not found:
        kept = "; ".join(f"{kind}: {', '.join(own)}" for kind, own in kinds.items()) or "none"
        raise ConfigError(
            f"{name}: it has no lever of kind draft, and drafts are what is chosen here (its levers are {kept}); add "
            'one, for example [levers.lookup] with kind = "draft" and method = "lookup", or type: specq run FILE'
        )
    for first, *others in same.values():
        if others:
            notes.append(f"{', '.join(others)} propose as {first} does: with every k and rule, {first} stands for them")
    return found, notes


def _exact(lever: Lever) -> Lever:
    values: dict[str, Any] = lever.model_dump(mode="json")
    values |= {"rule": "greedy_draft" if lever.method == "lookup" else "rejection", "threshold": None}
    return Lever.model_validate(values)
