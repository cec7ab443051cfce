"""Reads a run folder: run.json, records.jsonl, outputs.jsonl, done.json. Writes nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from specq.core.evaluated import PROBE
from specq.core.records import Done, Failed, Generated, Output, Record, failed_arms
from specq.core.typed import fields_of
from specq.core.types import LOSSY_RULES, TargetSpec
from specq.experiment.engine_table import SERVED
from specq.run import folder as run_folder
from specq.run.job import Task, blocks_of
from specq.run.schedule import measure_tasks

LOSSY = "lossy"
R = TypeVar("R", bound=Record)
Turn = tuple[int, str, int]


@dataclass(frozen=True, kw_only=True)
class RunFile:
    """One run as it lies on disk.

    `info` is run.json; `torn` maps a file's name to the bytes of its torn last line; `losses` says
    what the files have lost since they were written; `done` tells whether done.json stands.
    """

    folder: Path
    info: Mapping[str, Any]
    records: tuple[Record, ...]
    outputs: tuple[Mapping[str, Any], ...]
    torn: Mapping[str, int]
    losses: tuple[str, ...]
    done: bool

    def of(self, kind: type[R]) -> list[R]:
        """The records of one kind, in the order in which they were written."""
        return cast(list[R], list(self._by_kind.get(kind, ())))

    @cached_property
    def _by_kind(self) -> dict[type, list[Record]]:
        # A report asks for a few records of a kind many times over, and most of a run's are of others.
        found: dict[type, list[Record]] = {}
        for record in self.records:
            found.setdefault(type(record), []).append(record)
        return found

    def setting(self, *keys: str, default: Any) -> Any:
        """A value of the resolved config by its path, or the default where the config has none."""
        value: Any = self.info["config"]
        for key in keys:
            if not isinstance(value, Mapping) or value.get(key) is None:
                return default
            value = value[key]
        return value

    @cached_property
    def generated(self) -> dict[str, dict[Turn, Generated]]:
        """Per arm id, its generations by turn (process, prompt, repeat); the first one recorded counts."""
        by_arm: dict[str, dict[Turn, Generated]] = {str(arm["id"]): {} for arm in self.info["arms"]}
        for g in self.of(Generated):
            by_arm.setdefault(g.arm, {}).setdefault((g.process, g.prompt, g.repeat), g)
        return by_arm

    @cached_property
    def failed_arms(self) -> dict[str, Failed]:
        """Per arm whose every sample raised, its first failure: such an arm has no number at all."""
        return failed_arms(self.records)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Per arm id, its levers as tables name it; a baseline's own id. Where its rule is lossy, so says its name.

        On another model than the experiment's it has that model's name beside them, where they do not say it.
        """
        return {
            arm: (titled(one.get("levers") or (), self.source(arm)) or arm) + (f" ({LOSSY})" if self.lossy(arm) else "")
            for arm, one in self._arms.items()
        }

    def lossy(self, arm: str) -> str:
        """The arm's rule and its threshold in words where the rule is lossy, else ""."""
        rule = str((self._arms[arm].get("draft") or {}).get("rule") or "")
        return f"lossy rule, threshold {self.threshold(arm)}" if rule in LOSSY_RULES else ""

    def threshold(self, arm: str) -> float | None:
        """The threshold of the arm's lossy rule; None where its rule is exact, or it has no draft."""
        found = (self._arms[arm].get("draft") or {}).get("threshold")
        return None if found is None else float(found)

    def target(self, arm: str) -> Mapping[str, Any] | None:
        """What an arm changes about the target, as a core.types.TargetSpec in JSON; None where it changes nothing."""
        found = self._arms[arm].get("target") or {}
        keys = ("source", "recipe", "model", "kv_cache", "select")
        changed = found.get("clean") or any(found.get(key) is not None for key in keys)
        return found if changed else None

    def keeps_prefixes(self, arm: str) -> bool:
        """Whether an arm keeps what prompts begin with from request to request."""
        return bool((self._arms[arm].get("target") or {}).get("prefix_cache"))

    def batch(self, arm: str) -> int:
        """How many requests an arm answers at once."""
        return int((self._arms[arm].get("target") or {}).get("batch") or 1)

    def other_weights(self, arm: str) -> bool:
        """Whether an arm runs on other weights than the experiment's target as it stands."""
        found = self._arms[arm].get("target") or {}
        return any(found.get(key) is not None for key in ("source", "recipe", "model"))

    def source(self, arm: str) -> str:
        """The model that stands in the target's place on an arm, as the user wrote it; "" where none does."""
        return str((self._arms[arm].get("target") or {}).get("source") or "")

    def reading(self, arm: str) -> Mapping[str, Any]:
        """How an arm reads prompts and items, as run.inputs.readings wrote it; empty: as the target does."""
        target = self._arms[arm].get("target") or {}
        keys = ("source", "clean", "select")
        reading = TargetSpec(**{key: target[key] for key in keys if target.get(key) is not None}).reading
        found: Mapping[str, Any] = (self.info.get("readings") or {}).get(reading, {})
        return found

    def steps(self, arm: str) -> str:
        """The steps that transform an arm's prompts, in words; "" where none do."""
        return str(self.reading(arm).get("steps") or "")

    def other_tokens(self, arm: str) -> str:
        """Where the tokens of an arm's target are not the baseline's, so that they are no common unit; "" where not."""
        return str(self.reading(arm).get("other_tokens") or "")

    def plain(self, arm: str) -> str:
        """The id of the arm with the same target and no draft; older runs have one plain target, the baseline's."""
        return str(self._arms[arm].get("plain") or next(iter(self.baselines), ""))

    @cached_property
    def _arms(self) -> dict[str, Mapping[str, Any]]:
        return {str(arm["id"]): arm for arm in self.info["arms"]}

    @cached_property
    def tags(self) -> dict[str, list[str]]:
        """Per tag, the ids of the prompts that carry it, in the order of run.json."""
        by_tag: dict[str, list[str]] = {}
        for prompt in self.info["prompts"]:
            for tag in prompt.get("tags", ()):
                by_tag.setdefault(str(tag), []).append(str(prompt["id"]))
        return by_tag

    @property
    def greedy(self) -> bool:
        """Whether the run decoded at temperature 0."""
        return float(self.setting("workload", "temperature", default=0.0)) == 0.0

    @property
    def baselines(self) -> list[str]:
        """Ids of the arms without levers: the baseline and its twins, by replica."""
        plain = [arm for arm in self.info["arms"] if not arm.get("levers")]
        return [str(arm["id"]) for arm in sorted(plain, key=lambda arm: int(arm.get("replica", 1)))]

    @property
    def served(self) -> bool:
        """Whether a server was asked, and not an engine of specq's own."""
        return self.setting("engine", "kind", default="hf") in SERVED

    @property
    def attached(self) -> bool:
        """Whether that server ran already."""
        return any(self.setting("engine", key, default=None) for key in ("url", "url_env"))

    @cached_property
    def blocks(self) -> dict[str, tuple[str, ...]]:
        """As run.job.blocks_of."""
        return blocks_of(self.info)

    @property
    def in_blocks(self) -> bool:
        """Whether memory held one target at a time, and its arms ran by themselves."""
        return "" not in self.blocks

    @property
    def measure_tasks(self) -> list[Task]:
        """The workers that were to measure, in their order."""
        repeats, processes = (int(self.setting("workload", key, default=1)) for key in ("repeats", "processes"))
        return measure_tasks(list(self.blocks), repeats, processes)

    @property
    def _eval_tasks(self) -> list[str]:
        """The names of the workers that were to answer the evals, without the proofs, which come before them."""
        evals = (self.info.get("evals") or {}).values()
        if not evals:
            return []
        weights: dict[str, str] = {}
        for arm in self.info["arms"]:
            target = arm.get("target") or {}
            # A server is started for one arm.
            key = str(arm["id"]) if self.served else repr([target.get(name) for name in ("source", "recipe", "model")])
            weights.setdefault(key, str(arm["id"]))
        probe = [PROBE] if len(self.info["arms"]) > len(self.baselines) and any(one["probe"] for one in evals) else []
        return [Task(kind="eval", arm=arm).name for arm in (*weights.values(), *probe)]

    @property
    def missing(self) -> list[str]:
        """What the run has still to do or has lost, in words; empty when it is complete.

        The report is written before done.json, so the workers' own Done records count as well.
        """
        if self.done:
            return list(self.losses)
        finished = {(record.task, record.process) for record in self.of(Done)}
        tasks = {task for task, _ in finished}
        unmeasured = [
            arm["id"]
            for arm in self.info["arms"]
            if f"memory:{arm['id']}" not in tasks and arm["id"] not in self.failed_arms
        ]
        found = list(self.losses)
        if any((task.name, task.process) not in finished for task in self.measure_tasks):
            turns = [int(self.setting("workload", key, default=1)) for key in ("repeats", "processes")]
            expected = len(self.info["arms"]) * len(self.info["prompts"]) * math.prod(turns)
            recorded = sum(map(len, self.generated.values()))
            # The last answer stands and its worker did not say that it was through: a kill between the two.
            through = "" if recorded < expected else ", and a worker did not say that it was through"
            found.append(f"{recorded} of {expected} generations are recorded{through}")
        if self.setting("workload", "memory", default=False) and unmeasured and not self.attached:
            found.append(f"memory is not measured for {', '.join(unmeasured)}")
        if unanswered := [task for task in self._eval_tasks if task not in tasks]:
            found.append(f"evals are not answered: {', '.join(unanswered)}")
        audits = {Task(kind="audit", arm=block).name for block in self.blocks}
        if self.setting("audit", "enabled", default=True) and not audits <= tasks:
            some = f" in {len(audits - tasks)} of {len(audits)} blocks" if audits & tasks else ""
            found.append(f"outputs are not audited{some}")
        return found


def titled(levers: Sequence[str], source: str | None) -> str:
    """Levers as tables name them, with the name of the model in the target's place where none of them says it."""
    name = Path(source or "").name
    return " + ".join(levers) + (f" ({name})" if name and name not in levers else "")


def load(folder: Path | str) -> RunFile:
    """Read a run folder, finished or not.

    Raises:
        RunFolderError: the folder is not there, its run.json is missing, edited or not a run's, a line
            before the last is damaged, another version of specq wrote it, or a record contradicts its output.
    """
    folder = Path(folder)
    info = run_folder.read_info(folder)
    run_folder.check_shape(folder, info)
    run_folder.check_config(folder, info)
    contents = run_folder.read(folder)
    return RunFile(
        folder=folder,
        info=info,
        records=contents.records,
        outputs=tuple(map(_as_json, contents.outputs)),
        torn=contents.torn,
        losses=tuple(contents.losses),
        done=contents.done is not None,
    )


def _as_json(output: Output) -> dict[str, Any]:
    # asdict would copy every token on its own.
    return {**{name: getattr(output, name) for name in fields_of(Output)}, "ids": list(output.ids)}
