"""Which format a file has, by what its first rows hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError, PromptError, nearest
from specq.core.nouns import listed
from specq.workloads import openai, own, sharegpt, traces
from specq.workloads.source import Row

AUTO = "auto"
TEXT = "text"
FORMATS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "specq": own.fits,
    "spec-bench": own.fits_spec_bench,
    "sharegpt": sharegpt.fits,
    "openai": openai.fits,
    "trace": traces.fits,
}
"""The formats of rows, and whether a row is of each."""
_LOOKED_AT = 50


def check_name(format: str) -> None:
    """Refuse a format that there is not. Raises ConfigError."""
    if format not in (AUTO, *FORMATS):
        known = nearest(format, FORMATS) or ";"
        raise ConfigError(f"format {format}{known} allowed: {', '.join((AUTO, *FORMATS))}")


def detect(path: Path, rows: Iterable[Row]) -> str:
    """The format that the first rows have.

    Raises:
        PromptError: none fits, or two fit the same row, or the rows are of several.
    """
    found: Counter[str] = Counter()
    first: Row | None = None
    for looked, row in enumerate(rows):
        if looked == _LOOKED_AT:
            break
        first = first if first is not None and first.value is not None else row
        if row.value is None:
            continue
        names = [name for name, fits in FORMATS.items() if fits(row.value)]
        if len(names) > 1:
            raise PromptError(
                f"{path}:{row.line}: the row fits {listed(names)}; say which it is: --format {names[0]} or "
                f"--format {names[1]}"
            )
        found.update(names)
    if not found:
        raise PromptError(f"{path}: {_shown(first)}; allowed formats are {', '.join(FORMATS)}: docs/workloads.md")
    if len(found) > 1:
        rows_of = listed([f"{count} of {name}" for name, count in found.most_common()])
        raise PromptError(
            f"{path}: the first rows are {rows_of}; say which to take, the others are dropped and counted: "
            f"--format {found.most_common(1)[0][0]}"
        )
    return next(iter(found))


def _shown(first: Row | None) -> str:
    if first is None:
        return "no rows"
    if first.value is None:
        return f"no row of it is a JSON object (line {first.line}: {first.fault})"
    keys: Sequence[str] = sorted(map(str, first.value))[:8]
    # Keys are a stranger's text, and a long one is no name.
    return f"no known format: line {first.line} has {', '.join(key[:40] for key in keys) or 'no keys'}"
