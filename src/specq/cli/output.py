"""Where words go: results to stdout, everything else to stderr, colour only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType

if TYPE_CHECKING:
    from specq.report import Report

# Wider than any row: without a terminal nothing is folded, and grep finds a row whole.
UNFOLDED = 1_000_000


def console() -> Console:
    """Stdout: as wide as the terminal, or as COLUMNS says; without either, rows and paragraphs stand on one line."""
    columns = os.environ.get("COLUMNS", "")
    told = int(columns) if columns.isdecimal() and int(columns) > 0 else None
    width = told if told or sys.stdout.isatty() else UNFOLDED
    return Console(width=width, highlight=False, markup=False, emoji=False)


def show(parts: Iterable[RenderableType]) -> None:
    """Print renderables to stdout; an empty line stands between others, and never twice."""
    screen = console()
    before: RenderableType = ""
    for part in parts:
        if part != "" or before != "":
            # A table is wider than the screen only where it holds a number that is: the terminal folds such a line,
            # and cropped digits are gone.
            screen.print(part, crop=False)
        before = part


def print_report(report: Report) -> None:
    """Print a report to stdout."""
    from specq.report.tables import terminal

    show([terminal(report)])


def print_json(value: Any) -> None:
    """Print one JSON object on one line, the last of stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def line(text: str) -> None:
    """Print one line to stdout."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """Print one line to stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
