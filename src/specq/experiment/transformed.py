"""Prompts and items with fewer tokens: what the levers of kind prompt make of the run's own.

Ids and messages before the transform are the baseline's. A worker makes each prompt's transform anew and times it, and
what comes out must be what stands here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from specq.core import hashes
from specq.core.errors import ConfigError, PromptError, UserError
from specq.core.nouns import counted
from specq.core.types import Prompt, TargetSpec
from specq.evals.items import Item as EvalItem
from specq.experiment import checks, eval_plan
from specq.experiment.eval_plan import PlannedEval
from specq.experiment.prompts import Item
from specq.experiment.rendering import render
from specq.experiment.sizes import PlannedModel
from specq.prompts.files import put
from specq.prompts.transform import transform
from specq.prompts.types import Count, Result, Steps


def steps_of(target: TargetSpec) -> Steps:
    """The steps that a target's prompts go through; it has some."""
    return Steps(clean=target.clean, select=target.select)


def counter_of(tokenizer: Any) -> Count:
    """What counts the tokens of a text for a model, without special ones."""
    return lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"])


def before(prompt: Prompt) -> str | tuple[Any, ...]:
    """What a prompt says before a template makes text of it: its messages, or the text that it is."""
    return tuple(prompt.messages) or prompt.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformed:
    """The prompts and items of a run as arms read them whose prompts are transformed.

    `target` says how: its steps, and the model in the target's place; arms that differ in weights alone share one.
    `before_sha256` is the hash of what each prompt said before. `results` hold by prompt what was done, `of_items` by
    eval and item; `tokens_before` counts each prompt's tokens as it was, through the same template. `other_tokens` is
    that of the model in the target's place.
    """

    target: TargetSpec
    prompts: tuple[Prompt, ...]
    tokens_before: tuple[int, ...]
    evals: tuple[PlannedEval, ...]
    before_sha256: dict[str, str]
    results: dict[str, Result]
    of_items: dict[str, dict[str, Result]]
    other_tokens: str
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Tokens before and after, what is dropped by reason, and how many protected fields there are."""
        return {
            "reading": self.target.reading,
            "steps": steps_of(self.target).words,
            "prompts": {
                "tokens_before": sum(self.tokens_before),
                "tokens_after": sum(len(prompt.ids) for prompt in self.prompts),
                **_summed(list(self.results.values())),
            },
            "evals": {
                one.asked.name: {
                    "tokens_after": sum(one.tokens),
                    **_summed(list(self.of_items[one.asked.name].values())),
                }
                for one in self.evals
            },
        }


@dataclass(kw_only=True)
class Transforms:
    """The transforms of an experiment, each made once; `items` are the prompts file's."""

    items: Sequence[Item]
    _found: dict[str, Transformed | UserError] = field(default_factory=dict)

    def of(
        self,
        target: TargetSpec,
        model: PlannedModel,
        tokenizer: Any,
        prompts: Sequence[Prompt],
        evals: Sequence[PlannedEval],
        *,
        name: str,
        other_tokens: str = "",
    ) -> Transformed:
        """What a target's steps make of prompts and evals as its model reads them; `name` is its lever's.

        Raises:
            UserError: an eval is a task of lm-eval, or the template refuses what is left of a prompt or an item.
        """
        if target.reading not in self._found:
            try:
                self._found[target.reading] = self._made(target, model, tokenizer, prompts, evals, name, other_tokens)
            except UserError as error:
                self._found[target.reading] = error
        found = self._found[target.reading]
        if isinstance(found, UserError):
            raise found
        return found

    def all(self) -> tuple[Transformed, ...]:
        """Those that could be made."""
        return tuple(one for one in self._found.values() if isinstance(one, Transformed))

    def _made(
        self,
        target: TargetSpec,
        model: PlannedModel,
        tokenizer: Any,
        prompts: Sequence[Prompt],
        evals: Sequence[PlannedEval],
        name: str,
        other_tokens: str,
    ) -> Transformed:
        if task := next((one.asked for one in evals if one.asked.task is not None), None):
            raise ConfigError(
                f'{name}: eval "{task.name}" is a task of lm-eval, which writes its prompts itself, so nothing can '
                "transform them; take the eval out, or give items of your own"
            )
        steps, count = steps_of(target), counter_of(tokenizer)

        def shorter(asked: str | Sequence[Any]) -> Result:
            return transform(asked, steps, count=count, counted_in=f"tokens of {model.resolved.name}")

        results = {item.id: shorter(item.prompt or item.messages) for item in self.items}
        made, refused, _ = render([_item(item, results[item.id]) for item in self.items], tokenizer)
        if refused:
            raise PromptError(f"{name}: {'; '.join(one.reason for one in refused)}")
        if over := checks.check_ids(model, made):
            raise PromptError(f"{name}: {over[0].reason}")
        of_items: dict[str, dict[str, Result]] = {}
        own = tuple(_eval(one, tokenizer, shorter, of_items.setdefault(one.asked.name, {})) for one in evals)
        found = Transformed(
            target=TargetSpec(source=target.source, clean=target.clean, select=target.select),
            prompts=made,
            tokens_before=tuple(len(prompt.ids) for prompt in prompts),
            evals=own,
            before_sha256={item.id: before_sha256(item.prompt or item.messages) for item in self.items},
            results=results,
            of_items=of_items,
            other_tokens=other_tokens,
            notes=(),
        )
        return replace(found, notes=tuple(f"{name}: {note}" for note in _notes(found, evals)))


