"""A report's dataclasses as JSON values."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from specq.stats.scores import Difference


def plain(value: Any) -> Any:
    """As dataclasses.asdict, without copies of what cannot change, and without the scores behind a difference."""
    kind = type(value)
    if kind in (str, int, float, bool, type(None)):
        return value
    if kind in (tuple, list):
        return kind(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return {name: plain(getattr(value, name)) for name in _names(kind)} if is_dataclass(kind) else value


@cache
def _names(kind: Any) -> tuple[str, ...]:
    # Every item's score stands in records.jsonl.
    left_out = ("pairs",) if kind is Difference else ()
    return tuple(one.name for one in fields(kind) if one.name not in left_out)
