"""What a run rests on that has changed since: its experiment's file, its prompts, its models, the software.

Only what is here can be compared. A file that is not found under the current folder, or a model that lies elsewhere,
says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.core.errors import ConfigError, ModelError
from specq.experiment import config
from specq.experiment.schema import HASH_LEAVES_OUT
from specq.models import cache, refs
from specq.models.facts import hash_of_weights
from specq.run.folder import differences
from specq.run.provenance import hide_home, package_versions, show_home, tidy

Info = Mapping[str, Any]


def reasons(info: Info) -> tuple[str, ...]:
    """A few words for each change, from a run.json; empty where nothing is known to have changed.

    Settings come first (model, engine, levers, cache, price and all others of the experiment's file), then the prompts,
    the weights, and the packages that can change a number.
    """
    return (*_settings(info), *_prompts(info), *_weights(info), *_packages(info))


def weights(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """By name, a model's folder and the hash of its weights, for run.json; a name of no model here is left out.

    A GGUF file is hashed as it lies, for a server reads it so.
    """
    found = dict[str, dict[str, str]]()
    for name in dict.fromkeys(names):
        file = Path(name).expanduser()
        try:
            if file.suffix == ".gguf" and file.is_file():
                found[file.name] = {"file": tidy(file), "weights_sha256": cache.file_sha256(file)}
                continue
            folder = refs.resolve(name).folder
            found[name] = {"folder": tidy(folder), "weights_sha256": hash_of_weights(folder)}
        except (ModelError, OSError):
            continue
    return found


def _settings(info: Info) -> Iterator[str]:
    origin = info.get("origin")
    if not isinstance(origin, dict):
        return
    file = Path(str(show_home(origin["file"])))
    if not file.is_file():
        return
    try:
        now = config.load(file, tuple(show_home(origin["set"])), smoke=bool(origin["smoke"]))
    except ConfigError as error:
        yield f"{origin['file']} is not the experiment that it was: {error}"
        return
    values = {key: value for key, value in hide_home(now.resolved()).items() if key not in HASH_LEAVES_OUT}
    then = {key: value for key, value in info["config"].items() if key not in HASH_LEAVES_OUT}
    if found := differences(then, values):
        yield f"{origin['file']}: {'; '.join(found)}"


def _prompts(info: Info) -> Iterator[str]:
    data = info.get("data") or {}
    if not isinstance(data.get("prompts"), str):
        return
    path = Path(str(show_home(data["prompts"])))
    if path.is_file() and hashes.of_file(path) != data.get("sha256"):
        yield f"the prompts in {data['prompts']}"


def _weights(info: Info) -> Iterator[str]:
    for name, model in (info.get("models") or {}).items():
        if not isinstance(model, dict):
            continue
        of_file = isinstance(model.get("file"), str)
        place = model.get("file" if of_file else "folder")
        if not isinstance(place, str):
            continue
        path = Path(str(show_home(place)))
        if not (path if of_file else path / "config.json").is_file():
            continue
        try:
            now = cache.file_sha256(path) if of_file else hash_of_weights(path)
        except ModelError as error:
            yield f"the weights of {name}: {error}"
            continue
        if now != model.get("weights_sha256"):
            yield f"the weights of {name}"


def _packages(info: Info) -> Iterator[str]:
    provenance = info.get("provenance") or {}
    then, now = provenance.get("packages") or {}, _installed()
    changed = [f"{name} {then[name]} -> {now.get(name)}" for name in then if then[name] != now.get(name)]
    if changed:
        yield ", ".join(changed)


@lru_cache(maxsize=1)
def _installed() -> Mapping[str, str | None]:
    """Read once for a whole list of runs."""
    return package_versions()
