"""The models that a run will load beside its target: quantized targets and second models, each found once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specq.core.errors import ModelError, SpecqError, Unsupported, UserError
from specq.core.types import DraftSpec, Prefill, TargetSpec
from specq.experiment.levers import SELF
from specq.experiment.schema import Engine, Experiment
from specq.experiment.sizes import PlannedModel
from specq.models import cache, facts, refs, tokenizers
from specq.models import kept as kept_ids
from specq.models.refs import Resolved
from specq.quantize import contents, fits, held, layers, recipes
from specq.quantize.declared import is_quantized
from specq.quantize.held import Place, Weights
from specq.quantize.recipes import Recipe

if TYPE_CHECKING:
    from specq.experiment.stand_ins import StandIns

# Which engine reads what a recipe's tool writes.
_READ_BY = {"llmcompressor": "hf", "mlx-lm": "mlx", "specq": "mlx"}


def planned(
    role: Any,
    name: str,
    engine: Engine,
    revision: str | None = None,
    fetch: bool = True,
    prefill: Prefill = "dense",
) -> PlannedModel:
    """A model by name, in the dtype that the engine will hold it in; `prefill` is of one that is quantized.

    Raises:
        ModelError: it cannot be found or read.
    """
    resolved = refs.resolve(name, revision=revision, fetch=fetch)
    with named(resolved):
        known = facts.facts(resolved)
        if engine.is_server:
            from specq.experiment import served_models

            return served_models.planned(role, resolved, known, engine, fetch)
        weights = held.of_folder(resolved.folder, engine.kind)
        if role == "draft" and engine.kind == "hf" and engine.device_map is None:
            weights = replace(weights, kept=kept_ids.read(resolved.folder))
    fits.check_quantized(weights.contents, engine.kind)
    place = place_of(engine, known.dtype, prefill)
    return PlannedModel(
        role=role,
        resolved=resolved,
        facts=known,
        dtype=place.dtype,
        weights=weights,
        place=place,
        held=weights.held(place),
    )


@contextmanager
def named(*known: Resolved) -> Iterator[None]:
    """Errors in here call a model by the name that the user gave it, not by its folder in a cache.

    Raises:
        SpecqError: of the class that was raised.
    """
    try:
        yield
    except SpecqError as error:
        text = str(error)
        for one in known:
            text = text if one.kind == "folder" else text.replace(str(one.folder), one.name)
        if text == str(error):
            raise
        raise type(error)(text) from error


def place_of(engine: Engine, own_dtype: str, prefill: Prefill) -> Place:
    """Where the engine holds a model whose weights are stored in `own_dtype`."""
    dtype = own_dtype if engine.dtype == "auto" else engine.dtype
    if engine.kind == "mlx":
        return Place(engine="mlx", device=engine.device, dtype=dtype, prefill=prefill)
    from specq.engines.devices import pick_device
    from specq.quantize import dense

    try:
        device = pick_device(engine.device)
    except Unsupported:
        # Told as a refusal of its own.
        device = engine.device
    repacks = engine.device_map is None and dense.repacks(dtype, device)
    return Place(engine="hf", device=device, dtype=dtype, prefill=prefill, repacks=repacks)


def _made(model: PlannedModel, how: str, weights: Weights, place: Place, *, shared: bool = False) -> PlannedModel:
    """A model with other weights than its folder's, quantized by `how`."""
    weights = replace(weights, kept=model.weights.kept)
    return replace(model, how=how, weights=weights, place=place, held=weights.held(place, shared=shared))


