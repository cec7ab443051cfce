"""The records of the models that a worker loaded: each target once, and each draft's own model on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specq.core.records import LoadedModel
from specq.core.types import DraftSpec, TargetSpec
from specq.engines.base import LoadedTarget
from specq.models.refs import BEFORE
from specq.run.artifacts import label, source_of
from specq.run.job import Job


def record_targets(job: Job, specs: Mapping[str, TargetSpec], targets: Mapping[str, LoadedTarget]) -> None:
    """Record each target with the arms that run on it, the first arm's first; all by arm, recipes made folders."""
    for weights in dict.fromkeys(spec.weights for spec in specs.values()):
        users = tuple(arm for arm, spec in specs.items() if spec.weights == weights)
        described = targets[users[0]].describe()
        asked = job.targets[users[0]]
        if asked.recipe is not None:
            # The name of a folder in the cache says nothing to a reader, nor that the run quantized it.
            described["name"] = label(source_of(job.experiment, asked), asked.recipe)
            described["notes"] = tuple(note for note in described["notes"] if not note.startswith(BEFORE))
        job.store.append(LoadedModel(process=job.process, role="target", arms=users, **described))


def record_drafts(
    job: Job,
    specs: Mapping[str, TargetSpec],
    targets: Mapping[str, LoadedTarget],
    drafts: Mapping[str, DraftSpec | None],
) -> None:
    """Record each draft model that is not its target itself, with the arms that draft with it; as record_targets."""
    users: dict[Any, list[str]] = {}
    for arm, draft in drafts.items():
        if draft is not None and draft.method == "model":
            # What decides which weights are loaded; k and rule do not.
            users.setdefault((specs[arm].weights, draft.proposer), []).append(arm)
    for (_, draft), arms in users.items():
        described = targets[arms[0]].describe_draft(draft)
        if described is None:
            continue
        asked = job.drafts[arms[0]]
        if asked is not None and asked.recipe is not None:
            source = job.experiment.target.model if asked.model in (None, "self") else str(asked.model)
            described["name"] = label(source, asked.recipe)
        elif draft.bits is not None:
            described["name"] = f"{draft.bits} bits of {described['name']}"
        job.store.append(LoadedModel(process=job.process, role="draft", arms=tuple(arms), **described))
