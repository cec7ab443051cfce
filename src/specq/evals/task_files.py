"""Where lm-eval's tasks stand: a name or a path becomes one YAML file, before anything heavy is imported."""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError, Unsupported
from specq.evals.judge import said

_KEY = re.compile(r"""^["']?(class|group|task)["']?[ \t]*:[ \t]*["']?([^\s"'#\[]+)""", re.MULTILINE)
_NAMED = 5


def find(name: str, folder: Path = Path()) -> Path:
    """The YAML file of a task: the path that is given (looked for from `folder`), or the file of that name in lm-eval.

    Raises:
        ConfigError: no such file or task.
    """
    if name.endswith((".yaml", ".yml")):
        path = folder / Path(name).expanduser()
        if not path.is_file():
            raise ConfigError(f'task "{name}": no such file as {path}; allowed is a YAML file or the name of a task')
        return path
    known = listed()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        meant = f", did you mean {', '.join(near)}?" if near else ";"
        raise ConfigError(
            f'no task "{name}"{meant} allowed is the name of one of lm-eval\'s tasks (a tag is the name of many), or a '
            "YAML file: FILE.yaml"
        )
    return known[name]


def read(path: Path, *, run_code: bool = False) -> dict[str, Any]:
    """A task's YAML with what it includes. With `run_code` its `!function` tags are the functions of its Python files.

    Raises:
        ConfigError: no YAML, no mapping, an include that is missing, or code that raises.
    """
    from lm_eval.tasks._yaml_loader import load_yaml

    try:
        return load_yaml(path, resolve_func=run_code)
    except (Exception, SystemExit) as error:  # a user's file may hold anything, and its code may raise anything
        raise ConfigError(f"{path}: cannot be read as a task ({said(error)}); mend its YAML or its code") from error


def need_one_task(name: str, given: Mapping[str, Any]) -> None:
    """Do nothing where a YAML file describes one task.

    Raises:
        ConfigError: a group, whose members are named, or no task.
        Unsupported: a task that is a Python class.
    """
    if "class" in given:
        raise Unsupported(f'task "{name}" is a Python class: allowed are tasks that their YAML describes')
    if "group" in given or isinstance(given.get("task"), list):
        members = [_member(one) for one in given.get("task") or []]
        more = f" and {len(members) - _NAMED} more" if len(members) > _NAMED else ""
        raise ConfigError(
            f'task "{name}" is a group of {len(members)}: {", ".join(members[:_NAMED])}{more}; name one task, for an '
            "eval has one metric and one floor"
        )
    if not isinstance(given.get("task"), str):
        raise ConfigError(f'task "{name}": no key task in the YAML; write task: NAME')


def _member(one: Any) -> str:
    return str(one.get("task") or one.get("group")) if isinstance(one, dict) else str(one)


@cache
def listed() -> dict[str, Path]:
    """The files of all tasks and groups of the installed lm-eval, by name.

    lm-eval's own index parses every file, which takes many times as long as finding their names.
    """
    spec = importlib.util.find_spec("lm_eval")
    assert spec is not None
    found: dict[str, Path] = {}
    root = Path((spec.submodule_search_locations or [""])[0]) / "tasks"
    for path in sorted(root.glob("**/*.yaml"), key=Path.as_posix):
        keys = {match[1]: match[2] for match in _KEY.finditer(path.read_text(encoding="utf-8", errors="replace"))}
        if name := keys.get("task") if "class" in keys else keys.get("group", keys.get("task")):
            found.setdefault(name, path)
    return found
