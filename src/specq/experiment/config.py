"""Experiment files: TOML in, a checked and frozen Experiment out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specq.core.errors import ConfigError
from specq.core.nouns import slug
from specq.experiment import overrides as set_keys
from specq.experiment.explain import explain
from specq.experiment.schema import Experiment, Origin

SMOKE_PROMPTS, SMOKE_NEW_TOKENS, SMOKE_SEEDS, SMOKE_ITEMS = 3, 16, 20, 8


def load(path: Path, overrides: Sequence[str] = (), *, smoke: bool = False) -> Experiment:
    """Read an experiment file, with `--set` overrides put over it.

    A path in it (prompts, items, a recipe, a model folder or GGUF file) is looked for from the current folder
    first, then from the file's folder and that folder's parent; it is kept as it was found.
    `smoke`, or the key of that name, cuts the run to a minute: few prompts, few tokens, one turn,
    one process, no memory runs, few items and no probe. The experiment is named after the file
    unless the file names it.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or holds an unknown key, a value of
            the wrong type or out of range, or something that this version cannot do.
    """
    try:
        values, paths = set_keys.apply(_read(path), overrides)
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply; allowed are the tables that an experiment has") from error
    values.setdefault("name", slug(path.stem, "experiment"))
    try:
        experiment = Experiment.model_validate(_located(values, path.parent))
    except ValidationError as error:
        raise ConfigError(f"{path}: {explain(error, Experiment, paths)}") from error
    origin = Origin(file=str(path), overrides=tuple(overrides), smoke=smoke)
    return (_smoke(experiment) if smoke or experiment.smoke else experiment).read_from(origin)


def from_resolved(values: Mapping[str, Any]) -> Experiment:
    """The experiment that `Experiment.resolved()` wrote.

    Raises:
        ConfigError: a key or a value is not known to this version.
    """
    try:
        return Experiment.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(f"resolved config: {explain(error, Experiment)}") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path}: no such file; name an experiment file, for example experiments/pair.toml"
        ) from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name an experiment file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error


def _located(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The values with the paths of prompts and models as they were found."""
    tables = [(values.get("workload"), "prompts"), (values.get("target"), "model"), (values.get("engine"), "tokenizer")]
    levers = values.get("levers")
    evals = values.get("evals")
    if isinstance(evals, list):
        tables += [(one, key) for one in evals for key in ("items", "metric", "task")]
    if isinstance(levers, dict):
        tables += [(lever, key) for lever in levers.values() for key in ("model", "recipe")]
    for table, key in tables:
        if isinstance(table, dict) and isinstance(table.get(key), str):
            # A metric may be a function of a file: "file.py:function".
            path, colon, function = table[key].partition(":") if key == "metric" else (table[key], "", "")
            table[key] = _found(path, folder) + colon + function
    return values


def _found(name: str, folder: Path) -> str:
    # Hub ids, built-ins and "self" are no files, and a name that is nowhere is refused later, by what it should be.
    if not name or "\0" in name or Path(name).expanduser().exists():
        return name
    # A plain folder name has its parent in its own text; ".", ".." and "" have not.
    parent = folder.parent if folder.name not in ("", "..") else folder / ".."
    return next((str(base / name) for base in (folder, parent) if (base / name).exists()), name)


def _smoke(experiment: Experiment) -> Experiment:
    values = experiment.resolved()
    workload, audit = values["workload"], values["audit"]
    workload["limit"] = min(workload["limit"] or SMOKE_PROMPTS, SMOKE_PROMPTS)
    workload["max_new_tokens"] = min(workload["max_new_tokens"], SMOKE_NEW_TOKENS)
    workload["min_new_tokens"] = min(workload["min_new_tokens"], workload["max_new_tokens"])
    workload.update(repeats=1, processes=1, memory=False)
    audit["seeds"] = min(audit["seeds"], SMOKE_SEEDS)
    for one in values["evals"]:
        one["limit"] = min(one["limit"] or SMOKE_ITEMS, SMOKE_ITEMS)
        one["max_new_tokens"] = min(one["max_new_tokens"], SMOKE_NEW_TOKENS)
        one["probe"] = 0.0
    values["smoke"] = True
    return Experiment.model_validate(values)
