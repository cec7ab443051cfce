"""The quantized models that a run needs: made once, each in a worker of its own, and found again by their label."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specq.core.errors import Interrupted, RunFailed
from specq.core.records import Done, QuantizedModel, Record
from specq.core.types import DraftSpec, TargetSpec
from specq.experiment.arms import arms
from specq.experiment.schema import Experiment
from specq.models import refs
from specq.quantize import artifact, prepare, recipes
from specq.run.job import Asked, Job
from specq.run.provenance import hide_home, show_home


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One model that a recipe is to quantize."""

    model: str
    revision: str | None
    recipe: str

    @property
    def label(self) -> str:
        """The recipe and the model in words; the key of its QuantizedModel record."""
        return label(self.model, self.recipe)


def label(model: str, recipe: str) -> str:
    """How a run calls the model that a recipe made of another."""
    return str(hide_home(f"{recipe} of {model}"))


def source_of(experiment: Experiment, spec: TargetSpec) -> str:
    """The name of the model that a target is, or is quantized from."""
    return spec.source or experiment.target.model


def wanted(experiment: Experiment) -> tuple[Wanted, ...]:
    """The quantized models of an experiment in the order of its arms, each once."""
    found: dict[Wanted, None] = {}
    target = experiment.target
    for arm in arms(experiment):
        if arm.target.recipe is not None:
            revision = target.revision if arm.target.source is None else None
            source = source_of(experiment, arm.target)
            found[Wanted(model=source, revision=revision, recipe=arm.target.recipe)] = None
        if arm.draft is not None and arm.draft.recipe is not None:
            own = arm.draft.model in (None, "self")
            model, revision = (target.model, target.revision) if own else (str(arm.draft.model), None)
            found[Wanted(model=model, revision=revision, recipe=arm.draft.recipe)] = None
    return tuple(found)


def keys(experiment: Experiment) -> dict[str, str]:
    """Of each wanted model, by its label, the hash over all that can change it; weights and texts are read.

    Raises:
        UserError: a recipe, its text or a model is not there.
    """
    found = {}
    for one in wanted(experiment):
        recipe = recipes.load(Path(one.recipe))
        source = refs.resolve(one.model, revision=one.revision)
        found[one.label] = artifact.key(recipe, source, prepare.text_sha256(recipe))
    return found


def made_from(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """Of each wanted model, by its label, the parts of its key that are files of the user's.

    Raises:
        UserError: a recipe or its text is not there.
    """
    found = {}
    for one in wanted(experiment):
        recipe = recipes.load(Path(one.recipe))
        parts = {"recipe": one.recipe, "settings": recipe.to_json(), "text_sha256": prepare.text_sha256(recipe)}
        found[one.label] = dict(hide_home(parts))
    return found


def words(done: int, of: int, seconds_left: float | None) -> str:
    """How far a method is: layers done, of how many, and the time left where there is some."""
    if of == 1:
        # A method that walks through no layers counts one step, which is no layer.
        return "rounded" if done else "rounding"
    left = "" if seconds_left is None or seconds_left < 1 else f", about {seconds_left:.0f} s left"
    return f"layer {done} of {of}{left}"


def quantize(job: Job, name: str) -> None:
    """Make the model of that label, or find it in the cache, and record it.

    Raises:
        Interrupted: a stop was asked for; nothing half-made is kept.
    """
    one = next(one for one in wanted(job.experiment) if one.label == name)
    recipe = recipes.load(Path(one.recipe))

    def told(done: int, of: int, seconds_left: float | None) -> None:
        say(words(done, of, seconds_left))

    def say(line: str) -> None:
        if job.progress.should_stop():
            raise Interrupted("stopped")
        job.progress.say("quantizing", text=line)

    made = artifact.make(one.model, recipe, None, told, revision=one.revision, say=say)
    job.store.append(
        QuantizedModel(
            process=job.process,
            label=name,
            folder=str(hide_home(str(made.folder))),
            key=made.folder.name,
            seconds=made.seconds,
            peak_bytes=made.peak_bytes,
            recipe=made.recipe.to_json(),
            audit=None if made.audit is None else made.audit.to_json(),
            notes=made.notes,
        )
    )
    job.progress.say("quantized")
    job.store.append(Done(process=job.process, task=f"quantize:{name}"))


def is_there(records: Iterable[Record], name: str) -> bool:
    """Whether the model of that label was made and still lies where it was."""
    found = _folders(records).get(name)
    return found is not None and (found / artifact.FILE).is_file()


class Made:
    """The quantized models of a run, once they are made: arms with folders in the place of recipes."""

    def __init__(self, asked: Asked) -> None:
        self._experiment = asked.experiment
        self._folders = _folders(asked.store.contents().records)

    def target(self, spec: TargetSpec) -> TargetSpec:
        """The target of an arm by its folder."""
        if spec.recipe is None:
            return spec
        return replace(spec, recipe=None, model=self._folder(source_of(self._experiment, spec), spec.recipe))

    def draft(self, spec: DraftSpec | None) -> DraftSpec | None:
        """The draft of an arm by its folder."""
        if spec is None or spec.recipe is None:
            return spec
        model = self._experiment.target.model if spec.model in (None, "self") else str(spec.model)
        return replace(spec, recipe=None, model=self._folder(model, spec.recipe))

    def _folder(self, model: str, recipe: str) -> str:
        name = label(model, recipe)
        if name not in self._folders:
            raise RunFailed(f"the run has no record of {name}: resume it, so that it is quantized")
        return str(self._folders[name])


def _folders(records: Iterable[Record]) -> dict[str, Path]:
    return {r.label: Path(str(show_home(r.folder))) for r in records if isinstance(r, QuantizedModel)}
