"""Starts one worker process, reads what it says and tells how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from specq.core import errors
from specq.core.errors import DiskFull, Interrupted, RunFailed, SpecqError
from specq.core.records import WorkerDied
from specq.run import signals
from specq.run.job import Task
from specq.run.provenance import hide_home
from specq.run.store import Store

OnEvent = Callable[[dict[str, Any]], None]


def command(store: Store, task: Task) -> list[str]:
    """The command line of a worker."""
    return [
        *(sys.executable, "-m", "specq.run.worker", str(store.run_dir)),
        *("--task", task.kind, "--process", str(task.process), "--arm", task.arm),
        *(() if task.repeat is None else ("--repeat", str(task.repeat))),
        *("--lock-fd", str(store.lock_fd), "--parent", str(os.getpid())),
    ]


def run_worker(store: Store, task: Task, on_event: OnEvent) -> None:
    """Run one task in a fresh process, which inherits the folder's lock, and wait for its end.

    Raises:
        Interrupted: Ctrl-C or a signal here or there; the worker finished its sample first.
        SpecqError: what the worker raised, as the same class.
        RunFailed: the worker died; a WorkerDied record says how.
    """
    store.pause()
    with _scratch() as stderr:
        worker = subprocess.Popen(
            command(store, task),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            pass_fds=(store.lock_fd,),
            encoding="utf-8",
            errors="replace",
        )
        error, stopped_by = _listen(worker, on_event)
        code = worker.wait()
        last_words = _last_line(stderr)
    if code == 0:
        return
    if stopped_by is None and code in (Interrupted.exit_code, *(-number for number in signals.USUAL)):
        stopped_by = -code if code < 0 else int(signal.SIGINT)
    if stopped_by is not None:
        raise Interrupted(f"stopped; {store.how_to_go_on}", stopped_by)
    if error is not None:
        raise error
    died = WorkerDied(process=task.process, task=task.name, exit_code=code, message=_reason(code, last_words))
    store.append(died)
    raise RunFailed(
        f"the run is incomplete: the worker of task '{task.name}' died (exit code {code}: {died.message}); "
        f"{store.how_to_go_on}"
    )


def _listen(worker: subprocess.Popen[str], on_event: OnEvent) -> tuple[SpecqError | None, int | None]:
    """Pass events on until the worker closes its stdout; return the error it told and the signal that stopped us."""
    stopped_by: int | None = None
    error = None
    assert worker.stdout is not None
    while True:
        try:
            for line in worker.stdout:
                event = _event(line)
                if event.get("event") == "error":
                    error = _error(event["error"], event["message"])
                elif event:
                    on_event(event)
            worker.wait()
            return error, stopped_by
        except KeyboardInterrupt as stop:
            if stopped_by is not None:
                worker.kill()
            else:
                worker.terminate()
                # A terminal that is gone cannot be told.
                with suppress(OSError):
                    on_event({"event": "stopping", "signal": signals.name_of(stop)})
            stopped_by = signals.number_of(stop)
        except BaseException:
            # A broken progress display must not leave a worker behind.
            worker.kill()
            worker.wait()
            raise


def _scratch() -> IO[bytes]:
    """A file for what the worker says on stderr."""
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise DiskFull(f"cannot make a temporary file ({error}); free some space, or set TMPDIR to a folder") from error


def _event(line: str) -> dict[str, Any]:
    """The event of a line; empty for a line that Ctrl-C or a kill tore."""
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _error(name: str, message: str) -> SpecqError:
    kind = getattr(errors, name, RunFailed)
    return kind(message) if isinstance(kind, type) and issubclass(kind, SpecqError) else RunFailed(message)


def _reason(code: int, last_words: str) -> str:
    if code == -signal.SIGKILL:
        return "killed, most often because memory ran out; take a smaller model or free some memory"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return last_words or "it said nothing"


def _last_line(file: IO[bytes]) -> str:
    file.seek(0)
    lines = file.read().decode("utf-8", errors="replace").strip().splitlines()
    return str(hide_home(lines[-1].strip())) if lines else ""
