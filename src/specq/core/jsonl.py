"""Append-only JSON lines. A crash can tear the last line only; readers cut it and say so."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from specq.core.errors import DiskFull, RunFailed, RunFolderError, SpecqError

READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


def disk_error(error: OSError, path: Path) -> SpecqError:
    """What a write that failed means for the user, in one line.

    DiskFull for a full disk, a quota or a limit on the size of files; RunFolderError for a place
    that cannot be written at all; else RunFailed.
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"no space left on the disk of {path}; free some space")
    if error.errno == errno.EFBIG:
        return DiskFull(f"{path} has reached the largest file size allowed here; raise the limit: ulimit -f unlimited")
    if error.errno in READ_ONLY:
        return RunFolderError(f"cannot write {path} ({error.strerror}); make its folder writable, or copy it elsewhere")
    return RunFailed(f"cannot write {path}: {error.strerror}")


def damaged(path: Path, number: int, what: str) -> RunFolderError:
    """The error for line `number` of a file."""
    return RunFolderError(
        f"{path}:{number}: {what}; put the line back as specq wrote it, or take the line out and lose what it says"
    )


class Appender:
    """Appends JSON objects to a file, one a line, flushed to the operating system at once.

    A torn last line that an earlier writer left is cut before the first append; `cut_bytes`
    tells how long it was (0 when the file was whole).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.cut_bytes = cut_torn_line(path)
            self._file = path.open("ab")
        except OSError as error:
            raise disk_error(error, path) from error

    def append(self, value: dict[str, Any]) -> None:
        """Write one object and flush it.

        Raises:
            DiskFull, RunFailed: the line could not be written whole; a part of it may stand
                in the file as a torn last line.
        """
        try:
            self._file.write(_line(value))
            self._file.flush()
        except OSError as error:
            raise disk_error(error, self.path) from error

    def close(self) -> None:
        """Flush and close; safe to call twice."""
        if not self._file.closed:
            try:
                self._file.close()
            except OSError as error:
                raise disk_error(error, self.path) from error


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


def read(path: Path) -> tuple[list[tuple[int, dict[str, Any]]], int]:
    """Return all whole lines of a file with their numbers from 1, and the bytes of a torn last line (0: none).

    Raises:
        RunFolderError: the file cannot be read, or a line before the last is not a JSON object;
            the message names its number.
    """
    lines, torn = scan(path)
    return list(lines), torn


def scan(path: Path) -> tuple[Iterator[tuple[int, dict[str, Any]]], int]:
    """As `read`, one line at a time, so that a reader need not hold the objects of a whole file.

    Raises:
        RunFolderError: the file cannot be read; as `read` for a line, once its turn comes.
    """
    if not path.exists():
        return iter(()), 0
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read ({error.strerror}); make it a readable file") from error
    torn = len(data) - (data.rfind(b"\n") + 1)
    return _objects(path, data[: len(data) - torn]), torn


def _objects(path: Path, data: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    # One decoder for all lines: json.loads makes a new one for each call that names parse_constant.
    decoder = json.JSONDecoder(parse_constant=_refuse)
    for number, line in enumerate(io.BytesIO(data), start=1):
        if not line.strip():
            continue
        try:
            text = line.removesuffix(b"\n")
            value = decoder.decode(text.decode(json.detect_encoding(text), "surrogatepass"))
        except (ValueError, RecursionError) as error:
            raise damaged(path, number, f"not a JSON line ({error})") from error
        if not isinstance(value, dict):
            raise damaged(path, number, f"expected a JSON object, found {type(value).__name__}")
        yield number, value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def write_whole(path: Path, value: Any) -> None:
    """Write one JSON document so that it is there whole or not at all (temporary name, then rename)."""
    write_text_whole(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_lines_whole(path: Path, values: Iterable[dict[str, Any]]) -> None:
    """Put a file of JSON lines in the place of another (temporary name, then rename)."""
    write_text_whole(path, b"".join(map(_line, values)).decode())


def write_text_whole(path: Path, text: str) -> None:
    """Write a text file so that it is there whole or not at all (temporary name, then rename).

    A symbolic link stays one: the file that it leads to is written.

    Raises:
        DiskFull, RunFolderError, RunFailed: as `disk_error` tells; RunFolderError too where a device, a pipe, a socket
            or a folder stands there, or in the place of the temporary name.
    """
    part = path
    try:
        # A rename puts a file in the place of whatever stands there, be it a device of the machine.
        _check_file(path, path.stat)
        target = path.resolve() if path.is_symlink() else path
        part = target.with_name(target.name + ".part")
        _check_file(part, part.lstat)
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except OSError as error:
        # Where nothing can be written, nothing can be removed either; the first error is the one to tell.
        if part != path:
            with contextlib.suppress(OSError):
                part.unlink()
        raise disk_error(error, path) from error


def _check_file(path: Path, status: Callable[[], os.stat_result]) -> None:
    """Refuse what stands at a path and is no regular file; nothing need stand there."""
    try:
        mode = status().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "folder", stat.S_IFLNK: "symbolic link", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
        kind = kinds.get(stat.S_IFMT(mode), "device")
        raise RunFolderError(f"{path} is a {kind} and no file; nothing was written: name another file")


def remove(path: Path) -> None:
    """Take a file away, if it is there. Raises as `write_text_whole`."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise disk_error(error, path) from error


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode() + b"\n"
