"""From the lines of records.jsonl and outputs.jsonl to objects; a damaged line is refused as file:line."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from specq.core import jsonl, typed
from specq.core.errors import RunFolderError
from specq.core.records import KINDS, Generated, Output, Record, StepRow

T = TypeVar("T")


def from_json(value: Mapping[str, Any]) -> Record:
    """The record of a JSON object.

    Raises:
        RunFolderError: the kind is unknown, a field is missing or unknown (another specq wrote it),
            or a value is not of its field's type.
    """
    cls = KINDS.get(str(value.get("kind")))
    if cls is None:
        raise RunFolderError(
            f"unknown record kind {value.get('kind')!r}: edited, or written by another version of specq"
        )
    return _made(cls, {name: item for name, item in value.items() if name != "kind"})


def read(path: Path) -> tuple[list[tuple[int, Record]], int]:
    """The records of a records.jsonl with their line numbers, and the bytes of a torn last line.

    Raises:
        RunFolderError: a line before the last is damaged; the message names it as file:line.
    """
    return _read(path, from_json)


def read_outputs(path: Path) -> tuple[list[tuple[int, Output]], int]:
    """The lines of an outputs.jsonl with their numbers, and the bytes of a torn last line.

    Raises:
        RunFolderError: as `read`.
    """
    return _read(path, lambda line: _made(Output, line))


def _read(path: Path, make: Callable[[dict[str, Any]], T]) -> tuple[list[tuple[int, T]], int]:
    lines, torn = jsonl.scan(path)
    with _without_collector():
        return [(number, _at(path, number, make, line)) for number, line in lines], torn


@contextmanager
def _without_collector() -> Iterator[None]:
    """No search for cycles meanwhile: records have none, and each search would go through all that was read so far."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _at(path: Path, number: int, make: Callable[[dict[str, Any]], T], line: dict[str, Any]) -> T:
    try:
        return make(line)
    except RunFolderError as error:
        raise jsonl.damaged(path, number, str(error)) from error


def _made(cls: type[T], line: Mapping[str, Any]) -> T:
    name = cls.__name__
    checks = typed.checks_of(cls)
    if extra := [key for key in line if key not in checks]:
        raise RunFolderError(f"{name} has unknown fields {sorted(extra)}: another version of specq wrote this run")
    # A run has a million steps: they become rows at once, and not tuples first.
    stepped = "steps" if cls is Generated else None
    given = {
        key: item if type(item) is not list else _rows(item) if key == stepped else typed.tuples(item)
        for key, item in line.items()
    }
    for key, item in given.items():
        if not checks[key](item):
            allowed = typed.in_words(typed.fields_of(cls)[key])
            raise RunFolderError(f"{name}.{key} is {_short(line[key])}, allowed is {allowed}")
    try:
        return cls(**given)
    except TypeError as error:
        raise RunFolderError(f"{name} is incomplete: {error}") from error


def _rows(steps: list[Any]) -> Any:
    """The steps of a generation; what is none is left to the check."""
    try:
        return tuple(map(StepRow._make, steps))
    except TypeError:
        return typed.tuples(steps)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
