"""A load run's folder: run.json first, then rows as they come, done.json last; one writer at a time.

A point that was interrupted is measured anew from its beginning, for a steady state cannot be continued: what it had
asked until then stays on record under its attempt and counts nowhere, so that nothing is lost and nothing doubled.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from specq.core import jsonl
from specq.core.clock import utc_stamp
from specq.core.errors import RunFolderError, SpecqError
from specq.engines.served.request import Streamed
from specq.load import rows
from specq.load.rows import Row
from specq.run.folder import DONE, OUTPUTS, RECORDS, RUN, read_info

NAME = "load"
"""What stands in run.json as the experiment, and is the name of the folder that all load runs share."""


class Folder:
    """The writing side of a run; a context manager that holds the folder's lock."""

    def __init__(self, path: Path, info: dict[str, Any]) -> None:
        """Lock the folder and open its files.

        Raises:
            RunFolderError: another process writes it, or it cannot be written.
        """
        self.path, self.info = path, info
        self._lock = _locked(path)
        try:
            self._records = jsonl.Appender(path / RECORDS)
            self._outputs = jsonl.Appender(path / OUTPUTS)
        except BaseException:
            os.close(self._lock)
            raise
        self.cut_bytes = self._records.cut_bytes + self._outputs.cut_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # Where a write has failed, so does the end of it; the first error is the one to tell.
            with suppress(SpecqError) if error is not None else nullcontext():
                self._outputs.close()
                self._records.close()
        finally:
            os.close(self._lock)

    def append(self, row: Row) -> None:
        """Write a row. Raises DiskFull or RunFailed when it cannot be written whole."""
        self._records.append(rows.to_json(row))

    def output(self, streamed: Streamed) -> None:
        """Write what a request was answered; before the row that commits it."""
        ids = None if streamed.token_ids is None else list(streamed.token_ids)
        said = {"text": streamed.text, "reasoning": streamed.reasoning, "calls": streamed.calls}
        self._outputs.append({"id": streamed.id, **said, "token_ids": ids})

    def done(self) -> None:
        """Say that every point is measured."""
        jsonl.write_whole(self.path / DONE, {"ended": utc_stamp()})


def create(out: Path, info: dict[str, Any]) -> Folder:
    """Make out/load/<utc>-<id> with its run.json, locked.

    Raises:
        RunFolderError: it cannot be made. DiskFull: run.json does not fit.
    """
    path = out / NAME / f"{utc_stamp()}-{secrets.token_hex(3)}"
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise RunFolderError(f"cannot make the folder {path} ({error.strerror}); give another: --out DIR") from error
    jsonl.write_whole(path / RUN, info)
    return Folder(path, info)


def info_of(path: Path) -> dict[str, Any]:
    """The run.json of a load run.

    Raises:
        RunFolderError: it is none.
    """
    info = read_info(path)
    if info.get("experiment") != NAME or not isinstance(info.get("asked"), dict):
        raise RunFolderError(f"{path}: no load run, so it cannot be resumed as one; to see all runs type: specq ls")
    return info


def _locked(path: Path) -> int:
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise RunFolderError(f"{path} is being written by another specq process; wait until it has ended") from error
    return fd
