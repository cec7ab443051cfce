"""A run's folder, read: run.json, records.jsonl, outputs.jsonl and done.json, each checked against the others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from specq.core import hashes, lines
from specq.core.errors import RunFolderError
from specq.core.nouns import counted
from specq.core.records import Generated, Key, Output, Record, key
from specq.run.provenance import show_home

RUN, RECORDS, OUTPUTS, DONE = "run.json", "records.jsonl", "outputs.jsonl", "done.json"
# What every part of specq that reads a run leans on, and its type.
NEEDED = {"experiment": str, "question": str, "config": dict, "arms": list, "prompts": list}
OPTIONAL = {
    "provenance": dict,
    "models": dict,
    "quantized": dict,
    "notes": list,
    "model_notes": list,
    "blocks": list,
    "served": list,
}
OPTIONAL |= {"evals": dict, "quantized_from": dict, "readings": dict}


def read_info(run_dir: Path) -> dict[str, Any]:
    """The content of run.json, whatever it holds.

    Raises:
        RunFolderError: there is no such folder, or it is not a run.
    """
    path = run_dir / RUN
    if not path.is_file():
        what = "there is no run.json in it, so it is not a run" if run_dir.is_dir() else "no such folder"
        raise RunFolderError(f"{run_dir}: {what}; to see the runs that are there type: specq ls")
    return _object(path, "start again with: specq run FILE")


def check_shape(run_dir: Path, info: Mapping[str, Any]) -> None:
    """Do nothing when run.json has all that a run needs.

    Raises:
        RunFolderError: a key is not there or not of its type.
    """
    path = run_dir / RUN
    if lacks := [name for name, kind in NEEDED.items() if not isinstance(info.get(name), kind)]:
        raise RunFolderError(f"{path}: lacks {', '.join(lacks)} as specq run writes them; type specq ls for other runs")
    if wrong := [name for name, kind in OPTIONAL.items() if not isinstance(info.get(name, kind()), kind)]:
        raise RunFolderError(f"{path}: {', '.join(wrong)} not as specq run writes it; put it back")
    for what in ("arms", "prompts"):
        for place, one in enumerate(info[what]):
            if not (isinstance(one, dict) and isinstance(one.get("id"), str) and _lists_fit(one)):
                raise RunFolderError(f"{path}: {what}[{place}] is not as specq run writes it; put it back")
    for source, own in (info.get("readings") or {}).items():
        prompts = own.get("prompts") if isinstance(own, dict) else None
        named = [one.get("id") for one in prompts if isinstance(one, dict)] if isinstance(prompts, list) else []
        if named != [one["id"] for one in info["prompts"]] or not isinstance(own.get("evals"), dict):
            raise RunFolderError(f"{path}: readings of {source} are not as specq run writes them; put them back")
    blocks = info.get("blocks") or []
    lists = all(isinstance(block, list) and block for block in blocks)
    listed = Counter(str(arm) for block in blocks for arm in block) if lists else Counter()
    if blocks and listed != Counter(arm["id"] for arm in info["arms"]):
        raise RunFolderError(f"{path}: blocks are not lists of its arms, each arm in one of them; put them back")


def check_config(run_dir: Path, info: Mapping[str, Any]) -> None:
    """Do nothing when the config is the one that was recorded, as far as can be told on this machine.

    Raises:
        RunFolderError: the config was edited.
    """
    # The hash was made where ~ is another path: elsewhere it can be checked only where no path lies in the home folder.
    if not is_config_as_recorded(info) and '"~' not in json.dumps(info["config"]):
        raise RunFolderError(edited_config(run_dir, info))


def _lists_fit(one: Mapping[str, Any]) -> bool:
    return all(isinstance(one.get(name, []), list) for name in ("levers", "tags", "ids")) and isinstance(
        one.get("replica", 1), int
    )


def is_config_as_recorded(info: Mapping[str, Any]) -> bool:
    """Whether config_sha256 is the hash of the config that stands beside it; true where none was recorded."""
    recorded = info.get("config_sha256")
    return recorded is None or recorded in (config_sha256(info["config"]), config_sha256(show_home(info["config"])))


def config_sha256(config: Mapping[str, Any]) -> str:
    """The hash of a resolved config, as `Experiment.config_sha256` makes it."""
    from specq.experiment.schema import HASH_LEAVES_OUT

    return hashes.of_json({name: value for name, value in config.items() if name not in HASH_LEAVES_OUT})


def edited_config(run_dir: Path, info: Mapping[str, Any]) -> str:
    """The message about a config that is not the one that was recorded."""
    return (
        f"{run_dir / RUN}: its config was edited after the run began (config_sha256 is "
        f"{str(info.get('config_sha256'))[:12]}, the config's own hash is {config_sha256(info['config'])[:12]}); "
        f"put it back (specq run FILE --resume {run_dir} names what differs), or start a new run without --resume"
    )


def differences(then: Any, now: Any, name: str = "") -> list[str]:
    """Where two JSON values differ, as "workload.seed: 0 -> 1"."""
    if isinstance(then, dict) and isinstance(now, dict):
        dot = f"{name}." if name else ""
        return [
            line
            for part in dict.fromkeys([*then, *now])
            for line in differences(then.get(part), now.get(part), f"{dot}{part}")
        ]
    return [] if then == now else [f"{name}: {json.dumps(then)} -> {json.dumps(now)}"]


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The records and outputs of a run, read at one moment.

    `torn` maps a file's name to the bytes of its torn last line.
    """

    records: tuple[Record, ...]
    outputs: tuple[Output, ...]
    torn: Mapping[str, int]
    done: Mapping[str, Any] | None

    @cached_property
    def answers(self) -> dict[Key, Generated]:
        """The generations whose output stands; the first record of each counts."""
        there = {key(output) for output in self.outputs}
        found: dict[Key, Generated] = {}
        for record in self.records:
            if isinstance(record, Generated) and key(record) in there:
                found.setdefault(key(record), record)
        return found

    @cached_property
    def lost(self) -> tuple[Generated, ...]:
        """Generations whose line in outputs.jsonl is gone."""
        return tuple(r for r in self.records if isinstance(r, Generated) and key(r) not in self.answers)

    @property
    def losses(self) -> list[str]:
        """What the files have lost since they were written, in words; empty when they are whole."""
        found = self.lines_lost
        if self.lost:
            every = sum(isinstance(record, Generated) for record in self.records)
            are = "is" if len(self.lost) == 1 else "are"
            found.append(f"{len(self.lost):,} of {counted(every, 'recorded answer')} {are} not in {OUTPUTS} any more")
        return found

    @property
    def lines_lost(self) -> list[str]:
        """Whether records.jsonl is shorter than when the run was done, in words."""
        wrote = (self.done or {}).get("lines")
        wrote = wrote.get(RECORDS) if isinstance(wrote, dict) else None
        if not isinstance(wrote, int) or len(self.records) >= wrote:
            return []
        return [f"{RECORDS} has {counted(len(self.records), 'line')}, {wrote:,} stood there when the run was done"]


