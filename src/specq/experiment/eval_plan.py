"""What the evals of an experiment will ask, and what cannot work, before any weight is loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.core.errors import ConfigError, PromptError, RunFailed, UserError
from specq.core.nouns import counted
from specq.evals import items as item_files
from specq.evals import metrics
from specq.evals.harness import continuations
from specq.evals.items import Item
from specq.evals.tasks import Task
from specq.experiment import eval_checks, floor_checks
from specq.experiment.checks import Refusal
from specq.experiment.quality import Eval, split
from specq.experiment.schema import Experiment
from specq.experiment.sizes import PlannedModel
from specq.models import tokenizers


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """How answers are judged: the metric's name, whether texts are generated ("text") or scored, 0 or 1 or between.

    `sha256` is that of the file of a metric function, or of all that a task of lm-eval is made from.
    """

    name: str
    output: str
    binary: bool
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEval:
    """An eval whose items were read and whose metric fits them.

    `tokens` counts each item's prompt and `room` what it needs with its answer, which is `new_tokens` at most (None:
    nothing is generated), in the order of the items; `prompts` is the hash of its ids, "" where a task of lm-eval
    writes the prompts itself. `batch_size` prompts are answered at a time; `one_by_one` says why that is 1 where more
    were asked for. `unprobed` says why no probe is made where one was asked for.
    """

    asked: Eval
    items: tuple[Item, ...]
    metric: Judging
    sha256: str
    tokens: tuple[int, ...]
    prompts: tuple[str, ...]
    room: tuple[int, ...] = ()
    new_tokens: int | None = None
    batch_size: int = 1
    one_by_one: str = ""
    unprobed: str = ""

    @property
    def probe(self) -> float:
        """The noise of the probe, 0 where none is made."""
        return 0.0 if self.unprobed else self.asked.probe

    @property
    def clusters(self) -> int:
        """How many clusters its items are of."""
        return len({item.cluster for item in self.items})

    def to_json(self) -> dict[str, Any]:
        """Plain values: sizes, without the items."""
        return {
            "name": self.asked.name,
            "items": len(self.items),
            "clusters": self.clusters,
            "metric": self.metric.name,
            "output": self.metric.output,
            "binary": self.metric.binary,
            "prompt_tokens": sum(self.tokens),
            "max_new_tokens": self.new_tokens,
            "batch_size": self.batch_size,
            "probe": self.probe,
            "sha256": self.sha256,
        }


def planned(
    experiment: Experiment, target: PlannedModel, tokenizer: Any
) -> tuple[tuple[PlannedEval, ...], list[Refusal], list[str]]:
    """The evals of an experiment, what is refused about them, and notes. No weights are loaded."""
    found: list[PlannedEval] = []
    refusals: list[Refusal] = []
    notes: list[str] = []
    for asked in experiment.evals:
        try:
            one, said = _task(asked, tokenizer) if asked.task is not None else _of_file(asked, tokenizer)
            eval_checks.check_room("", target, one)
            floor_checks.check_quality(experiment, one)
        except UserError as error:
            refusals.append(Refusal(arm=None, reason=f'eval "{asked.name}": {error}', error=type(error)))
            continue
        found.append(one)
        if experiment.smoke and asked.task is None:
            # What the limit of a smoke run leaves out is asked in the run that is judged.
            said = ()
        notes += [*_notes(experiment, one), *(f'eval "{asked.name}": {note}' for note in said)]
    return tuple(found), refusals, notes


def read_by(one: PlannedEval, tokenizer: Any) -> PlannedEval:
    """An eval as a model of another tokenizer or template reads it: the same items, asked in the same way.

    Raises:
        PromptError: its template refuses an item.
    """
    try:
        own, _ = _task(one.asked, tokenizer) if one.asked.task is not None else _of_file(one.asked, tokenizer)
    except UserError as error:
        raise type(error)(f'eval "{one.asked.name}": {error}') from error
    return replace(one, tokens=own.tokens, prompts=own.prompts, room=own.room)


def _of_file(asked: Eval, tokenizer: Any) -> tuple[PlannedEval, tuple[str, ...]]:
    """An eval of a file, and what its reader must know."""
    path = Path(str(asked.items)).expanduser()
    metric = metrics.make(str(asked.metric), asked.options)
    whole = item_files.load(path)
    items = whole[: asked.limit] if asked.limit is not None else whole
    metrics.check(metric, items, path)
    judging = Judging(name=metric.name, output=metric.output, binary=metric.binary, sha256=metric.sha256)
    planned = PlannedEval(
        asked=asked,
        items=items,
        metric=judging,
        sha256=hashes.of_file(Path(str(asked.items)).expanduser()),
        tokens=(),
        prompts=(),
        new_tokens=asked.max_new_tokens if metric.output == "text" else None,
        batch_size=asked.batch_size,
    )
    return read_items(planned, items, tokenizer), tuple(_left_out(asked, items, whole))


def read_items(one: PlannedEval, items: Sequence[Item], tokenizer: Any) -> PlannedEval:
    """An eval of a file with these items, as a model's template and tokenizer read them.

    Raises:
        PromptError: the template refuses an item.
    """
    metric = metrics.make(str(one.asked.metric), one.asked.options)
    tokens, prompts, room = [], [], []
    for item in items:
        try:
            rendered = tokenizers.render(tokenizer, item.prompt or list(item.messages))
        except PromptError as error:
            raise PromptError(f'item "{item.id}": {error}') from error
        tokens.append(len(rendered.ids))
        prompts.append(hashes.of_ids(rendered.ids))
        after = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in continuations(item, metric)]
        room.append(tokens[-1] + max(after, default=one.asked.max_new_tokens))
    return replace(one, items=tuple(items), tokens=tuple(tokens), prompts=tuple(prompts), room=tuple(room))


def _left_out(asked: Eval, items: Sequence[Item], whole: Sequence[Item]) -> Iterator[str]:
    critical, of = (sum(item.critical for item in some) for some in (items, whole))
    if critical < of:
        yield (
            f"limit = {asked.limit} leaves out {of - critical} of {counted(of, 'critical item')}: no arm is held to "
            f"{'it' if of - critical == 1 else 'them'}"
        )


def load_task(asked: Eval) -> Task:
    """The task of lm-eval that an eval names.

    Raises:
        ConfigError, Unsupported: as evals.tasks.load_task.
    """
    from specq.evals import tasks

    return tasks.load_task(
        str(asked.task),
        metric=asked.metric,
        num_fewshot=asked.num_fewshot,
        limit=asked.limit,
        chat_template=asked.chat_template,
    )


def _task(asked: Eval, tokenizer: Any) -> tuple[PlannedEval, tuple[str, ...]]:
    """A task's documents as items, and what its reader must know."""
    from specq.evals.task_harness import lengths

    task = load_task(asked)
    try:
        long = lengths(task, tokenizer)
    except RunFailed as error:
        # The task's own code cannot write its prompts, as it could not in the run.
        raise ConfigError(str(error)) from error
    items = tuple(
        Item(
            id=name,
            line=place + 1,
            prompt=prompt,
            cluster=name,
            given={"id": name, "prompt": prompt, "reference": right},
        )
        for place, (name, (prompt, right)) in enumerate(zip(task.ids, task.shown(), strict=True))
    )
    judging = Judging(
        name=f"{task.name}: {task.reading.metric}",
        output="text" if task.sampling is not None else "choice",
        binary=task.reading.binary,
        sha256=hashes.of_json([task.config_sha256, task.code]),
    )
    planned = PlannedEval(
        asked=asked,
        items=items,
        metric=judging,
        sha256=task.docs_sha256,
        tokens=tuple(one.prompt for one in long),
        prompts=("",) * len(items),
        room=tuple(one.all for one in long),
        new_tokens=None if task.sampling is None else task.sampling.max_new_tokens,
        batch_size=asked.batch_size,
    )
    return planned, task.notes


