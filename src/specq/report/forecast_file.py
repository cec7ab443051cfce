"""forecast.json: what was forecast of the arms of a run before it ran. Read and checked here, written by `forecast`.

The file is one object with the fields of `Forecasts`. What it says is compared with the run in `forecast_gaps`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from specq.core.typed import checks_of, fields_of, fits, in_words, tuples

FILE = "forecast.json"
SCHEMA = 1
# Parts of a step add up to the step; what rounding leaves is far below this.
_NEAR = 1e-3
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is expected of a draft that proposes `k` tokens a step under a rule; seconds are those of a step.

    `speedup` is over plain decoding, with a 95 % interval where there is one. `p_faster`, `slower_prompts` and
    `regret` are shares, None where one prompt tells nothing.
    """

    draft: str
    k: int
    rule: str
    tokens_per_step: float
    speedup: float
    low: float | None
    high: float | None
    tokens_per_s: float
    p_faster: float | None
    slower_prompts: float
    regret: float | None
    draft_s: float
    verify_s: float
    rest_s: float

    @property
    def key(self) -> tuple[str, int, str]:
        """What names it."""
        return self.draft, self.k, self.rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Seconds of a step with `k` proposals as they were measured after `context` tokens, beside a plain step there.

    `spread` is the median distance of a step from the median step, as a share. `ceiling` is the speed-up with every
    token right, `break_even` the tokens per step at which drafting costs what it brings.
    """

    draft: str
    k: int
    context: int
    draft_s: float
    verify_s: float
    rest_s: float
    plain_s: float
    spread: float
    ceiling: float
    break_even: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is expected of a cell on a part of the prompts or tokens: `name` is the part, `by` what it is a part of."""

    draft: str
    k: int
    rule: str
    by: str
    name: str
    n: int
    tokens_per_step: float | None
    speedup: float | None
    low: float | None
    high: float | None
    p_faster: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """An arm of the run that is a cell, and what its steps were expected to cost.

    `draft_sha256` is the hash of the draft's settings. The parts of a step are in plain steps of the baseline, means
    over all steps of the replayed texts; their sum is tokens_per_step / speedup of the cell.
    """

    arm: str
    draft: str
    k: int
    rule: str
    draft_sha256: str
    draft_share: float
    verify_share: float
    rest_share: float

    @property
    def key(self) -> tuple[str, int, str]:
        """The cell's."""
        return self.draft, self.k, self.rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecasts:
    """A forecast whole. `config_sha256` is the hash of the run's experiment, `prompts` counts the texts it rests on.

    `cells` begin with the fastest; rules that do the same stand once. `more_prompts` would part the best two drafts,
    None where they are apart or nothing can be said. `hopeless` says why a draft cannot win, `said` where a part of the
    prompts tells another tale than the whole. `seconds` is what forecasting took. `grid` holds the cells of targets and
    drafts together, where they were asked for; see forecast_grid.
    """

    schema: int
    specq: str
    created: str
    config_sha256: str
    target: str
    prompts: int
    plain_tokens_per_s: float
    more_prompts: int | None
    seconds: dict[str, Any]
    cells: tuple[Cell, ...]
    points: tuple[Point, ...]
    hopeless: dict[str, Any]
    strata: tuple[Part, ...]
    said: tuple[str, ...]
    arms: tuple[Ran, ...]
    grid: tuple[dict[str, Any], ...] = ()

    def cell(self, key: tuple[str, int, str]) -> Cell:
        """The cell of that draft, k and rule.

        Raises:
            KeyError: there is none.
        """
        for one in self.cells:
            if one.key == key:
                return one
        raise KeyError(key)


_ROWS: dict[str, Any] = {"cells": Cell, "points": Point, "strata": Part, "arms": Ran}


class _Unusable(Exception):
    """What is wrong with the file, in words."""


