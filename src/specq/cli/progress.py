"""How a run's progress is shown: a bar with the time left on a terminal, else a line a prompt."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from specq.cli import output
from specq.report.words import visible
from specq.run.runner import OnProgress, Progress


@contextmanager
def watch() -> Iterator[OnProgress]:
    """A function that shows progress on stderr until the block ends."""
    if not sys.stderr.isatty():
        yield _line
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left", markup=False),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True, markup=False, highlight=False), transient=True) as bars:
        task = bars.add_task("starting", total=None)

        def show(progress: Progress) -> None:
            text = visible(progress.text)
            if progress.warning:
                bars.console.print(text)
            elif text:
                bars.update(task, description=text)
            bars.update(task, completed=progress.done, total=progress.total)

        yield show


def _line(progress: Progress) -> None:
    if progress.text:
        output.note(f"[{progress.done}/{progress.total}] {visible(progress.text)}")
