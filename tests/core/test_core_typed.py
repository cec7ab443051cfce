from __future__ import annotations

import math
import random
from types import NoneType
from typing import Any, get_args, get_origin

import pytest

from specq.core import typed
from specq.core.records import KINDS, Output, StepRow

NUMBERS = [0, -1, 7, 1.5, -2.25, 2**63 - 1, 2**63, -(2**63), 2.0**63, -1e30, math.inf, -math.inf, math.nan]
SCALARS = [*NUMBERS, "x", "", None, True, False, {}]
KINDS_OF_FIELDS = [
    *{kind: None for cls in (*KINDS.values(), Output) for kind in typed.fields_of(cls).values()},
    tuple[tuple[int, ...], ...],
    tuple[tuple[int, float], ...],
    tuple[float | None, ...],
    int | tuple[float, ...],
]


def slow_fits(value: Any, kind: Any) -> bool:
    """What `typed.fits` must say, value by value."""
    if kind is int:
        return type(value) is int and abs(value) < 2**63
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value) and abs(value) < 2**63
    if kind in (str, NoneType):
        return type(value) is kind
    if get_origin(kind) is dict:
        return isinstance(value, dict)
    if typed._is_union(kind):
        return any(slow_fits(value, one) for one in get_args(kind))
    if not isinstance(value, tuple):
        return False
    parts = typed._parts(kind)
    if parts[-1] is Ellipsis:
        return all(slow_fits(item, parts[0]) for item in value)
    return len(value) == len(parts) and all(map(slow_fits, value, parts))


def good(rng: random.Random, kind: Any) -> Any:
    plain = {int: 3, float: rng.choice([0.5, 2]), str: "s", NoneType: None}
    if kind in plain:
        return plain[kind]
    if typed._is_union(kind):
        return good(rng, rng.choice(get_args(kind)))
    if get_origin(kind) is dict:
        return {}
    parts = typed._parts(kind)
    if parts[-1] is Ellipsis:
        parts = parts[:1] * rng.randrange(4)
    return tuple(good(rng, part) for part in parts)


def spoiled(rng: random.Random, value: Any) -> Any:
    if not isinstance(value, tuple) or not value or rng.random() < 0.1:
        return rng.choice([*SCALARS, (), (1,)])
    at = rng.randrange(len(value))
    instead = () if rng.random() < 0.1 else (spoiled(rng, value[at]),)
    return value[:at] + instead + value[at + 1 :]


@pytest.mark.parametrize("kind", KINDS_OF_FIELDS, ids=str)
def test_checking_by_column_refuses_all_that_checking_by_value_refuses(kind: Any) -> None:
    rng = random.Random(3)
    for _ in range(60):
        value = good(rng, kind)
        assert typed.fits(value, kind)
        for damaged in (spoiled(rng, value), spoiled(rng, spoiled(rng, value))):
            assert typed.fits(damaged, kind) == slow_fits(damaged, kind), damaged


@pytest.mark.parametrize("column", range(8))
@pytest.mark.parametrize("wrong", [True, "1", None, (1,), 2**63, -(2**63), 10**400, math.inf, math.nan])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_wrong_value_among_steps_is_not_hidden_by_its_column(column: int, wrong: Any, at: int) -> None:
    row = (3, 2, 1, 2, 0.1, 0.2, 0.3, 0.4)
    rows = [row, row, row]
    assert typed.fits(tuple(rows), tuple[StepRow, ...])
    rows[at] = (*row[:column], wrong, *row[column + 1 :])
    assert not typed.fits(tuple(rows), tuple[StepRow, ...])


def test_a_step_that_is_short_or_long_is_not_cut_to_the_others() -> None:
    row = (3, 2, 1, 2, 0.1, 0.2, 0.3, 0.4)
    for other in (row[:-1], (*row, 0.5), ()):
        assert not typed.fits((row, other), tuple[StepRow, ...])
        assert not typed.fits((other, other), tuple[StepRow, ...])


def test_a_number_too_large_for_a_float_is_refused_and_breaks_nothing() -> None:
    assert not typed.fits(10**400, float)
    assert not typed.fits((0.5, 10**400), tuple[float, ...])
