"""Where words go: results to stdout, everything else to stderr, colour only on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from specq.report import Report

WIDTH = 100


def console() -> Console:
    """Stdout; without a terminal it is wide enough for the tables."""
    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False, markup=False, emoji=False)


def show(parts: Iterable[RenderableType]) -> None:
    """Print renderables to stdout."""
    screen = console()
    for part in parts:
        screen.print(part)


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