def _item(item: Item, result: Result) -> Item:
    return replace(item, **_put(item.prompt or item.messages, result))


def _put(asked: str | Sequence[Any], result: Result) -> dict[str, Any]:
    found = put(asked, result)
    return {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}


def _eval(
    one: PlannedEval, tokenizer: Any, shorter: Callable[[str | Sequence[Any]], Result], results: dict[str, Result]
) -> PlannedEval:
    items: list[EvalItem] = []
    for item in one.items:
        results[item.id] = shorter(item.asked)
        items.append(replace(item, **_put(item.asked, results[item.id])))
    return eval_plan.read_items(one, items, tokenizer)


def _summed(results: Sequence[Result]) -> dict[str, Any]:
    made, refused = Counter[str](), Counter[str]()
    for one in results:
        for gone in one.deletions:
            made[gone.reason] += gone.tokens
        refused.update(kept.reason for kept in one.kept)
    return {
        "content_before": sum(one.before.tokens for one in results),
        "content_after": sum(one.after.tokens for one in results),
        "dropped": dict(made),
        "refused": dict(refused),
        "protected": sum(len(one.protected_before) for one in results),
    }


def _notes(found: Transformed, evals: Sequence[PlannedEval]) -> list[str]:
    """What the plan says of a transform: tokens before and after, what goes, what is protected."""
    told, words = found.to_json(), steps_of(found.target).words
    what = told["prompts"]
    sets = [(counted(len(found.prompts), "prompt"), what["tokens_before"], what["tokens_after"], what)]
    sets += [
        (f'eval "{one.asked.name}"', sum(one.tokens), told["evals"][one.asked.name]["tokens_after"], own)
        for one in evals
        if (own := told["evals"][one.asked.name])
    ]
    notes = []
    for name, tokens, left, own in sets:
        dropped = ", ".join(f"{reason} {count:,}" for reason, count in own["dropped"].items()) or "nothing"
        refused = sum(own["refused"].values())
        notes.append(
            f"{words}: {name}: {tokens:,} tokens become {left:,} ({left / tokens:.0%}); dropped: {dropped}; "
            f"{counted(own['protected'], 'protected field')} recognised, none of them lost, "
            f"{counted(refused, 'deletion')} refused"
        )
    return notes


def log_of(result: Result) -> dict[str, Any]:
    """What run.json keeps of a transform: every deletion with its place and reason, what was refused, and counts."""

    def short(one: Any) -> dict[str, Any]:
        return {key: value for key, value in asdict(one).items() if key not in ("text", "put", "characters")}

    return {
        "before": asdict(result.before),
        "after": asdict(result.after),
        "deletions": [short(one) for one in result.deletions],
        "kept": [short(one) for one in result.kept],
        "protected": len(result.protected_before),
        "lost": [str(one) for one in result.lost],
    }


def before_sha256(asked: str | Sequence[Mapping[str, Any]]) -> str:
    """The hash of a prompt as it was before the transform."""
    return hashes.of_json(asked if isinstance(asked, str) else list(map(dict, asked)))
