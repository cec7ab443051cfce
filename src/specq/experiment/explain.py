"""What is wrong with an experiment's values, in one line: what was given, what is allowed."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from specq.core.errors import nearest
from specq.experiment.overrides import like, typed

_LONGEST = 60
_MOST = 3
_KINDS: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text in quotes"}


def explain(error: ValidationError, model: type[BaseModel], overridden: Collection[tuple[str, ...]] = ()) -> str:
    """One line on a model's errors; from the fourth on they are counted, and show when the first are mended.

    `overridden` holds the paths that came from --set; an error at one of them says so.
    """
    # An unknown key explains a missing one beside it, so it speaks first.
    errors = sorted(error.errors(include_url=False), key=lambda item: item["type"] != "extra_forbidden")
    shown = "; also ".join(_told(item, model, overridden) for item in errors[:_MOST])
    left = len(errors) - _MOST
    return shown + (f"; and {left} more, which show when these are mended" if left > 0 else "")


def _told(item: ErrorDetails, model: type[BaseModel], overridden: Collection[tuple[str, ...]]) -> str:
    path = tuple(str(part) for part in item["loc"])
    by_set = any(path[: len(o)] == o for o in overridden)
    line = f"--set {'.'.join(path)}: {_line(item, model)}" if by_set else _line(item, model)
    if item["type"] == "tuple_type":
        return line + (f"; type {typed(path)}" if by_set else f" such as {like(path)}")
    return line


def _line(item: ErrorDetails, model: type[BaseModel]) -> str:
    loc, kind = item["loc"], item["type"]
    if kind == "value_error":
        return _in_table(loc if _is_table(model, loc) else loc[:-1]) + str(item["ctx"]["error"])
    table, key = _in_table(loc[:-1]), str(loc[-1])
    if kind == "missing":
        wanted = _allowed(_field(model, loc), ranged=False)
        return (
            f"[{key}] is missing: add the table" if wanted == "a table" else f"{table}{key} is missing: give {wanted}"
        )
    if kind == "extra_forbidden":
        known = sorted(_keys(model, loc[:-1]))
        return f"{table}{key}: unknown key{nearest(key, known) or ';'} known keys: {', '.join(known)}"
    field = _field(model, loc)
    return f"{table}{key} = {_shown(item['input'])}: allowed is {_allowed(field, ranged='_than' in kind)}"


def _in_table(loc: tuple[int | str, ...]) -> str:
    return f"[{'.'.join(map(str, loc))}] " if loc else ""


def _shown(given: Any) -> str:
    if isinstance(given, Mapping):
        return "a table"
    text = json.dumps(given, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def _bare(annotation: Any) -> Any:
    """The annotation without None."""
    if get_origin(annotation) in (Union, UnionType):
        return next(part for part in get_args(annotation) if part is not NoneType)
    return annotation


def _inner(annotation: Any) -> Any:
    """What a dict or a tuple holds; the annotation itself when it is neither."""
    origin, args = get_origin(annotation), get_args(annotation)
    return args[1] if origin is dict else args[0] if origin is tuple else annotation


def _annotation(model: type[BaseModel], loc: tuple[int | str, ...]) -> Any:
    at: Any = model
    for part in loc:
        if isinstance(at, type) and issubclass(at, BaseModel):
            if part not in at.model_fields:
                return None
            at = _bare(at.model_fields[str(part)].annotation)
        else:
            at = _inner(at)
    return at


def _is_table(model: type[BaseModel], loc: tuple[int | str, ...]) -> bool:
    at = _annotation(model, loc)
    return isinstance(at, type) and issubclass(at, BaseModel)


def _keys(model: type[BaseModel], loc: tuple[int | str, ...]) -> Collection[str]:
    at = _annotation(model, loc)
    return at.model_fields if isinstance(at, type) and issubclass(at, BaseModel) else ()


def _field(model: type[BaseModel], loc: tuple[int | str, ...]) -> FieldInfo | Any:
    owner = _annotation(model, loc[:-1])
    if isinstance(owner, type) and issubclass(owner, BaseModel):
        return owner.model_fields[str(loc[-1])]
    return _inner(owner)


def _allowed(field: FieldInfo | Any, *, ranged: bool) -> str:
    annotation = _bare(field.annotation if isinstance(field, FieldInfo) else field)
    limits = _limits(field.metadata) if isinstance(field, FieldInfo) else ""
    if ranged and limits:
        return limits
    if get_origin(annotation) is Literal:
        return ", ".join(json.dumps(word) for word in get_args(annotation))
    if get_origin(annotation) is tuple:
        return "a list"
    kind = _KINDS.get(annotation, "a table")
    return f"{kind}, {limits}" if limits else kind


def _limits(metadata: Collection[Any]) -> str:
    low = next((f"{m.ge}" if isinstance(m, Ge) else f"above {m.gt}" for m in metadata if isinstance(m, Ge | Gt)), None)
    high = next((f"{m.le}" if isinstance(m, Le) else f"below {m.lt}" for m in metadata if isinstance(m, Le | Lt)), None)
    if low is not None and high is not None:
        return f"{low} to {high}"
    if low is not None:
        return low if low.startswith("above") else f"{low} or more"
    return f"up to {high}" if high is not None else ""
