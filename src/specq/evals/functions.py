"""A metric of one's own: a Python function in a file, written as "file.py:function"."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.core.errors import ConfigError, nearest
from specq.evals.items import Item
from specq.evals.metric import Metric, Score, failed
from specq.evals.options import Options

_SHOWN = 200


class Function(Options):
    """Options of a metric function: `binary` says that it gives 0 or 1; by default its annotation "-> bool" does."""

    binary: bool | None = None


def is_function(name: str) -> bool:
    """Whether a metric's name is that of a function in a file."""
    return ".py:" in name or name.endswith(".py")


def load(name: str, options: Function, folder: Path) -> Metric:
    """The metric of "file.py:function", the file looked for from `folder`. The file is run; it is the user's own.

    The function is called with the answer (a text) and the item (its JSON object, a copy) and gives a bool, or a
    number that is higher where the answer is better. What it raises fails the item, with what it said.

    Raises:
        ConfigError: no such file or function, one that does not take two arguments, or a file that raises.
    """
    file, _, wanted = name.rpartition(".py:")
    path = folder / f"{file}.py" if file else folder / name
    if not file or not wanted.isidentifier():
        raise ConfigError(f'metric "{name}": allowed is FILE.py:FUNCTION')
    if not path.is_file():
        raise ConfigError(f'metric "{name}": no such file as {path}; allowed is FILE.py:FUNCTION')
    function = _function(name, path, wanted)
    binary = _says_bool(function) if options.binary is None else options.binary
    return Metric(
        name=name,
        output="text",
        binary=binary,
        misfit=lambda item: None,
        judge=lambda item, answer: _judge(function, item, answer, binary=binary),
        options={"binary": binary},
        sha256=hashes.of_file(path),
    )


def _function(name: str, path: Path, wanted: str) -> Callable[[str, dict[str, Any]], Any]:
    spec = importlib.util.spec_from_file_location(f"specq_metric_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ConfigError(f'metric "{name}": {path} raises {said(error)}') from error
    found = getattr(module, wanted, None)
    if not callable(found):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value) and not key.startswith("_")]
        allowed = f"it has {', '.join(known)}" if known else "it has no functions"
        raise ConfigError(f'metric "{name}": no function {wanted} in {path}{nearest(wanted, known) or ";"} {allowed}')
    try:
        inspect.signature(found).bind("", {})
    except TypeError as error:
        raise ConfigError(f'metric "{name}": {wanted} must take (output, item): {error}') from error
    return found


def _judge(function: Callable[[str, dict[str, Any]], Any], item: Item, answer: str, *, binary: bool) -> Score:
    try:
        value = function(answer, copy.deepcopy(item.given))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - counted and shown with the item, which fails
        return failed(said(error))
    if not isinstance(value, bool | int | float) or not math.isfinite(value):
        return failed(f"returned {repr(value)[:_SHOWN]}, allowed is a bool or a finite number")
    if binary and value not in (0, 1):
        return failed(f"returned {value}, allowed is 0 or 1 for a binary metric")
    return Score(value=float(value))


def said(error: BaseException) -> str:
    """What an error of the user's code says, in one line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}"[:_SHOWN] if words else type(error).__name__


def _says_bool(function: Any) -> bool:
    return getattr(function, "__annotations__", {}).get("return") in (bool, "bool")
