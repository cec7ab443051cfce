"""Workers of whole runs without the second of imports that a fresh interpreter takes: forked, or called right here.

A forked worker is a process of its own: it can be killed, stopped and left behind, and what it changes stays in it.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from specq.core.records import Machine
from specq.run import measure, process, runner, worker
from specq.run.job import Job, Progress
from specq.run.store import Store


class Worker:
    """What `process` needs of a Popen; `main` gets the words of the command line after the program and "worker"."""

    last: Worker | None = None

    def __init__(
        self, main: Callable[[list[str]], int], words: Sequence[str], *, stderr: Any, pass_fds: Sequence[int]
    ) -> None:
        reads, writes = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _become(main, list(words), writes, stderr.fileno(), pass_fds)
        os.close(writes)
        self.stdout = os.fdopen(reads, encoding="utf-8", errors="replace")
        self.code: int | None = None
        Worker.last = self

    def wait(self) -> int:
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            self.stdout.close()
        return self.code

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _become(main: Callable[[list[str]], int], words: list[str], out: int, err: int, keep: Sequence[int]) -> None:
    """In the child: be the worker and never return."""
    code = 1
    try:
        # As a fresh interpreter has them, not as the parent listens.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.dup2(out, 1)
        os.dup2(err, 2)
        low = 3
        for fd in sorted(keep):
            os.closerange(low, fd)
            low = fd + 1
        os.closerange(low, 1024)
        sys.stdout, sys.stderr = (open(fd, "w", encoding="utf-8", closefd=False) for fd in (1, 2))  # noqa: SIM115
        for handler in filter(None, (reference() for reference in logging._handlerList)):
            # It kept a file that is closed now, whose number may soon be that of a socket.
            if isinstance(handler, logging.StreamHandler) and "stream" in vars(handler):
                handler.stream = sys.stderr
        code = main(words)
    except BaseException:  # noqa: BLE001 - a child that went on would run the parent's tests
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def forks(setter: Any, main: Callable[[list[str]], int]) -> None:
    """Let runs start their workers as forks of this process that call `main`; elsewhere than on Linux, as they do."""
    if sys.platform != "linux":
        # Apple's libraries do not survive a fork.
        return

    def popen(command: Sequence[str], *, stderr: Any, pass_fds: Sequence[int], **_: Any) -> Worker:
        return Worker(main, command[command.index("worker") + 1 :], stderr=stderr, pass_fds=pass_fds)

    setter(process, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": popen}))


def inside(setter: Any) -> None:
    """Let runs call their workers in this process, without measuring the memory's bandwidth."""

    def here(store: Store, task: Any, on_event: Any) -> None:
        store.pause()
        with Store.attach(store.run_dir, os.dup(store.lock_fd)) as own, Path(os.devnull).open("w") as nowhere:
            progress = Progress(stream=nowhere, parent=os.getppid())
            worker._run(Job(store=own, process=task.process, progress=progress), task)

    def machine(process: int, device: str, imports_bytes: int) -> Machine:
        return Machine(
            process=process, bandwidth_bytes_per_s=1e9, threads=1, device=device, imports_bytes=imports_bytes
        )

    setter(runner, "run_worker", here)
    setter(measure, "machine", machine)
