"""Whether a JSON value is of a dataclass field's type, so that a damaged file is refused and never computed with.

A type is read once and becomes a function: a file holds millions of values of a few types. Rows of one shape are
checked by column, for a type then costs a few calls a column and not one a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

# Beyond this a count or a time is damage, and arithmetic on it could overflow.
LARGEST = 2**63

Check = Callable[[Any], bool]
CheckAll = Callable[[Sequence[Any]], bool]


def fields_of(cls: Any) -> dict[str, Any]:
    """The type of each field of a dataclass or named tuple, in order."""
    return _hints(cls)


def checks_of(cls: Any) -> dict[str, Check]:
    """For each field of a dataclass, in order, whether a value is of its type, as `fits` says."""
    return _checks(cls)


def tuples(value: Any) -> Any:
    """The JSON value with its lists as tuples."""
    if type(value) is not list:
        return value
    return tuple(map(tuples, value)) if list in map(type, value) else tuple(value)


def fits(value: Any, kind: Any) -> bool:
    """Whether a value, lists as tuples, is of a type: int, float, str, bool, None, a dict, a union, a (named) tuple.

    A float may be written as an int; NaN, infinities and numbers from 2**63 on fit nothing.
    """
    return checker(kind)(value)


@cache
def checker(kind: Any) -> Check:
    """`fits` for one type."""
    if kind is int:
        return lambda value: type(value) is int and -LARGEST < value < LARGEST
    if kind is float:
        # A comparison with NaN is never true.
        return lambda value: type(value) in (int, float) and -LARGEST < value < LARGEST
    if kind in (str, bool, NoneType):
        return lambda value: type(value) is kind
    if get_origin(kind) is dict:
        return lambda value: isinstance(value, dict)
    if _is_union(kind):
        options = [checker(one) for one in get_args(kind)]
        return lambda value: any(option(value) for option in options)
    parts = _parts(kind)
    if parts[-1] is Ellipsis:
        each = _checker_of_all(parts[0])
        return lambda value: isinstance(value, tuple) and each(value)
    columns = [checker(part) for part in parts]
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(columns)
        and all(check(item) for check, item in zip(columns, value, strict=True))
    )


@cache
def _checker_of_all(kind: Any) -> CheckAll:
    """Whether all of some values fit a type."""
    if kind is int:
        return lambda values: set(map(type, values)) <= {int} and _all_small(values)
    if kind is float:
        # min and max pass over a NaN that is not the first; a sum never does.
        return lambda values: (
            set(map(type, values)) <= {int, float} and _all_small(values) and math.isfinite(sum(values))
        )
    parts = () if kind in (str, NoneType) or get_origin(kind) is dict or _is_union(kind) else _parts(kind)
    if not parts:
        one = checker(kind)
        return lambda values: all(map(one, values))
    if parts[-1] is Ellipsis:
        items = _checker_of_all(parts[0])
        return lambda values: _all_tuples(values) and items(tuple(chain.from_iterable(values)))
    columns = [_checker_of_all(part) for part in parts]
    return lambda values: (
        _all_tuples(values)
        and set(map(len, values)) <= {len(columns)}
        and all(check(column) for check, column in zip(columns, zip(*values, strict=True), strict=False))
    )


def _all_small(values: Sequence[Any]) -> bool:
    return not values or (min(values) > -LARGEST and max(values) < LARGEST)


def _all_tuples(values: Sequence[Any]) -> bool:
    return all(isinstance(value, tuple) for value in values)


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
def _checks(cls: Any) -> dict[str, Check]:
    return {name: checker(kind) for name, kind in fields_of(cls).items()}


@cache
def _parts(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) or tuple(fields_of(kind).values())
