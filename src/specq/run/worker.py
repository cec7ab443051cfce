"""One worker process: python -m specq.run.worker RUN_DIR --task measure --process 0.

Says what it does as JSON lines on stdout. Exit codes: 0 done, 130 stopped on request with all
records kept, else the error's own code; the last event then tells the error.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from specq.core.errors import Interrupted, SpecqError
from specq.run.job import Job, Progress, Task
from specq.run.store import Store

TASKS = ("quantize", "measure", "memory", "audit", "prove", "eval")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one task of one run and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m specq.run.worker")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--arm", default="")
    parser.add_argument("--repeat", type=int)
    parser.add_argument("--lock-fd", type=int)
    parser.add_argument("--parent", type=int, default=os.getppid())
    given = parser.parse_args(argv)
    task = Task(kind=given.task, process=given.process, arm=given.arm, repeat=given.repeat)
    progress = _private_stdout(given.parent)
    _stop_on_signals(progress)
    try:
        with Store.attach(given.run_dir, given.lock_fd) as store:
            _run(Job(store=store, process=task.process, progress=progress), task)
    except Interrupted:
        return Interrupted.exit_code
    except SpecqError as error:
        progress.say("error", error=type(error).__name__, message=str(error))
        return error.exit_code
    return 0


def _run(job: Job, task: Task) -> None:
    from specq.run.artifacts import quantize
    from specq.run.audit import audit
    from specq.run.evaluate import evaluate, prove
    from specq.run.measure import measure
    from specq.run.memory import measure_memory

    if job.progress.should_stop():
        raise Interrupted("stopped")
    if task.kind == "quantize":
        quantize(job, task.arm)
    elif task.kind == "measure":
        measure(job, task)
    elif task.kind == "memory":
        measure_memory(job, task.arm)
    elif task.kind == "prove":
        prove(job, task)
    elif task.kind == "eval":
        evaluate(job, task)
    else:
        audit(job, task)


def _private_stdout(parent: int) -> Progress:
    """Keep stdout for events: whatever a library prints goes to stderr instead."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return Progress(stream=stream, parent=parent)


def _stop_on_signals(progress: Progress) -> None:
    """The first Ctrl-C, SIGTERM or SIGHUP lets the sample under way finish; a second Ctrl-C does not."""

    def stop(number: int, frame: FrameType | None) -> None:
        progress.stopped = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def stop_softly(number: int, frame: FrameType | None) -> None:
        progress.stopped = True

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop_softly)
    # Under nohup a terminal that goes away stops nothing.
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, stop_softly)


if __name__ == "__main__":
    sys.exit(main())
