"""What recipes ask for, made before it is studied: targets and drafts by the folders that it lies in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from specq.core.types import DraftSpec, TargetSpec
from specq.experiment.schema import Experiment
from specq.quantize import recipes
from specq.run import artifacts, quantizing
from specq.run.runner import OnProgress

S = TypeVar("S", TargetSpec, DraftSpec)


def folders(
    experiment: Experiment, say: Callable[[str], None], on_progress: OnProgress | None = None
) -> dict[str, Path]:
    """The folders of all that the experiment's recipes make, by label; made where they are not in the cache.

    Raises:
        UserError: a recipe, its text or a model will not do. RunFailed, DiskFull: a model could not be quantized.
        Interrupted: while one was.
    """
    found = {}
    for one in artifacts.wanted(experiment):
        say(f"{one.label}: quantizing it, or taking it from the cache")
        recipe = recipes.load(Path(one.recipe))
        made = quantizing.quantize(one.model, recipe, None, revision=one.revision, on_progress=on_progress)
        found[one.label] = made.folder
    return found


def of_folder(spec: S, made: Mapping[str, Path], experiment: Experiment) -> S:
    """A target or a draft by the folder that its recipe made; one without a recipe as it is."""
    if spec.recipe is None:
        return spec
    if isinstance(spec, TargetSpec):
        source = artifacts.source_of(experiment, spec)
    else:
        source = experiment.target.model if spec.model in (None, "self") else str(spec.model)
    return replace(spec, recipe=None, model=str(made[artifacts.label(source, spec.recipe)]))
