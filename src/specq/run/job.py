"""What a run was asked for and its tasks; what a worker works with, and how it is stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TextIO

from specq.core.hashes import seed_of
from specq.core.nouns import listed
from specq.core.records import Failed
from specq.core.types import DraftSpec, Prompt, Sampling, TargetSpec
from specq.experiment import config
from specq.experiment.arms import BASELINE
from specq.experiment.schema import Experiment
from specq.run.provenance import show_home
from specq.run.store import Store

FIRST, TWIN = f"{BASELINE}#1", f"{BASELINE}#2"


def prompt_to_json(prompt: Prompt, sha256: str) -> dict[str, Any]:
    """A prompt as it stands in run.json: whole, so that a worker and a resume see the same ids."""
    return {
        "id": prompt.id,
        "tags": list(prompt.tags),
        "tokens": len(prompt.ids),
        "prompt_sha256": sha256,
        "ids": list(prompt.ids),
        "text": prompt.text,
        "messages": [dict(message) for message in prompt.messages],
    }


def prompt_from_json(value: dict[str, Any]) -> Prompt:
    """Undo prompt_to_json."""
    return Prompt(
        id=value["id"],
        ids=tuple(value["ids"]),
        text=value["text"],
        messages=tuple(value["messages"]),
        tags=tuple(value["tags"]),
    )


def experiment_of(info: dict[str, Any]) -> Experiment:
    """The experiment that run.json was made from."""
    return config.from_resolved(show_home(info["config"]))


def every_sample_failed(first: Iterable[Failed]) -> list[str]:
    """Which arms failed on all their samples, and how it began: from each arm's first, a line for each reason."""
    found: dict[tuple[str, str], list[Failed]] = {}
    for failed in first:
        found.setdefault((failed.error, failed.message), []).append(failed)
    return [
        f"{listed([one.arm for one in some])} failed on every sample, first on prompt {some[0].prompt}: "
        f"{error}: {message}"
        for (error, message), some in found.items()
    ]


