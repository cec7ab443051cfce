"""Append-only JSON lines. A crash can tear the last line only; readers cut it and say so."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specq.core.errors import DiskFull, RunFailed


def _disk(error: OSError, path: Path) -> RunFailed:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"no space left on the disk of {path}; free some space")
    return RunFailed(f"cannot write {path}: {error.strerror}")


class Appender:
    """Appends JSON objects to a file, one a line, flushed to the operating system at once.

    A torn last line that an earlier writer left is cut before the first append; `cut_bytes`
    tells how long it was (0 when the file was whole).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut_bytes = cut_torn_line(path)
        try:
            self._file = path.open("ab")
        except OSError as error:
            raise _disk(error, path) from error

    def append(self, value: dict[str, Any]) -> None:
        """Write one object and flush it.

        Raises:
            DiskFull, RunFailed: the line could not be written whole; a part of it may stand
                in the file as a torn last line.
        """
        line = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise _disk(error, self.path) from error

    def close(self) -> None:
        """Flush and close; safe to call twice."""
        if not self._file.closed:
            try:
                self._file.close()
            except OSError as error:
                raise _disk(error, self.path) from error


def cut_torn_line(path: Path) -> int:
    """Cut what follows the last newline of a file and return how many bytes that was."""
    if not path.exists():
        return 0
    data = path.read_bytes()
    torn = len(data) - (data.rfind(b"\n") + 1)
    if torn:
        with path.open("r+b") as file:
            file.truncate(len(data) - torn)
    return torn


def read(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return all whole lines of a file, and the bytes of a torn last line (0 when there is none).

    Raises:
        RunFailed: a line before the last is not a JSON object; the message names its number.
    """
    if not path.exists():
        return [], 0
    data = path.read_bytes()
    torn = len(data) - (data.rfind(b"\n") + 1)
    return list(_objects(path, data[: len(data) - torn])), torn


def _objects(path: Path, data: bytes) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise RunFailed(f"{path}:{number}: not a JSON line ({error})") from error
        if not isinstance(value, dict):
            raise RunFailed(f"{path}:{number}: expected a JSON object, found {type(value).__name__}")
        yield value


def write_whole(path: Path, value: Any) -> None:
    """Write one JSON document so that it is there whole or not at all (temporary name, then rename)."""
    write_text_whole(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text_whole(path: Path, text: str) -> None:
    """Write a text file so that it is there whole or not at all (temporary name, then rename)."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise _disk(error, path) from error
