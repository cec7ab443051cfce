"""Reads a run folder: run.json, records.jsonl, outputs.jsonl, done.json. Writes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from specq.core import jsonl
from specq.core.errors import RunFolderError
from specq.core.records import Done, Generated, Record, from_json

R = TypeVar("R", bound=Record)
Turn = tuple[int, str, int]
NEEDED = ("experiment", "question", "config", "arms", "prompts")


@dataclass(frozen=True, kw_only=True)
class RunFile:
    """One run as it lies on disk.

    `info` is run.json; `torn` maps a file's name to the bytes of its torn last line; `done`
    tells whether done.json stands.
    """

    folder: Path
    info: Mapping[str, Any]
    records: tuple[Record, ...]
    outputs: tuple[Mapping[str, Any], ...]
    torn: Mapping[str, int]
    done: bool

    def of(self, kind: type[R]) -> list[R]:
        """The records of one kind, in the order in which they were written."""
        return [record for record in self.records if isinstance(record, kind)]

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
    def missing(self) -> list[str]:
        """What the run has still to do, in words; empty when it is complete.

        The report is written before done.json, so the workers' own Done records count as well.
        """
        if self.done:
            return []
        finished = {(record.task, record.process) for record in self.of(Done)}
        tasks = {task for task, _ in finished}
        unmeasured = [arm["id"] for arm in self.info["arms"] if f"memory:{arm['id']}" not in tasks]
        processes = int(self.setting("workload", "processes", default=1))
        repeats = int(self.setting("workload", "repeats", default=1))
        found = []
        if len({process for task, process in finished if task == "measure"}) < processes:
            expected = len(self.info["arms"]) * len(self.info["prompts"]) * repeats * processes
            found.append(f"{sum(map(len, self.generated.values()))} of {expected} generations are recorded")
        if self.setting("workload", "memory", default=False) and unmeasured:
            found.append(f"memory is not measured for {', '.join(unmeasured)}")
        if self.setting("audit", "enabled", default=True) and "audit" not in tasks:
            found.append("outputs are not audited")
        return found


def load(folder: Path | str) -> RunFile:
    """Read a run folder, finished or not.

    Raises:
        RunFolderError: the folder is not there, or its run.json is missing or not a run's.
        RunFailed: a line before the last is broken, or another version of specq wrote it.
    """
    folder = Path(folder)
    path = folder / "run.json"
    if not path.is_file():
        raise RunFolderError(
            f"{folder}: no run.json there; allowed is a folder that `specq run` made: specq ls lists them"
        )
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunFolderError(f"{path}: not JSON ({error}); allowed is a run's own file: type specq ls") from error
    missing = [key for key in NEEDED if not isinstance(info, dict) or key not in info]
    if missing:
        raise RunFolderError(f"{path}: lacks {', '.join(missing)}; allowed is a run's own file: type specq ls")
    lines, torn_records = jsonl.read(folder / "records.jsonl")
    outputs, torn_outputs = jsonl.read(folder / "outputs.jsonl")
    torn = {"records.jsonl": torn_records, "outputs.jsonl": torn_outputs}
    return RunFile(
        folder=folder,
        info=info,
        records=tuple(from_json(line) for line in lines),
        outputs=tuple(outputs),
        torn={name: size for name, size in torn.items() if size},
        done=(folder / "done.json").is_file(),
    )
