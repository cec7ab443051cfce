"""JSON Schemas: whether one is one, and what of a value does not fit it. The library jsonschema does both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

# A longer message quotes the whole value.
_SHOWN = 120


def fault(schema: Any) -> str | None:
    """Why an object is no JSON Schema, or None. Without "$schema" it is read as draft 2020-12.

    References may only point inside the schema ("#..."): nothing is ever fetched.
    """
    if not isinstance(schema, dict):
        return "is no object"
    if not schema:
        return "is empty: every JSON value fits it"
    try:
        return _fault(json.dumps(schema, sort_keys=True))
    except RecursionError:
        return "is nested too deeply"


def misfit(schema: Mapping[str, Any], value: Any) -> str | None:
    """What of a value does not fit a schema, the most telling of all faults; None when it fits.

    Raises:
        ValueError: the schema cannot be applied (a reference leads nowhere or in a circle).
    """
    from jsonschema.exceptions import best_match
    from referencing.exceptions import Unresolvable

    try:
        error = best_match(_validator(json.dumps(schema, sort_keys=True)).iter_errors(value))
    except Unresolvable as unresolved:
        raise ValueError(f"the schema's reference {unresolved.ref} leads nowhere") from unresolved
    except RecursionError as endless:
        raise ValueError("the schema or the value is nested too deeply") from endless
    if error is None:
        return None
    place = "" if error.json_path == "$" else f"{error.json_path.removeprefix('$.')}: "
    return f"{place}{_short(error.message)}"


@lru_cache(maxsize=256)
def _fault(text: str) -> str | None:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    schema = json.loads(text)
    if "$schema" in schema and validator_for(schema, default=None) is None:
        return f'names an unknown draft, "$schema": {_short(json.dumps(schema["$schema"]))}'
    if outside := next((ref for ref in _references(schema) if not ref.startswith("#")), None):
        return f'refers to "{outside}": allowed are references inside it, from # on'
    validator = _validator(text)
    try:
        validator.check_schema(schema, format_checker=type(validator).FORMAT_CHECKER)
    except SchemaError as error:
        place = ".".join(map(str, error.absolute_path))
        return f"is none{f' at {place}' if place else ''}: {_short(error.message)}"
    resolver = Registry().resolver_with_root(Resource.from_contents(schema, default_specification=DRAFT202012))
    for ref in _references(schema):
        try:
            resolver.lookup(ref)
        except Unresolvable:
            return f'refers to "{ref}", which is not in it'
    return None


@lru_cache(maxsize=256)
def _validator(text: str) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    schema = json.loads(text)
    kind = validator_for(schema, default=Draft202012Validator)
    # A registry of its own: the default one would fetch what a reference names.
    return kind(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inside in value.items():
            if key in ("$ref", "$dynamicRef") and isinstance(inside, str):
                yield inside
            elif key not in ("const", "enum", "default", "examples"):
                yield from _references(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from _references(inside)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
