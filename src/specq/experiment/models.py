"""The models that a run will load beside its target: quantized targets and second models, each found once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from specq.core.errors import ModelError, UserError
from specq.core.types import DraftSpec, TargetSpec
from specq.experiment.schema import Engine, Experiment
from specq.experiment.sizes import PlannedModel
from specq.models import cache, facts, refs, tokenizers
from specq.quantize import recipes


def planned(role: Any, name: str, engine: Engine, revision: str | None = None, fetch: bool = True) -> PlannedModel:
    """A model by name, in the dtype that the engine will hold it in.

    Raises:
        ModelError: it cannot be found or read.
    """
    resolved = refs.resolve(name, revision=revision, fetch=fetch)
    known = facts.facts(resolved)
    dtype = known.dtype if engine.dtype == "auto" else engine.dtype
    return PlannedModel(role=role, resolved=resolved, facts=known, dtype=dtype)


class Beside:
    """Models by what asks for them; a refusal is kept too, so that each is told once for all arms."""

    def __init__(self, experiment: Experiment, target: PlannedModel, tokenizer: Any, fetch: bool) -> None:
        self._engine, self._target, self._tokenizer, self._fetch = experiment.engine, target, tokenizer, fetch
        self._found: dict[Any, PlannedModel | UserError] = {}
        self.notes: list[str] = []

    def target(self, spec: TargetSpec) -> PlannedModel:
        """The target of an arm: the plain one, or one with quantized weights.

        Raises:
            UserError: the recipe or the folder will not do.
        """
        if spec.weights == TargetSpec(prefill=spec.prefill):
            return self._target
        return self._once(spec.weights, lambda: self._quantized(spec))

    def draft(self, spec: DraftSpec | None) -> PlannedModel | None:
        """A draft's second model; the target itself for "self" as it is; None where there is none.

        Raises:
            UserError: it cannot be found, quantized or used, or speaks other tokens.
        """
        if spec is None or spec.model is None:
            return None
        # What decides which weights are loaded; k and rule do not.
        return self._once(replace(spec, k=1, rule="rejection"), lambda: self._second(spec))

    def loaded(self) -> list[PlannedModel]:
        """The models that will be loaded beside the target."""
        return [m for m in self._found.values() if isinstance(m, PlannedModel) and m is not self._target]

    def _once(self, key: Any, find: Callable[[], PlannedModel]) -> PlannedModel:
        if key not in self._found:
            try:
                self._found[key] = find()
            except UserError as error:
                self._found[key] = error
        found = self._found[key]
        if isinstance(found, UserError):
            raise found
        return found

    def _quantized(self, spec: TargetSpec) -> PlannedModel:
        target = self._target
        if spec.recipe is not None:
            return self._by_recipe("target", target, spec.recipe, spec.prefill)
        found = planned("target", str(spec.model), self._engine, None, self._fetch)
        if not _is_quantized(found):
            raise ModelError(
                f'{spec.model} is not quantized: kind = "quantize" takes a folder that is, or a recipe that makes one'
            )
        self._compare(found, f"quantized target {spec.model}")
        return replace(found, twin_bytes=target.weight_bytes if spec.prefill == "dense" else 0)

    def _second(self, spec: DraftSpec) -> PlannedModel:
        target, engine = self._target, self._engine
        if spec.dtype is not None:
            engine = engine.model_copy(update={"dtype": spec.dtype})
        if spec.model == "self":
            dtype = target.facts.dtype if engine.dtype == "auto" else engine.dtype
            found = target if dtype == target.dtype else replace(target, role="draft", dtype=dtype)
        else:
            found = planned("draft", str(spec.model), engine, None, self._fetch)
            self._compare(found, f"draft {spec.model}")
        if spec.recipe is not None:
            return self._by_recipe("draft", found, spec.recipe, spec.prefill)
        if spec.bits is not None:
            if _is_quantized(target):
                raise ModelError(
                    f"bits = {spec.bits}: {target.resolved.name} is quantized already, so it cannot be rounded once "
                    "more; take the bits out, or name a model in floats"
                )
            # The embedding and the norms stay those of the target, but each layer is held once more.
            whole = found.facts.parameters - found.facts.vocab * found.facts.hidden
            stored = whole * spec.bits // 8
            twin = found.weight_bytes if spec.prefill == "dense" else 0
            return replace(found, role="draft", stored_bytes=stored, twin_bytes=twin, how=f"{spec.bits} bits")
        return found

    def _by_recipe(self, role: Any, source: PlannedModel, path: str, prefill: str) -> PlannedModel:
        from specq.quantize import artifact, prepare, room

        recipe = recipes.load(Path(path))
        if recipe.facts.tool == "mlx-lm" and self._engine.kind != "mlx":
            raise ModelError(f'{path} makes an MLX folder, which engine kind "{self._engine.kind}" does not read')
        twin = source.weight_bytes if prefill == "dense" and self._engine.kind == "hf" else 0
        made = replace(source, role=role, how=path, twin_bytes=twin)
        kept = artifact.kept(recipe, source.resolved)
        if kept is not None:
            stored = facts.facts(refs.resolve(str(kept))).weight_bytes
            return replace(made, stored_bytes=stored)
        checked = prepare.plan(source.resolved, recipe, cache.root() / "quantized" / "new")
        self.notes.append(f"{path} of {source.resolved.name} is made first, once: {recipe.words()}")
        stored = room.stored_bytes(recipe, checked.layers, source.resolved.folder)
        return replace(made, stored_bytes=stored)

    def _compare(self, other: PlannedModel, role: str) -> None:
        compared = tokenizers.compare(
            self._tokenizer,
            tokenizers.load(other.resolved),
            target_vocab=self._target.facts.vocab,
            draft_vocab=other.facts.vocab,
        )
        self.notes += [f"{role}: {note}" for note in (*other.facts.notes, *compared.notes)]


def _is_quantized(model: PlannedModel) -> bool:
    from specq.quantize.load import is_quantized

    return is_quantized(model.resolved.folder)