def _notes(experiment: Experiment, one: PlannedEval) -> Sequence[str]:
    asked, found = one.asked, []
    # A smoke run's limit is none that stands in the file.
    if asked.limit is not None and len(one.items) < asked.limit and not experiment.smoke:
        held = counted(len(one.items), "item")
        found.append(f'eval "{asked.name}": limit = {asked.limit}, but it holds {held}: all are asked')
    # Nor are its items those that a margin would be held with.
    if not experiment.smoke and not any(split(key)[0] == asked.name for key in experiment.floor.quality):
        found.append(
            f'eval "{asked.name}" has no margin in [floor] quality: scores are shown, and no lever that changes the '
            f"outputs can be kept for them; {floor_checks.example(one)}"
        )
    found += floor_checks.large(experiment, one)
    prompts = Counter(item.prompt or str(item.messages) for item in one.items)
    if twice := sum(count - 1 for count in prompts.values()):
        what = ("1 item repeats", "counts") if twice == 1 else (f"{twice} items repeat", "count")
        found.append(f'eval "{asked.name}": {what[0]} the prompt of another, and {what[1]} as evidence twice')
    lossy = [name for name, lever in experiment.levers.items() if (draft := lever.draft()) is not None and draft.lossy]
    if one.metric.output != "text" and lossy:
        found.append(
            f'eval "{asked.name}" scores texts and generates none: it does not see the lossy rule of '
            f"{', '.join(lossy)}, which takes an eval that generates answers"
        )
    if one.metric.output != "text" and asked.through_loop:
        found.append(f'eval "{asked.name}" scores texts and generates none: a draft changes nothing about it')
    return found
