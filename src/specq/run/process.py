"""Starts one worker process, reads what it says and tells how it ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from specq.core import errors
from specq.core.errors import STOPS, DiskFull, Interrupted, RunFailed, SpecqError
from specq.core.records import WorkerDied
from specq.run import signals
from specq.run.job import Task
from specq.run.provenance import hide_home
from specq.run.store import Store

OnEvent = Callable[[dict[str, Any]], None]
# How tqdm draws: "Loading: 50%|##  | 1/2 [00:01<00:01, 1.2it/s]", or "3 examples [00:00, 60.1 examples/s]".
_BAR = re.compile(r"^.*?(?:\d+%\|[^\[]*\[[\d:]+<|\d\S* ?[A-Za-z]* \[[\d:]+, )[^\]]*\]")
# Items that the line about a worker's death names.
_NAMED = 3


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
        doing = _Doing()
        error, stopped_by = _listen(worker, on_event, doing)
        code = worker.wait()
        stderr.seek(0)
        said = stderr.read().decode("utf-8", errors="replace")
    if code == 0:
        return
    if stopped_by is None and code in (Interrupted.exit_code, *(-number for number in signals.USUAL)):
        stopped_by = -code if code < 0 else int(signal.SIGINT)
    if stopped_by is not None:
        raise Interrupted(f"stopped; {store.how_to_go_on}", stopped_by)
    if error is not None:
        if isinstance(error, STOPS) and store.how_to_go_on not in str(error):
            error = type(error)(f"{error}; {store.how_to_go_on}")
        raise error
    why = f"{reason(code, said)}{doing.words}"
    died = WorkerDied(process=task.process, task=task.name, exit_code=code, message=why)
    store.append(died)
    raise RunFailed(
        f"the run is incomplete: the worker of task '{task.name}' died (exit code {code}: {died.message}); "
        f"{store.how_to_go_on}"
    )


@dataclass
class _Doing:
    """What a worker of an eval was at: the items that an arm answers, and the one whose answer is judged."""

    arm: str = ""
    eval: str = ""
    items: Sequence[str] = ()
    item: str = ""
    metric: str = ""

    def take(self, event: dict[str, Any]) -> bool:
        """Note an event of the kind that only tells what was begun; whether it was one."""
        kind = event.get("event")
        if kind == "answering":
            self.arm, self.eval, self.items, self.item = event["arm"], event["eval"], event["items"], ""
        elif kind == "judging":
            self.eval, self.item, self.metric = event["eval"], event["item"], event["metric"]
        elif kind == "evaluated":
            self.items, self.item = (), ""
        return kind in ("answering", "judging")

    @property
    def words(self) -> str:
        """The end of the sentence about the worker's death; "" where it was at no eval."""
        if self.item:
            return (
                f', as metric {self.metric} judged the answer of {self.arm} to item "{self.item}" of eval "{self.eval}"'
            )
        if not self.items:
            return ""
        more = f" and {len(self.items) - _NAMED} more" if len(self.items) > _NAMED else ""
        return f', as {self.arm} answered items {", ".join(self.items[:_NAMED])}{more} of eval "{self.eval}"'


def _listen(worker: subprocess.Popen[str], on_event: OnEvent, doing: _Doing) -> tuple[SpecqError | None, int | None]:
    """Pass events on until the worker closes its stdout; return the error it told and the signal that stopped us.

    `doing` is left at what the worker was at.
    """
    stopped_by: int | None = None
    error = None
    assert worker.stdout is not None
    while True:
        try:
            for line in worker.stdout:
                event = _event(line)
                if event.get("event") == "error":
                    error = _error(event["error"], event["message"])
                elif event and not doing.take(event):
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


def reason(code: int, said: str) -> str:
    """Why a worker ended, from its exit code and from what it said on stderr."""
    if code == -signal.SIGKILL:
        return "killed, most often because memory ran out; take a smaller model or free some memory"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    if (last := last_line(said)) and "Traceback (most recent call last)" not in said:
        # A library's warning is no cause.
        return f"it did not say why; its last line on stderr: {last}"
    return last or "it said nothing"


def last_line(said: str) -> str:
    """The last line that a process left standing on stderr, without bars that show progress; "" for none."""
    # What a carriage return begins anew is written over on a terminal.
    lines = [_BAR.sub("", line.rstrip("\r").rpartition("\r")[2]).strip() for line in said.split("\n")]
    return str(hide_home(next((line for line in reversed(lines) if line), "")))
