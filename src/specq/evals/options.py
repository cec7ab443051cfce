"""Options of a metric, as they come from TOML: known keys, right types, defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from specq.core.errors import ConfigError, nearest


class Options(BaseModel):
    """Options of one metric: frozen, no unknown keys, no silent conversions, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


T = TypeVar("T", bound=Options)


def read(kind: type[T], given: Mapping[str, Any], metric: str) -> T:
    """The options of a metric, defaults filled in.

    Raises:
        ConfigError: an unknown option, named with the nearest known one, or a value that is not allowed.
    """
    known = tuple(kind.model_fields)
    for key in given:
        if key not in known:
            allowed = f"its options: {', '.join(known)}" if known else "it has none"
            raise ConfigError(f'metric "{metric}": unknown option "{key}"{nearest(str(key), known) or ";"} {allowed}')
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = str(first["loc"][0]) if first["loc"] else ""
        words = get_args(kind.model_fields[key].annotation) if key else ()
        if words and all(isinstance(word, str) for word in words):
            close = nearest(first["input"], words) if isinstance(first["input"], str) else ""
            allowed = f"{close or ';'} allowed: {', '.join(words)}"
        else:
            allowed = f": {first['msg'].removeprefix('Value error, ').lower()}"
        raise ConfigError(f'metric "{metric}": {key} = {first["input"]!r}{allowed}') from error