def read(folder: Path, info: Mapping[str, Any]) -> tuple[Forecasts | None, str]:
    """The forecast that lies in a run's folder, and what is wrong with it; None and "" where none was made.

    `info` is the run's run.json. A file that is damaged, of another schema or of another run is never computed with.
    """
    path = folder / FILE
    if not path.exists():
        return None, ""
    try:
        return _read(path, info), ""
    except _Unusable as fault:
        return None, f"{FILE} cannot be used: {fault}; the run itself is not touched by it"


def _read(path: Path, info: Mapping[str, Any]) -> Forecasts:
    try:
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse, parse_float=_finite)
        # Half a character is legal in JSON, and no report could be written with it.
        json.dumps(value, ensure_ascii=False).encode()
    except OSError as error:
        raise _Unusable(f"it cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise _Unusable(f"it is not JSON as specq writes it ({error})") from error
    if not isinstance(value, dict):
        raise _Unusable(f"expected an object, found {type(value).__name__}")
    if value.get("schema") != SCHEMA:
        raise _Unusable(f"its schema is {value.get('schema')!r}, this version of specq reads {SCHEMA}")
    if value.get("config_sha256") != info.get("config_sha256"):
        raise _Unusable("it belongs to another run: its config_sha256 is not that of run.json")
    rows = {name: _listed(kind, value.get(name), name) for name, kind in _ROWS.items()}
    grid = value.get("grid", [])
    if not isinstance(grid, list) or not all(isinstance(one, dict) for one in grid):
        raise _Unusable("grid must be a list of objects")
    found = _made(Forecasts, {**value, **rows, "grid": tuple(grid)}, "", skip=(*rows, "grid"))
    _check_words(found)
    known = {one.key for one in found.cells}
    for place, cell in enumerate(found.cells):
        if cell.k < 1 or min(cell.tokens_per_step, cell.speedup) <= 0:
            raise _Unusable(f"cells[{place}]: k, tokens_per_step and speedup must be above 0")
    for place, one in enumerate(found.arms):
        if one.key not in known:
            raise _Unusable(f"arms[{place}]: there is no cell {one.draft} k = {one.k} {one.rule}")
        cell, parts = found.cell(one.key), one.draft_share + one.verify_share + one.rest_share
        if abs(parts * cell.speedup / cell.tokens_per_step - 1) > _NEAR:
            raise _Unusable(f"arms[{place}]: the parts of a step are not tokens_per_step / speedup of its cell")
    return found


def _check_words(found: Forecasts) -> None:
    if not all(fits(one, float) and one >= 0 for one in found.seconds.values()):
        raise _Unusable("seconds must be numbers from 0 on")
    if not all(isinstance(one, str) for one in found.hopeless.values()):
        raise _Unusable("hopeless must be texts")


def _listed(kind: type[T], value: Any, name: str) -> tuple[T, ...]:
    if not isinstance(value, list):
        raise _Unusable(f"{name} must be a list")
    return tuple(_made(kind, one, f"{name}[{place}]") for place, one in enumerate(value))


def _made(kind: type[T], value: Any, where: str, skip: tuple[str, ...] = ()) -> T:
    """An object of a dataclass from a JSON object; `skip` names fields that were checked before."""
    kinds, checks = fields_of(kind), checks_of(kind)
    at = f"{where}: " if where else ""
    if not isinstance(value, dict):
        raise _Unusable(f"{at}expected an object, found {type(value).__name__}")
    if lacks := [name for name in kinds if name not in value]:
        raise _Unusable(f"{at}lacks {', '.join(lacks)}")
    if strange := [name for name in value if name not in kinds]:
        raise _Unusable(f"{at}unknown {', '.join(map(str, strange))}")
    for name, check in checks.items():
        if name not in skip and not check(tuples(value[name])):
            raise _Unusable(f"{at}{name} must be {in_words(kinds[name])}")
        if isinstance(value[name], int | float) and value[name] < 0:
            raise _Unusable(f"{at}{name} must not be below 0")
    return kind(**{name: tuples(one) for name, one in value.items()})


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is too large")
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
