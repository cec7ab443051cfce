"""Stand-ins: other models in the target's place, and how each reads what the run asks.

A stand-in answers the same prompts and items, by id and message, through its own template and tokenizer. Where its
tokens are not the target's, they are another unit: seconds a token of both do not compare, seconds an answer do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from specq.core.errors import ModelError, PromptError, UserError
from specq.core.nouns import listed
from specq.core.types import Prompt
from specq.experiment import checks, eval_plan, models
from specq.experiment.arms import sources
from specq.experiment.eval_plan import PlannedEval
from specq.experiment.prompts import Item
from specq.experiment.rendering import render
from specq.experiment.schema import Experiment
from specq.experiment.sizes import PlannedModel
from specq.models import tokenizers


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """A model that the levers `levers` put in the target's place, before anything quantizes it.

    `prompts` and `evals` are the run's as it reads them. `other_tokens` says where its tokens are not the target's, ""
    where they are. `reads_alike` says that prompts and items become the same ids as the target's.
    """

    source: str
    levers: tuple[str, ...]
    model: PlannedModel
    tokenizer: Any
    prompts: tuple[Prompt, ...]
    evals: tuple[PlannedEval, ...]
    other_tokens: str
    reads_alike: bool
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its levers, as messages begin with them."""
        return _named(self.levers)


@dataclass(kw_only=True)
class StandIns:
    """The stand-ins of an experiment, each found once, as what it could not be used for too.

    `items` are the prompts file's; `target`, `tokenizer`, `prompts` and `evals` what stands in the experiment.
    """

    experiment: Experiment
    target: PlannedModel
    tokenizer: Any
    items: Sequence[Item]
    prompts: tuple[Prompt, ...]
    evals: tuple[PlannedEval, ...]
    fetch: bool
    _found: dict[str, StandIn | UserError] = field(default_factory=dict)

    def of(self, source: str) -> StandIn:
        """The stand-in by the name that its lever gives.

        Raises:
            UserError: it cannot be found, read or decoded with, is the target itself, or its template refuses prompts.
        """
        if source not in self._found:
            try:
                with models.named(self.target.resolved):
                    self._found[source] = self._read(source, sources(self.experiment)[source])
            except UserError as error:
                self._found[source] = error
        found = self._found[source]
        if isinstance(found, UserError):
            raise found
        return found

    def all(self) -> list[StandIn]:
        """Those that were asked for and can be used, in that order."""
        return [one for one in self._found.values() if isinstance(one, StandIn)]

    def _read(self, source: str, levers: tuple[str, ...]) -> StandIn:
        name = _named(levers)
        model = models.planned("target", source, self.experiment.engine, None, self.fetch)
        if _same_weights(model, self.target):
            raise ModelError(
                f"{name}: {source} is the target {self.target.resolved.name} itself (the same weights): name another "
                "model, or take the lever out"
            )
        with models.named(model.resolved):
            checks.check_model(model, self.experiment.engine)
            tokenizer = tokenizers.load(model.resolved)
        prompts, refused, said = render(self.items, tokenizer)
        if refused:
            raise PromptError(f"{name}: {'; '.join(one.reason for one in refused)}")
        if over := checks.check_ids(model, prompts):
            raise ModelError(f"{name}: {over[0].reason}")
        apart = tokenizers.difference(self.tokenizer, tokenizer)
        other = "" if apart is None else f"id {apart[0]} is {apart[1]} in the target and {apart[2]} in {source}"
        evals = tuple(eval_plan.read_by(one, tokenizer) for one in self.evals)
        alike = not other and _ids(prompts, evals) == _ids(self.prompts, self.evals)
        if any(one.asked.task is not None for one in self.evals):
            # A task writes its prompts itself, in the run.
            alike = alike and tokenizer.chat_template == self.tokenizer.chat_template
        return StandIn(
            source=source,
            levers=levers,
            model=model,
            tokenizer=tokenizer,
            prompts=prompts,
            evals=evals,
            other_tokens=other,
            reads_alike=alike,
            notes=tuple(f"{name}: {note}" for note in (*self._about(model, other, alike), *said)),
        )

    def _about(self, model: PlannedModel, other: str, alike: bool) -> list[str]:
        """What is to be said of a stand-in: its size beside the target's, and how it reads."""
        own, theirs = model.facts.parameters, self.target.facts.parameters
        larger = "; it is larger, not smaller" if own > theirs else ""
        found = [
            f"{model.resolved.name} ({_millions(own)} parameters) stands in the place of {self.target.resolved.name} "
            f"({_millions(theirs)}){larger}",
            *model.facts.notes,
        ]
        if other:
            found.append(
                f"its tokens are not the target's ({other}): prompts and items are rendered by its own template and "
                "tokenizer, the messages are the same; quality is compared item by item, speed by seconds an answer, "
                "and max_new_tokens counts its own tokens"
            )
        elif not alike:
            found.append(
                "it reads the same messages as other tokens: prompts and items are rendered by its own template, and "
                "how far its next-token laws lie from the target's is not measured where they are"
            )
        return found


def incomparable(experiment: Experiment, one: StandIn) -> str:
    """Why the speed of a stand-in cannot be judged as the experiment asks, and what to type; "" where it can."""
    if not one.other_tokens:
        return ""
    floors = [key for key in ("tpot_s_p95", "tpot_s_p99") if getattr(experiment.floor, key) is not None]
    ways = [f"take floor.{key} out (floor.{key.replace('tpot', 'e2e')} holds of whole answers)" for key in floors]
    typed = ["--set objective.minimise=e2e_s"] if experiment.objective.minimise == "tpot_s" else []
    typed += ["--set workload.lengths=natural"] if experiment.workload.lengths == "equal" else []
    ways += [f"type {' '.join(typed)}"] if typed else []
    if not ways:
        return ""
    return (
        f"{one.name}: the tokens of {one.source} are not the target's ({one.other_tokens}), so neither seconds a token "
        f"nor answers of as many tokens compare, and whole answers do: {'; '.join(ways)}"
    )


def _millions(count: int) -> str:
    return f"{count / 1e6:,.0f} M" if count >= 1e6 else f"{count:,}"


def _named(levers: Sequence[str]) -> str:
    return listed([f"levers.{lever}" for lever in levers])


def _same_weights(one: PlannedModel, other: PlannedModel) -> bool:
    if one.resolved.folder.samefile(other.resolved.folder):
        return True
    # The hashes read every weight, so only models of one size are asked for theirs.
    sizes = [(model.facts.parameters, model.facts.weight_bytes) for model in (one, other)]
    return sizes[0] == sizes[1] and one.facts.weights_sha256 == other.facts.weights_sha256


def _ids(prompts: Sequence[Prompt], evals: Sequence[PlannedEval]) -> tuple[object, ...]:
    return tuple(prompt.ids for prompt in prompts), tuple(one.prompts for one in evals)
