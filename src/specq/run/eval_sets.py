"""The evals of a run as a worker asks them: a set of the user's own, or a task of lm-eval."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from specq.core import hashes
from specq.core.errors import RunFolderError
from specq.core.types import TargetSpec
from specq.engines.base import Decoder, LoadedTarget
from specq.evals import harness, items, metrics
from specq.evals.items import Item
from specq.evals.metric import Metric
from specq.evals.tasks import Task
from specq.experiment import eval_plan
from specq.experiment.quality import Eval
from specq.models import facts, refs
from specq.run import eval_left, transforming
from specq.run.job import Job
from specq.run.provenance import show_home


class EvalSet(Protocol):
    """Items that can be answered by their places in it."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The names of its items, in their order."""
        ...

    def answer(
        self, places: Sequence[int], target: LoadedTarget, decoder: Decoder, batch_size: int
    ) -> list[harness.Evaluated]:
        """The answers of some items, in the order of `places` or of the set."""
        ...


@dataclass(frozen=True, kw_only=True)
class OwnSet:
    """Items of a file and the metric that judges them."""

    items: tuple[Item, ...]
    metric: Metric
    tokenizer: Any
    max_new_tokens: int
    stop: tuple[str, ...]
    on_judge: harness.OnJudge = harness.nobody_listens

    @property
    def ids(self) -> tuple[str, ...]:
        """The items' ids."""
        return tuple(item.id for item in self.items)

    def answer(
        self, places: Sequence[int], target: LoadedTarget, decoder: Decoder, batch_size: int
    ) -> list[harness.Evaluated]:
        """As EvalSet.answer."""
        some = [self.items[place] for place in places]
        settings = harness.Settings(max_new_tokens=self.max_new_tokens, stop=self.stop, batch_size=batch_size)
        return harness.evaluate(some, self.metric, target, decoder, self.tokenizer, settings, on_judge=self.on_judge)


@dataclass(frozen=True, kw_only=True)
class TaskSet:
    """A task of lm-eval; `context` is how many tokens the model takes, None where that is not known."""

    task: Task
    tokenizer: Any
    context: int | None
    on_judge: harness.OnJudge = harness.nobody_listens

    @property
    def ids(self) -> tuple[str, ...]:
        """The documents' names."""
        return self.task.ids

    def answer(
        self, places: Sequence[int], target: LoadedTarget, decoder: Decoder, batch_size: int
    ) -> list[harness.Evaluated]:
        """As EvalSet.answer."""
        from specq.evals.task_harness import evaluate_task

        return evaluate_task(
            self.task,
            target,
            decoder,
            self.tokenizer,
            batch_size=batch_size,
            context=self.context,
            places=frozenset(places),
            on_judge=self.on_judge,
        )


def read(job: Job, name: str, tokenizer: Any, target: TargetSpec) -> EvalSet:
    """An eval of the run as an arm with this target reads it, whose tokenizer is given.

    Raises:
        RunFolderError: the file of a metric function, or a task, is not the one that the run began with.
    """
    table, one = Eval.model_validate(show_home(eval_left.settings(job, name))), job.evals[name]

    def judged(item: str) -> None:
        # The parent keeps it, so that it can name what a worker died of.
        job.progress.say("judging", eval=name, item=item, metric=one["metric"])

    changed = "was changed since the run began; put it back, or start a new run"
    if table.task is not None:
        task = eval_plan.load_task(table)
        then = (one["metric_sha256"], one["sha256"])
        if (hashes.of_json([task.config_sha256, task.code]), task.docs_sha256) != then:
            raise RunFolderError(f'eval "{name}": the task {table.task} {changed}')
        return TaskSet(task=task, tokenizer=tokenizer, context=_context(job, target.source), on_judge=judged)
    metric = metrics.make(str(table.metric), table.options)
    if metric.sha256 != one["metric_sha256"]:
        raise RunFolderError(f'eval "{name}": {table.metric} {changed}')
    given = (items.read_line(json.dumps(item["given"])) for item in one["items"])
    return OwnSet(
        items=tuple(transforming.item(job, name, item, target) for item in given),
        metric=metric,
        tokenizer=tokenizer,
        max_new_tokens=table.max_new_tokens,
        stop=table.stop,
        on_judge=judged,
    )


def _context(job: Job, source: str | None) -> int | None:
    if source is not None:
        return facts.facts(refs.resolve(source)).context
    models = (job.store.info.get("models") or {}).items()
    return next((model.get("context") for role, model in models if role.startswith("target ")), None)
