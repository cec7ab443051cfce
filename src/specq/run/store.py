"""A run's folder: one writer, append-only records, files that are there whole or not at all.

results/<experiment>/<utc>-<id>/ holds run.json (what was asked and where it ran; written first),
records.jsonl (one line an event), outputs.jsonl (token ids and text; a line counts only when its
record stands too) and done.json (written last).
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from specq.core import jsonl
from specq.core.clock import utc_stamp
from specq.core.errors import DiskFull, RunFolderError, SpecqError
from specq.core.records import Generated, Note, Record, from_json, to_json

RUN, RECORDS, OUTPUTS, DONE = "run.json", "records.jsonl", "outputs.jsonl", "done.json"
Key = tuple[int, str, str, int]


def read_info(run_dir: Path) -> dict[str, Any]:
    """The content of run.json.

    Raises:
        RunFolderError: there is no such folder, or it is not a run.
    """
    path = run_dir / RUN
    if not path.is_file():
        what = "has no run.json, so it is not a run" if run_dir.is_dir() else "is no such folder"
        raise RunFolderError(f"{run_dir} {what}; to see the runs that are there type: specq ls")
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read ({error.strerror}); to see all runs type: specq ls") from error
    except ValueError as error:
        raise RunFolderError(f"{path} is not JSON ({error}); start again with: specq run FILE") from error
    if not isinstance(info, dict):
        raise RunFolderError(f"{path} holds no JSON object; start again with: specq run FILE")
    return info


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
    fd = os.open(run_dir, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise RunFolderError(
            f"{run_dir} is being written by another specq process; wait until it has ended, "
            f"then type: specq run --resume {run_dir}"
        ) from error
    return fd


class Store:
    """The writing side of one run; a context manager that holds the folder's lock.

    The lock belongs to the open file `lock_fd`: a child process that inherits the descriptor
    holds it too, so a worker that outlives its parent still keeps a second writer out.
    """

    def __init__(self, run_dir: Path, *, lock_fd: int) -> None:
        self.run_dir = run_dir
        self.info = read_info(run_dir)
        self.lock_fd = lock_fd
        self._records: jsonl.Appender | None = None
        self._outputs: jsonl.Appender | None = None

    @classmethod
    def create(cls, out: Path, info: dict[str, Any]) -> Store:
        """Make out/<info["experiment"]>/<utc>-<id> with its run.json and lock it.

        Raises:
            RunFolderError: the folder cannot be made.
            DiskFull: run.json does not fit; nothing is left behind.
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
            jsonl.write_whole(run_dir / RUN, info)
            return cls(run_dir, lock_fd=lock_fd)
        except SpecqError:
            os.close(lock_fd)
            run_dir.rmdir()
            raise

    @classmethod
    def open_for_resume(cls, run_dir: Path, config_sha256: str) -> Store:
        """Lock an unfinished run and mend its tail: torn lines and outputs without a record are cut, aloud.

        Raises:
            RunFolderError: not a run, done already, busy, or made from another config.
        """
        info = read_info(run_dir)
        if is_done(run_dir):
            raise RunFolderError(f"nothing left to do: {run_dir} is done; to see it type: specq show {run_dir}")
        if info.get("config_sha256") != config_sha256:
            raise RunFolderError(
                f"{run_dir} was made from another config (then {str(info.get('config_sha256'))[:12]}, "
                f"now {config_sha256[:12]}); put the config back, or start a new run without --resume"
            )
        store = cls(run_dir, lock_fd=_lock(run_dir))
        try:
            store._cut_uncommitted()
            store._open()
        except SpecqError:
            store.close()
            raise
        return store

    @classmethod
    def attach(cls, run_dir: Path, lock_fd: int | None = None) -> Store:
        """Open a run for a worker: with the lock its parent passed on, else with its own."""
        return cls(run_dir, lock_fd=_lock(run_dir) if lock_fd is None else lock_fd)

    def records(self) -> list[Record]:
        """What is recorded so far, oldest first; a torn last line is left out."""
        lines, _ = jsonl.read(self.run_dir / RECORDS)
        return [from_json(line) for line in lines]

    def outputs(self) -> dict[Key, dict[str, Any]]:
        """Lines of outputs.jsonl by (process, arm, prompt, repeat)."""
        lines, _ = jsonl.read(self.run_dir / OUTPUTS)
        return {_key(line): line for line in lines}

    def append(self, record: Record) -> None:
        """Write one record. Raises DiskFull or RunFailed when it cannot be written whole."""
        with self._resumable():
            self._open().append(to_json(record))

    def commit(self, record: Generated, ids: Sequence[int], text: str) -> None:
        """Write an output, then the record that makes it count."""
        output = {
            "arm": record.arm,
            "prompt": record.prompt,
            "repeat": record.repeat,
            "process": record.process,
            "ids": list(ids),
            "text": text,
        }
        with self._resumable():
            self._open()
            assert self._outputs is not None
            self._outputs.append(output)
        self.append(record)

    def pause(self) -> None:
        """Close the files and keep the lock, so that a worker can append."""
        with self._resumable():
            for appender in (self._outputs, self._records):
                if appender is not None:
                    appender.close()
        self._outputs = self._records = None

    @contextmanager
    def _resumable(self) -> Iterator[None]:
        """A disk that is full stops the run but loses nothing of it: the error says how to go on."""
        try:
            yield
        except DiskFull as error:
            raise DiskFull(
                f"{error}; what was recorded is kept, to go on type: specq run --resume {self.run_dir}"
            ) from error

    def finish(self) -> None:
        """Write done.json: from here on the run is complete."""
        self.pause()
        counts = {name: len(jsonl.read(self.run_dir / name)[0]) for name in (RECORDS, OUTPUTS)}
        with self._resumable():
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
                    text = f"cut {appender.cut_bytes} bytes of a torn last line from {appender.path.name}"
                    self._note(self._records, text)
        return self._records

    def _note(self, appender: jsonl.Appender, text: str) -> None:
        appender.append(to_json(Note(process=0, text=text)))

    def _cut_uncommitted(self) -> None:
        """A crash between an output and its record leaves an output at the end that counts for nothing."""
        path = self.run_dir / OUTPUTS
        if not path.exists():
            return
        generated = {(r.process, r.arm, r.prompt, r.repeat) for r in self.records() if isinstance(r, Generated)}
        lines = path.read_bytes().split(b"\n")
        torn = lines.pop()
        cut = 0
        while lines and _key(json.loads(lines[-1])) not in generated:
            lines.pop()
            cut += 1
        if cut:
            with path.open("r+b") as file:
                file.truncate(sum(len(line) + 1 for line in lines))
            also = f" and {len(torn)} bytes of a torn line" if torn else ""
            self._note(self._open(), f"cut {cut} outputs without a record{also} from {OUTPUTS}")


def _key(line: dict[str, Any]) -> Key:
    return (int(line["process"]), str(line["arm"]), str(line["prompt"]), int(line["repeat"]))
