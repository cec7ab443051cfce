"""How a run's progress is shown: a bar with the time left on a terminal, else a line a prompt and one at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from specq.cli import output
from specq.core.nouns import counted
from specq.report.words import visible
from specq.run.runner import OnProgress, Progress


@contextmanager
def watch() -> Iterator[OnProgress]:
    """A function that shows progress on stderr until the block ends."""
    if not sys.stderr.isatty():
        lines = _Lines()
        yield lines.show
        lines.end()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left", markup=False),
        TimeRemainingColumn(),
    )
    # This very stderr: libraries that are made quiet have another one put in its place for the while.
    screen = Console(file=sys.stderr, markup=False, highlight=False)
    with Bars(*columns, console=screen, transient=True) as bars:
        task = bars.add_task("starting", total=None)

        def show(progress: Progress) -> None:
            text = visible(progress.text)
            if progress.warning:
                bars.console.print(text)
            elif text:
                bars.update(task, description=text)
            bars.update(task, completed=progress.done, total=progress.total or None)

        yield show


class _Lines:
    """Prints what is worth a line, and at the end how far it came: samples go on after the last prompt's line."""

    def __init__(self) -> None:
        self.last: Progress | None = None

    def show(self, progress: Progress) -> None:
        """One line where the progress has a text."""
        self.last = progress
        if progress.text:
            place = f"[{progress.done}/{progress.total}] " if progress.total else ""
            output.note(f"{place}{visible(progress.text)}")

    def end(self) -> None:
        """The last line of a run that came to its end; what was left out of it is said."""
        if self.last is not None and self.last.total:
            left = self.last.total - self.last.done
            what = counted(left, "sample or check was", "samples or checks were")
            text = f"done; {what} left out" if left else "done"
            output.note(f"[{self.last.done}/{self.last.total}] {text}")
