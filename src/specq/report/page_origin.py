"""Where a report comes from, as tables: its settings, the machine and versions, models and data with their hashes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from specq.report.assemble import Report
from specq.report.section import Section
from specq.report.words import NOTHING

# What the run holds of these is the material itself.
_WHOLE = ("items", "given")


def origin(report: Report, info: Mapping[str, Any]) -> tuple[Section, ...]:
    """The sections on where the numbers come from; `info` is the run's run.json."""
    run = {
        "run": report.run,
        "specq": info.get("specq"),
        "created": info.get("created"),
        "config_sha256": report.config_sha256,
        "prompts": len(info.get("prompts") or ()),
    }
    parts = (
        ("Run", run),
        ("Settings", report.config),
        ("Machine and versions", report.provenance),
        ("Models", info.get("models")),
        ("Data", info.get("data")),
        ("Evaluation sets", info.get("evals")),
        ("Quantized for this run", info.get("quantized")),
    )
    return tables(parts)


def tables(parts: Iterable[tuple[str, Any]]) -> tuple[Section, ...]:
    """A table of keys and values of each title that has some."""
    made = (Section(title=title, columns=("key", "value"), rows=tuple(flat(found))) for title, found in parts)
    return tuple(section for section in made if section.rows)


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every value by its path, as it would be typed."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            own = f"{path}.{key}" if path else str(key)
            yield from [(own, f"{len(inner)}")] if key in _WHOLE and isinstance(inner, list) else flat(inner, own)
    elif isinstance(value, list | tuple) and any(isinstance(inner, Mapping) for inner in value):
        for place, inner in enumerate(value):
            yield from flat(inner, f"{path}[{place}]")
    elif path:
        yield path, _value(value)


def _value(value: Any) -> str:
    if value is None or value == "" or value == []:
        return NOTHING
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