def read(run_dir: Path) -> Contents:
    """Read what a run recorded, finished or not.

    Raises:
        RunFolderError: a line before the last is damaged, or a record contradicts its output; as file:line.
    """
    records, torn_records = lines.read(run_dir / RECORDS)
    outputs, torn_outputs = lines.read_outputs(run_dir / OUTPUTS)
    _agree(run_dir, records, {key(output): (number, output) for number, output in outputs})
    torn = {RECORDS: torn_records, OUTPUTS: torn_outputs}
    done = run_dir / DONE
    return Contents(
        records=tuple(record for _, record in records),
        outputs=tuple(output for _, output in outputs),
        torn={name: size for name, size in torn.items() if size},
        done=_object(done, f"take it away and type: specq run --resume {run_dir}") if done.is_file() else None,
    )


def _agree(run_dir: Path, records: list[tuple[int, Record]], outputs: dict[Key, tuple[int, Output]]) -> None:
    for number, record in records:
        if not isinstance(record, Generated) or key(record) not in outputs:
            continue
        line, output = outputs[key(record)]
        if record.has_ids and record.new_tokens != len(output.ids):
            what = f"new_tokens is {record.new_tokens}, the answer has {len(output.ids)} tokens"
        elif record.output_sha256 != hashes.of_answer(output.ids, output.text, has_ids=record.has_ids):
            what = f"output_sha256 is not the hash of the answer's {'ids' if record.has_ids else 'text'}"
        else:
            continue
        raise RunFolderError(
            f"{run_dir / RECORDS}:{number}: {what} ({OUTPUTS}:{line}); one of the two lines was edited: put it back, "
            f"or take both out and type: specq run --resume {run_dir}"
        )


def _object(path: Path, hint: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read ({error.strerror}); to see all runs type: specq ls") from error
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} is not JSON ({error}); {hint}") from error
    if not isinstance(value, dict):
        raise RunFolderError(f"{path} holds no JSON object; {hint}")
    return value
