"""A run's folder: one writer, append-only records, files that are there whole or not at all.

results/<experiment>/<utc>-<id>/ holds run.json (what was asked and where it ran; written first),
records.jsonl (one line an event), outputs.jsonl (token ids and text; a line counts only when its
record stands too) and done.json (written last).
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from specq.core import jsonl
from specq.core.clock import utc_stamp
from specq.core.errors import RunFailed, RunFolderError, SpecqError
from specq.core.nouns import counted
from specq.core.records import Generated, Note, Output, Record, to_json
from specq.run import folder
from specq.run.folder import DONE, OUTPUTS, RECORDS, RUN, Contents
from specq.run.mend import mended


def how_to_go_on(run_dir: Path) -> str:
    """What to type when a run was stopped."""
    return f"what was recorded is kept; to go on type: specq run --resume {run_dir}"


def remove(run_dir: Path) -> None:
    """Take away a run that never began, and the experiment's folder where nothing else is in it."""
    shutil.rmtree(run_dir, ignore_errors=True)
    with suppress(OSError):
        run_dir.parent.rmdir()


def is_done(run_dir: Path) -> bool:
    """Whether the run was finished."""
    return (run_dir / DONE).is_file()


def is_busy(run_dir: Path) -> bool:
    """Whether a process holds the run's lock now."""
    try:
        os.close(_lock(run_dir))
    except RunFolderError:
        return True
    return False


def _lock(run_dir: Path) -> int:
    """Lock the folder itself, so that no lock file is left behind, and return the descriptor."""
    try:
        fd = os.open(run_dir, os.O_RDONLY)
    except OSError as error:
        raise RunFolderError(
            f"{run_dir} cannot be opened ({error.strerror}); to see all runs type: specq ls"
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise RunFolderError(
            f"{run_dir} is being written by another specq process; wait until it has ended, then type the same again"
        ) from error
    return fd


class Store:
    """The writing side of one run; a context manager that holds the folder's lock.

    The lock belongs to the open file `lock_fd`: a child process that inherits the descriptor
    holds it too, so a worker that outlives its parent still keeps a second writer out.
    """

    def __init__(self, run_dir: Path, info: dict[str, Any], *, lock_fd: int) -> None:
        self.run_dir = run_dir
        self.info = info
        self.lock_fd = lock_fd
        self._records: jsonl.Appender | None = None
        self._outputs: jsonl.Appender | None = None

    @classmethod
    def create(cls, out: Path, info: dict[str, Any], beside: Mapping[str, Any] | None = None) -> Store:
        """Make out/<info["experiment"]>/<utc>-<id> with its run.json and lock it.

        `beside` are JSON files by name that lie there as well. They are written first, so that no run lacks them.

        Raises:
            RunFolderError: the folder cannot be made.
            DiskFull: one of these files does not fit; nothing is left behind.
        """
        run_dir = out / str(info["experiment"]) / f"{utc_stamp()}-{secrets.token_hex(3)}"
        try:
            run_dir.mkdir(parents=True)
        except OSError as error:
            raise RunFolderError(
                f"cannot make the folder {run_dir} ({error.strerror}); give a folder that can be written: --out DIR"
            ) from error
        lock_fd = _lock(run_dir)
        try:
            for name, value in (*(beside or {}).items(), (RUN, info)):
                jsonl.write_whole(run_dir / name, value)
            return cls(run_dir, info, lock_fd=lock_fd)
        except (RunFailed, RunFolderError) as error:
            os.close(lock_fd)
            remove(run_dir)
            raise type(error)(f"{error}; no run was begun: then type the same again") from error
        except BaseException:
            os.close(lock_fd)
            remove(run_dir)
            raise

    @classmethod
    def open_for_resume(cls, run_dir: Path) -> Store:
        """Lock a run; nothing is changed before `mend`.

        Raises:
            RunFolderError: not a run, or busy.
        """
        info = folder.read_info(run_dir)
        folder.check_shape(run_dir, info)
        return cls(run_dir, info, lock_fd=_lock(run_dir))

    def mend(self) -> None:
        """Make the run one that can go on: not done, and without what `mended` leaves out; says aloud what went."""
        records, outputs, notes = mended(self.contents())
        with self.resumable():
            jsonl.remove(self.run_dir / DONE)
            if notes:
                lines = [to_json(record) for record in (*records, *notes)]
                jsonl.write_lines_whole(self.run_dir / RECORDS, lines)
                jsonl.write_lines_whole(self.run_dir / OUTPUTS, map(asdict, outputs))
        self._open()

    @classmethod
    def attach(cls, run_dir: Path, lock_fd: int | None = None) -> Store:
        """Open a run for a worker: with the lock its parent passed on, else with its own."""
        return cls(run_dir, folder.read_info(run_dir), lock_fd=_lock(run_dir) if lock_fd is None else lock_fd)

    def contents(self) -> Contents:
        """What is recorded so far; a torn last line is left out.

        Raises:
            RunFolderError: a line before the last is damaged.
        """
        return folder.read(self.run_dir)

    def append(self, record: Record) -> None:
        """Write one record. Raises DiskFull or RunFailed when it cannot be written whole."""
        with self.resumable():
            self._open().append(to_json(record))

    def commit(self, record: Generated, ids: Sequence[int], text: str) -> None:
        """Write an output, then the record that makes it count."""
        output = Output(
            arm=record.arm,
            prompt=record.prompt,
            repeat=record.repeat,
            process=record.process,
            ids=tuple(ids),
            text=text,
        )
        with self.resumable():
            self._open()
            assert self._outputs is not None
            self._outputs.append(asdict(output))
        self.append(record)

    def pause(self) -> None:
        """Close the files and keep the lock, so that a worker can append."""
        with self.resumable():
            for appender in (self._outputs, self._records):
                if appender is not None:
                    appender.close()
        self._outputs = self._records = None

    @contextmanager
    def resumable(self) -> Iterator[None]:
        """A file that cannot be written stops the run but loses nothing of it: the error says how to go on."""
        try:
            yield
        except (RunFailed, RunFolderError) as error:
            raise type(error)(f"{error}; {self.how_to_go_on}") from error

    @property
    def how_to_go_on(self) -> str:
        """What to type when the run was stopped."""
        return how_to_go_on(self.run_dir)

    def finish(self) -> None:
        """Write done.json: from here on the run is complete."""
        self.pause()
        counts = {name: len(jsonl.read(self.run_dir / name)[0]) for name in (RECORDS, OUTPUTS)}
        with self.resumable():
            jsonl.write_whole(self.run_dir / DONE, {"finished": utc_stamp(), "lines": counts})

    def close(self) -> None:
        """Close the files and let go of the lock; safe to call twice."""
        try:
            self.pause()
        finally:
            if self.lock_fd >= 0:
                os.close(self.lock_fd)
                self.lock_fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except SpecqError:
            # The first error says more than the flush that fails after it.
            if error is None:
                raise

    def _open(self) -> jsonl.Appender:
        if self._records is None:
            self._outputs = jsonl.Appender(self.run_dir / OUTPUTS)
            self._records = jsonl.Appender(self.run_dir / RECORDS)
            for appender in (self._outputs, self._records):
                if appender.cut_bytes:
                    text = f"cut {counted(appender.cut_bytes, 'byte')} of a torn last line from {appender.path.name}"
                    self._note(self._records, text)
        return self._records

    def _note(self, appender: jsonl.Appender, text: str) -> None:
        appender.append(to_json(Note(process=0, text=text)))
