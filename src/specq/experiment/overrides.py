"""`--set a.b.c=value`: any key of an experiment, from the command line."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Sequence
from typing import Any

from specq.core.errors import ConfigError, nearest

Path = tuple[str, ...]
# Text that opens like this was meant as TOML; taking it as a bare word would hide a missing bracket or quote.
_OPENS_TOML = ("[", "{", '"', "'")


def apply(values: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], tuple[Path, ...]]:
    """The values with the overrides in place, the last one winning, and the paths that were set.

    Raises:
        ConfigError: an override is not `key=value`, its value is broken TOML, it reaches into
            something that is no table, or it changes a lever that does not exist.
    """
    result = copy.deepcopy(values)
    pairs = [_parse(override) for override in overrides]
    paths = tuple(path for path, _ in pairs)
    for path, value in pairs:
        _check_lever(values.get("levers"), path, paths)
        table = result
        for depth, part in enumerate(path[:-1], start=1):
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise ConfigError(f"--set {'.'.join(path)}: {'.'.join(path[:depth])} is no table; set it whole")
        table[path[-1]] = value
    return result, paths


def _parse(override: str) -> tuple[Path, Any]:
    key, equals, text = override.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise ConfigError(f"--set {override}: allowed is key=value, for example --set workload.max_new_tokens=32")
    return path, _value(override, text.strip())


def _value(override: str, text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except RecursionError as error:
        raise ConfigError(f"--set {override[:40]}...: nested too deeply; allowed are lists of plain values") from error
    except tomllib.TOMLDecodeError as error:
        if text.startswith(_OPENS_TOML):
            raise ConfigError(f"--set {override}: the value is not TOML ({error})") from error
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