def blocks_of(info: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The arms that are in memory together, by their first arm; all under "" where the run has no blocks."""
    blocks = {str(arms[0]): tuple(map(str, arms)) for arms in info.get("blocks") or ()}
    return blocks or {"": tuple(str(arm["id"]) for arm in info["arms"])}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one worker is started for: `kind` is quantize, measure, memory, audit, prove or eval.

    `arm` is the arm of a memory task, the label of the model that a quantize task makes, and the block of a
    measure or audit task, "" where the run has none; of an eval task the first arm on a target's weights, and of
    prove the arm without a draft that others are held against. `repeat` is that of a block that is measured; None: all.
    """

    kind: str
    process: int = 0
    arm: str = ""
    repeat: int | None = None

    @property
    def name(self) -> str:
        """The task as it stands in Done and WorkerDied records."""
        parts = [self.kind, self.arm, "" if self.repeat is None else str(self.repeat)]
        return ":".join(part for part in parts if part)


@dataclass(slots=True)
class Progress:
    """Tells the parent what happened: JSON lines. A parent that is gone is noticed here or by its id."""

    stream: TextIO
    parent: int
    stopped: bool = False

    def say(self, event: str, **facts: Any) -> None:
        """Write one event; a closed pipe stops the worker."""
        try:
            self.stream.write(json.dumps({"event": event, **facts}) + "\n")
            self.stream.flush()
        except (BrokenPipeError, ValueError):
            self.stopped = True

    def should_stop(self) -> bool:
        """Whether a signal asked to stop, or the parent died and left this process to another one."""
        self.stopped = self.stopped or os.getppid() != self.parent
        return self.stopped


@dataclass(kw_only=True)
class Asked:
    """What the run in a store was asked for."""

    store: Store
    experiment: Experiment = field(init=False)

    def __post_init__(self) -> None:
        self.experiment = experiment_of(self.store.info)

    @cached_property
    def drafts(self) -> dict[str, DraftSpec | None]:
        """Each arm's draft, in the order of run.json; None is plain decoding."""
        return {a["id"]: DraftSpec(**a["draft"]) if a["draft"] else None for a in self.store.info["arms"]}

    @cached_property
    def targets(self) -> dict[str, TargetSpec]:
        """What each arm changes about the target, in the order of run.json."""
        return {a["id"]: TargetSpec(**a.get("target", {})) for a in self.store.info["arms"]}

    @cached_property
    def plain(self) -> dict[str, str]:
        """For each arm the one with the same target and no draft; the baseline's own arms have the first of them."""
        return {a["id"]: a.get("plain", FIRST) for a in self.store.info["arms"]}

    @cached_property
    def prompts(self) -> dict[str, Prompt]:
        """Prompts by id, in the order of run.json."""
        return {p["id"]: prompt_from_json(p) for p in self.store.info["prompts"]}

    @cached_property
    def evals(self) -> dict[str, dict[str, Any]]:
        """Each eval by its name, with its items, as `inputs.evals` wrote them."""
        return dict(self.store.info.get("evals") or {})

    @cached_property
    def readings(self) -> dict[str, dict[str, Prompt]]:
        """Where arms do not read the prompts as the target does: by TargetSpec.reading, those prompts by id."""
        found = (self.store.info.get("readings") or {}).items()
        return {reading: {p["id"]: prompt_from_json(p) for p in own["prompts"]} for reading, own in found}

    @cached_property
    def tokens_before(self) -> dict[str, dict[str, int]]:
        """By reading with a transform, the tokens of each prompt before it."""
        found = (self.store.info.get("readings") or {}).items()
        return {
            reading: {p["id"]: int(p["tokens_before"]) for p in own["prompts"]}
            for reading, own in found
            if "steps" in own
        }

    def prompts_of(self, arm: str) -> dict[str, Prompt]:
        """The prompts by id as an arm's own target reads them, transformed where a lever of the arm does that."""
        return self.readings.get(self.targets[arm].reading, self.prompts)

    def reads_alike(self, arm: str, prompt: str) -> bool:
        """Whether a prompt is the same tokens to an arm's target as to the experiment's, and tokens mean the same.

        No prompt is of an arm that transforms them: those that it leaves alone say nothing of the others.
        """
        target = self.targets[arm]
        if target.changes_prompts or (self.store.info.get("readings") or {}).get(target.reading, {}).get(
            "other_tokens"
        ):
            return False
        return self.prompts_of(arm)[prompt].ids == self.prompts[prompt].ids

    @cached_property
    def blocks(self) -> dict[str, tuple[str, ...]]:
        """As `blocks_of`."""
        return blocks_of(self.store.info)

    def first_prompt(self, arm: str) -> Prompt:
        """The prompt that warm-up and the canary use, as an arm's own target reads it."""
        return next(iter(self.prompts_of(arm).values()))

    def fitting(self, tokens: int) -> int:
        """`tokens`, or what the smallest context of the run's models has room for after the first prompt."""
        models = self.store.info.get("models", {}).values()
        contexts = [model["context"] for model in models if isinstance(model, dict) and model.get("context")]
        contexts += [] if self.experiment.engine.context is None else [self.experiment.engine.context]
        longest = max(len(self.first_prompt(arm).ids) for arm in self.targets)
        return min([tokens, *(context - longest for context in contexts)])

    def sampling(self, prompt: str, repeat: int) -> Sampling:
        """The run's sampling with the seed of this prompt and repeat, whatever ran before it."""
        base = self.experiment.sampling()
        return replace(base, seed=seed_of(base.seed, prompt, repeat))

    def fixed_length(self, tokens: int) -> Sampling:
        """Greedy, stops ignored, exactly `tokens` new tokens: for warm-up and the canary."""
        # Few servers go on after the end token, and those of an experiment with equal lengths do.
        on = not self.experiment.engine.is_server or self.experiment.workload.lengths == "equal"
        return Sampling(temperature=0.0, max_new_tokens=tokens, ignore_eos=on)


@dataclass(kw_only=True)
class Job(Asked):
    """One task of one worker process."""

    process: int
    progress: Progress
