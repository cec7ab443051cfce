"""`--set a.b.c=value`: any key of an experiment, from the command line."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Sequence
from typing import Any

from specq.core.errors import ConfigError, nearest

Path = tuple[str, ...]
# Keys of an experiment that hold lists, each with a value to show.
LISTS: dict[Path, str] = {
    ("evals",): '[{name="mine", items="my-items.jsonl", metric="contains"}]',
    ("arms", "run"): '["each"]',
    ("workload", "stop"): '["END"]',
    ("engine", "args"): '["--enforce-eager"]',
}
_LONGEST = 40
# Text that opens like this was meant as TOML; taking it as a bare word would hide a missing bracket or quote.
_OPENS_TOML = ("[", "{", '"', "'")


def apply(values: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], tuple[Path, ...]]:
    """The values with the overrides in place, the last one winning, and the paths that were set.

    In a path a number from 0 on is a place in a list: `evals.0.limit` is the first eval's.

    Raises:
        ConfigError: an override is not `key=value`, its value is broken TOML, it reaches into
            something that is no table or to no place of a list, or it changes a lever that does not exist.
    """
    result = copy.deepcopy(values)
    pairs = [_parse(override) for override in overrides]
    paths = tuple(path for path, _ in pairs)
    for path, value in pairs:
        _check_lever(values.get("levers"), path, paths)
        _put(result, path, value)
    return result, paths


def _put(values: dict[str, Any], path: Path, value: Any) -> None:
    within: Any = values
    for depth in range(len(path)):
        key = _key(within, path, depth)
        if depth == len(path) - 1:
            within[key] = value
        elif isinstance(within, list):
            within = within[key]
        else:
            within = within.setdefault(key, {})


def _key(within: Any, path: Path, depth: int) -> Any:
    """What a part of a path names in what the parts before it lead to: a place of a list, or a key of a table."""
    asked, part, before = f"--set {'.'.join(path)}", path[depth], ".".join(path[:depth])
    if isinstance(within, list):
        if part in [str(n) for n in range(len(within))]:
            return int(part)
        names = [one.get("name") if isinstance(one, dict) else one for one in within]
        places = ", ".join(f"{before}.{n} ({json.dumps(name, default=str)[:_LONGEST]})" for n, name in enumerate(names))
        raise ConfigError(
            f"{asked}: {before} is a list, allowed is {places or 'no place, for it is empty'}; or set it whole: "
            f"{typed(path[:depth])}"
        )
    if not isinstance(within, dict):
        raise ConfigError(f"{asked}: {before} is no table; set it whole")
    if part not in within and path != (here := path[: depth + 1]) and here in LISTS:
        raise ConfigError(f"{asked}: the experiment has no {'.'.join(here)}; set it whole: {typed(here)}")
    return part


def typed(path: Path) -> str:
    """What to type to set a list whole, as a shell takes it."""
    return f"--set '{'.'.join(path)}={like(path)}'"


def like(path: Path) -> str:
    """An example of a list's value, as TOML."""
    return LISTS.get(path, '["a", "b"]')


def _parse(override: str) -> tuple[Path, Any]:
    key, equals, text = override.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise ConfigError(f"--set {override}: allowed is key=value, for example --set workload.max_new_tokens=32")
    return path, _value(override, path, text.strip())


def _value(override: str, path: Path, text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except RecursionError as error:
        raise ConfigError(f"--set {override[:40]}...: nested too deeply; allowed are lists of plain values") from error
    except tomllib.TOMLDecodeError as error:
        if text.startswith(_OPENS_TOML):
            # A shell takes quotes away that stand in no others.
            how = f"; type it in quotes: {typed(path)}" if path in LISTS else ""
            raise ConfigError(f"--set {override}: the value is not TOML ({error}){how}") from error
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _check_lever(levers: Any, path: Path, paths: Sequence[Path]) -> None:
    if path[0] != "levers" or len(path) < 3 or not isinstance(levers, dict) or path[1] in levers:
        return
    if ("levers", path[1]) in paths or ("levers", path[1], "method") in paths:
        return
    raise ConfigError(
        f'--set {".".join(path)}: no lever is called "{path[1]}"{nearest(path[1], levers) or ";"} '
        f"allowed: {', '.join(levers) or 'none'}; a new lever needs its kind and method set too"
    )
