"""A user's set evaluated by lm-eval on one arm, item by item.

The set becomes a task in memory: texts are rendered here, once, so that no template, bos or delimiter of lm-eval's own
comes between. Nothing is cached, for lm-eval's caches do not ask which model they are of, and nothing is truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specq.core.errors import PromptError
from specq.core.nouns import counted
from specq.core.types import Generation
from specq.engines.base import Decoder, LoadedTarget
from specq.evals.items import Item
from specq.evals.metric import Answer, Continuation, Metric, Score
from specq.models.quiet import quiet

if TYPE_CHECKING:
    from specq.evals.adapter import EngineLM

OnJudge = Callable[[str], None]
_TASK = "items"
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How answers are made: greedy, at most `max_new_tokens` new tokens, ended before the first of `stop`.

    `batch_size` prompts are decoded at a time; all arms of a comparison share it, for it moves the rounding.
    """

    max_new_tokens: int = 48
    stop: tuple[str, ...] = ()
    batch_size: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """One item on one arm: the ids that the model saw, what it said, and what that is worth.

    `generation` is None where continuations were scored; `answer` is what the metric judged.
    """

    item: str
    prompt_ids: tuple[int, ...]
    generation: Generation | None
    answer: Answer
    score: Score


def nobody_listens(item: str) -> None:
    """For callers that need not know which item is judged now."""


def evaluate(
    items: Sequence[Item],
    metric: Metric,
    target: LoadedTarget,
    decoder: Decoder,
    tokenizer: Any,
    settings: Settings | None = None,
    *,
    context: int | None = None,
    on_judge: OnJudge = nobody_listens,
) -> list[Evaluated]:
    """Every item in its order. `context` is how many tokens the model takes, None where that is not known.

    `on_judge` is told each item's id before its answer is judged.

    Raises:
        PromptError: prompts that do not fit the context with their answers, or that the chat template refuses; named.
        NonFiniteLogits: the model returned NaN or infinite logits.
    """
    import lm_eval
    from lm_eval.tasks import TaskManager

    from specq.evals.adapter import EngineLM

    chosen = settings or Settings()
    model = EngineLM(target, decoder, tokenizer, batch_size=chosen.batch_size)
    asked = [_shown(model, item) for item in items]
    # With the blank before them that a plain text needs; () where an answer is generated.
    follow = [continuations(item, metric) for item in items]
    _need_room(model, items, asked, follow, chosen, context)
    found: dict[int, Evaluated] = {}

    def judge(doc: dict[str, Any], results: list[Any]) -> dict[str, float]:
        place = int(doc["place"])
        on_judge(items[place].id)
        found[place] = _judged(model, items[place], place, metric, results)
        value = found[place].score.value
        return {"score": float("nan") if value is None else value}

    with quiet():
        # Not simple_evaluate: it sets the caller's random state, and has pip list every package after each stretch.
        loaded = TaskManager(include_defaults=False).load([_task(asked, follow, judge, chosen)])
        lm_eval.evaluate(model, loaded, bootstrap_iters=0, log_samples=False)
    return [found[place] for place in range(len(items))]


def _shown(model: EngineLM, item: Item) -> str:
    try:
        return model.show(item.prompt or list(item.messages))
    except PromptError as error:
        raise PromptError(f'item "{item.id}": {error}') from error


def _texts(item: Item, metric: Metric) -> tuple[str, ...]:
    if metric.output == "text":
        return ()
    return item.choices if metric.output == "choice" else item.texts


def continuations(item: Item, metric: Metric) -> tuple[str, ...]:
    """The texts to score after the prompt. A template ends where an answer begins; after a plain text comes a blank."""
    blank = " " if item.prompt and not item.prompt[-1].isspace() else ""
    return tuple(blank + text for text in _texts(item, metric))


def _need_room(
    model: EngineLM,
    items: Sequence[Item],
    asked: Sequence[str],
    follow: Sequence[tuple[str, ...]],
    settings: Settings,
    context: int | None,
) -> None:
    if context is None:
        return
    need = {}
    for item, text, texts in zip(items, asked, follow, strict=True):
        more = max((len(model.tok_encode(one, add_special_tokens=False)) for one in texts), default=None)
        need[item.id] = len(model.tok_encode(text)) + (settings.max_new_tokens if more is None else more)
    refuse_long(need, context, "shorten them, or set max_new_tokens lower")


def refuse_long(need: Mapping[str, int], context: int | None, advice: str) -> None:
    """Do nothing where all items fit the context with their answers; `need` counts tokens by item.

    Raises:
        PromptError: how many do not, and which.
    """
    long = {} if context is None else {name: tokens for name, tokens in need.items() if tokens > context}
    if long:
        named = ", ".join(f'"{name}" ({tokens})' for name, tokens in list(long.items())[:_SHOWN])
        raise PromptError(
            f"{len(long):,} of {counted(len(need), 'item')} {'needs' if len(long) == 1 else 'need'} more tokens with "
            f"{'its answer' if len(long) == 1 else 'their answers'} than the model's context of "
            f"{context}: {named}{' and more' if len(long) > _SHOWN else ''}; nothing is truncated: {advice}"
        )


def _task(asked: Sequence[str], follow: Sequence[tuple[str, ...]], judge: Any, settings: Settings) -> Any:
    from datasets import Dataset
    from lm_eval.api.task import ConfigurableTask

    rows = Dataset.from_list([{"place": place} for place in range(len(asked))])
    config: dict[str, Any] = {
        "task": _TASK,
        "custom_dataset": lambda **_: {"test": rows},
        "test_split": "test",
        "doc_to_text": lambda doc: asked[doc["place"]],
        "process_results": judge,
        "num_fewshot": 0,
        "target_delimiter": "",
        "metric_list": [{"metric": "score", "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": 1},
    }
    if any(follow):
        config |= {
            "output_type": "multiple_choice",
            "doc_to_choice": lambda doc: list(follow[doc["place"]]),
            "doc_to_target": lambda doc: 0,
        }
    else:
        until = {"until": list(settings.stop), "max_gen_toks": settings.max_new_tokens, "do_sample": False}
        config |= {"output_type": "generate_until", "generation_kwargs": until, "doc_to_target": lambda doc: ""}
    return ConfigurableTask(config=config)


def _judged(model: EngineLM, item: Item, place: int, metric: Metric, results: list[Any]) -> Evaluated:
    answer: Answer = results[0]
    first = model.asked[_TASK, place, 0]
    if texts := _texts(item, metric):
        counts = [model.asked[_TASK, place, number].continuation_tokens for number in range(len(texts))]
        answer = tuple(
            Continuation(text=text, logprob=float(logprob), tokens=count)
            for text, (logprob, _), count in zip(texts, results, counts, strict=True)
        )
    return Evaluated(
        item=item.id,
        prompt_ids=first.prompt.ids,
        generation=first.generation,
        answer=answer,
        score=metric.score(item, answer),
    )
