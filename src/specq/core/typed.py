"""Whether a JSON value is of a dataclass field's type, so that a damaged file is refused and never computed with."""

from __future__ import annotations

import math
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

# Beyond this a count or a time is damage, and arithmetic on it could overflow.
LARGEST = 2**63


def fields_of(cls: Any) -> dict[str, Any]:
    """The type of each field of a dataclass or named tuple, in order."""
    return _hints(cls)


def tuples(value: Any) -> Any:
    """The JSON value with its lists as tuples."""
    return tuple(tuples(item) for item in value) if isinstance(value, list) else value


def fits(value: Any, kind: Any) -> bool:
    """Whether a value, lists as tuples, is of a type: int, float, str, None, a dict, a union, a tuple or a named tuple.

    A float may be written as an int; NaN, infinities and numbers from 2**63 on fit nothing.
    """
    if kind is int:
        return type(value) is int and abs(value) < LARGEST
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value) and abs(value) < LARGEST
    if kind in (str, NoneType):
        return type(value) is kind
    if get_origin(kind) is dict:
        return isinstance(value, dict)
    if _is_union(kind):
        return any(fits(value, one) for one in get_args(kind))
    if not isinstance(value, tuple):
        return False
    parts = _parts(kind)
    if parts[-1] is Ellipsis:
        return all(fits(item, parts[0]) for item in value)
    return len(value) == len(parts) and all(map(fits, value, parts))


def in_words(kind: Any) -> str:
    """The type as a reader of JSON knows it."""
    if _is_union(kind):
        return " or ".join(map(in_words, get_args(kind)))
    words = {int: "a whole number", float: "a finite number", str: "a text", NoneType: "null"}
    if kind in words:
        return words[kind]
    if get_origin(kind) is dict:
        return "an object"
    parts = _parts(kind)
    if parts[-1] is Ellipsis:
        return f"a list, each item {in_words(parts[0])}"
    return f"a list of {', '.join(map(in_words, parts))}"


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType)


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


@cache
def _parts(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) or tuple(fields_of(kind).values())