class Beside:
    """Models by what asks for them; a refusal is kept too, so that each is told once for all arms."""

    def __init__(self, experiment: Experiment, target: PlannedModel, tokenizer: Any, stand_ins: StandIns) -> None:
        self._engine, self._target, self._tokenizer = experiment.engine, target, tokenizer
        self._stand_ins, self._fetch = stand_ins, stand_ins.fetch
        self._found: dict[Any, PlannedModel | UserError] = {}
        self.notes: list[str] = []

    def target(self, spec: TargetSpec) -> PlannedModel:
        """The target of an arm: the plain one or a stand-in, or one of them with quantized weights.

        Raises:
            UserError: the stand-in, the recipe or the folder will not do.
        """
        source = self._source(spec.source)
        if spec.weights == TargetSpec(source=spec.source, prefill=spec.prefill):
            return source
        return self._once(spec.weights, lambda: self._quantized(spec, source))

    def draft(self, spec: DraftSpec | None, target: TargetSpec) -> PlannedModel | None:
        """A draft's second model; None where there is none.

        "self" is the arm's own target, whose spec is `target`; by a recipe it is made of the experiment's.

        Raises:
            UserError: it cannot be found, quantized or used, or speaks other tokens.
        """
        if spec is None or spec.model is None:
            return None
        own = self.target(target)
        if spec.model != SELF:
            named_draft = self._draft(spec)
            self._once((spec.model, target.source), lambda: self._speaks(named_draft, spec.model, target.source))
        # What decides which weights are loaded; k and rule do not.
        on = target.weights if spec.model == SELF and spec.recipe is None else None
        return self._once((spec.proposer, on), lambda: self._second(spec, own))

    def loaded(self) -> list[PlannedModel]:
        """The models that will be loaded beside the target."""
        every = [*(one.model for one in self._stand_ins.all()), *self._found.values()]
        found = {id(m): m for m in every if isinstance(m, PlannedModel) and m is not self._target}
        return list(found.values())

    def _source(self, source: str | None) -> PlannedModel:
        return self._target if source is None else self._stand_ins.of(source).model

    def _once(self, key: Any, find: Callable[[], PlannedModel]) -> PlannedModel:
        if key not in self._found:
            try:
                with named(self._target.resolved):
                    self._found[key] = find()
            except UserError as error:
                self._found[key] = error
        found = self._found[key]
        if isinstance(found, UserError):
            raise found
        return found

    def _quantized(self, spec: TargetSpec, source: PlannedModel) -> PlannedModel:
        if spec.recipe is not None:
            with named(source.resolved):
                return self._by_recipe("target", source, spec.recipe, spec.prefill)
        found = planned("target", str(spec.model), self._engine, None, self._fetch, spec.prefill)
        if not _is_quantized(found):
            raise ModelError(
                f'{spec.model} is not quantized: kind = "quantize" takes a folder that is, or a recipe that makes one'
            )
        self._compare(found, f"quantized target {spec.model}")
        return found

    def _engine_of(self, spec: DraftSpec) -> Engine:
        return self._engine if spec.dtype is None else self._engine.model_copy(update={"dtype": spec.dtype})

    def _draft(self, spec: DraftSpec) -> PlannedModel:
        """The model that a draft names, as it is stored."""
        key = ("draft", spec.model, spec.dtype, spec.prefill)
        engine = self._engine_of(spec)
        return self._once(key, lambda: planned("draft", str(spec.model), engine, None, self._fetch, spec.prefill))

    def _speaks(self, draft: PlannedModel, name: str | None, source: str | None) -> PlannedModel:
        """The draft, where it speaks the tokens of the target that it drafts for."""
        with named(draft.resolved):
            self._compare(draft, f"draft {name}", source)
        return draft

    def _second(self, spec: DraftSpec, own: PlannedModel) -> PlannedModel:
        engine = self._engine_of(spec)
        if spec.model == SELF:
            source = own if spec.recipe is None else self._target
            # Engines share weights where the draft asks for no other dtype than they were asked for, word by word.
            found = source if engine.dtype == self._engine.dtype else _again(source, engine, spec.prefill)
        else:
            found = self._draft(spec)
        if spec.recipe is not None:
            with named(found.resolved):
                return self._by_recipe("draft", found, spec.recipe, spec.prefill)
        return found if spec.bits is None else self._rounded(spec, spec.bits, found)

    def _rounded(self, spec: DraftSpec, bits: int, source: PlannedModel) -> PlannedModel:
        if source.how is not None or _is_quantized(source):
            raise ModelError(
                f"bits = {bits}: {source.name} is quantized already, so it cannot be rounded once more; take the bits "
                "out, or name a model in floats"
            )
        recipe, found = self._rounding(spec), layers.linear_layers(source.resolved.folder)
        layers.check_shapes(recipe, found)
        self._note_grid(source, bits, found)
        source_weights = source.weights.contents
        if self._engine.kind == "mlx":
            weights = held.of_recipe(recipe, source_weights, found)
        else:
            head = spec.head == "quantize"
            weights = held.rounded(source_weights, found, bits=bits, group_size=spec.group_size, head=head)
        # Everything but the layers stays the target's where engine and dtype do.
        shared = self._engine.kind == "hf" and source.role == "target"
        place = replace(source.place, prefill=spec.prefill)
        return _made(replace(source, role="draft"), f"{bits} bits", weights, place, shared=shared)

    def _note_grid(self, source: PlannedModel, bits: int, found: Sequence[layers.Layer]) -> None:
        """Say where the target was quantized before it was made floats: 4 bits take less from it than from others."""
        from specq.quantize import grid

        # A grid of 8 bits has one scale a row, which meets none of blocks.
        if bits == 4 and (lies := grid.source_grid(source.resolved.folder, [f"{one.name}.weight" for one in found])):
            self.notes.append(
                f"the target's own {lies}: a 4-bit draft of it agrees more than one of a model in true floats would"
            )

    def _rounding(self, spec: DraftSpec) -> Recipe:
        if self._engine.kind == "mlx":
            from specq.engines.mlx_drafts import rounding

            return rounding(spec)
        return recipes.make({"method": "rtn", "bits": spec.bits, "group_size": spec.group_size, "head": spec.head})

    def _by_recipe(self, role: Any, source: PlannedModel, path: str, prefill: Prefill) -> PlannedModel:
        from specq.quantize import artifact, prepare

        recipe = recipes.load(Path(path))
        if (reader := _READ_BY[recipe.facts.tool]) != self._engine.kind:
            methods = ", ".join(m for m, f in recipes.METHODS.items() if _READ_BY[f.tool] == self._engine.kind)
            raise ModelError(
                f'{path}: method = "{recipe.method}" makes a folder that engine kind "{reader}" reads, not '
                f'"{self._engine.kind}": allowed is {methods}, or --set engine.kind={reader}'
            )
        place, source = replace(source.place, prefill=prefill), replace(source, role=role)
        kept = artifact.kept(recipe, source.resolved)
        if kept is not None:
            return _made(source, path, held.of_folder(kept, self._engine.kind), place)
        new = cache.root() / "quantized" / "new"
        with named(replace(source.resolved, kind="hub", folder=new, name=f"{path} of {source.resolved.name}")):
            checked = prepare.plan(source.resolved, recipe, new)
        self.notes.append(f"{path} of {source.resolved.name} is made first, once: {recipe.words()}")
        weights = held.of_recipe(recipe, contents.read(source.resolved.folder), checked.layers)
        return _made(source, path, weights, place)

    def _compare(self, other: PlannedModel, role: str, source: str | None = None) -> None:
        """Refuse tokens that are not those of the target, or of the stand-in `source`."""
        tokenizer = self._tokenizer if source is None else self._stand_ins.of(source).tokenizer
        compared = tokenizers.compare(
            tokenizer,
            tokenizers.load(other.resolved),
            target_vocab=self._source(source).facts.vocab,
            draft_vocab=other.facts.vocab,
        )
        self.notes += [f"{role}: {note}" for note in (*other.facts.notes, *compared.notes)]


def _again(source: PlannedModel, engine: Engine, prefill: Prefill) -> PlannedModel:
    """The same weights loaded once more, in the dtype that the draft asks for."""
    place = place_of(engine, source.facts.dtype, prefill)
    return replace(source, role="draft", dtype=place.dtype, place=place, held=source.weights.held(place))


def _is_quantized(model: PlannedModel) -> bool:
    return is_quantized(model.resolved.folder)
