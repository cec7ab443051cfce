"""Metrics that read an answer as JSON: json_schema and tool_call."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import regex

from specq.evals import schemas, strict_json
from specq.evals.items import Item
from specq.evals.metric import RIGHT, Score, failed, quoted, wrong
from specq.evals.options import Options

_TAGGED = regex.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", regex.S)
_NAMES = ("name", "arguments")


class JsonSchema(Options):
    """Options of json_schema: where in the answer the JSON may stand."""

    where: strict_json.Where = "whole"


class ToolCall(Options):
    """Options of tool_call."""

    where: strict_json.Where = "fenced"


def schema_misfit(options: JsonSchema, item: Item) -> str | None:
    """Why an item has no schema."""
    return None if item.schema is not None else "there is no schema"


def json_schema(options: JsonSchema, item: Item, answer: str) -> Score:
    """1 where the answer is JSON that fits the item's schema."""
    assert item.schema is not None
    try:
        value = strict_json.find(answer, options.where)
    except ValueError as error:
        return wrong(f"not JSON: {error}")
    try:
        why = schemas.misfit(item.schema, value)
    except ValueError as error:
        return failed(str(error))
    return wrong(why) if why else RIGHT


def call_misfit(options: ToolCall, item: Item) -> str | None:
    """Why a reference is no call: an object with name and arguments, or with `calls`, a list of such objects."""
    try:
        _wanted(item.reference)
    except ValueError as error:
        return f"the reference is no tool call ({error}); allowed is an object with name and arguments"
    return None


def tool_call(options: ToolCall, item: Item, answer: str) -> Score:
    """1 where the answer calls what the reference calls, with the same arguments, and nothing else.

    Neither the order of arguments nor that of calls counts; values count with their JSON type, 5 and 5.0 are equal.
    """
    try:
        given = _calls(_parsed(answer, options.where))
    except ValueError as error:
        return wrong(f"no tool call: {error}")
    wanted = _wanted(item.reference)
    if Counter(map(_key, given)) == Counter(map(_key, wanted)):
        return RIGHT
    if len(given) != len(wanted):
        return wrong(f"{len(given)} calls for {len(wanted)}")
    if sorted(name for name, _ in given) != sorted(name for name, _ in wanted):
        names = [", ".join(name for name, _ in calls) for calls in (given, wanted)]
        return wrong(f"calls {quoted(names[0])} for {quoted(names[1])}")
    return wrong(_difference(given, wanted))


Call = tuple[str, dict[str, Any]]


def _wanted(reference: Any) -> list[Call]:
    if not isinstance(reference, dict):
        raise ValueError("it is no object")
    calls = reference["calls"] if set(reference) == {"calls"} else [reference]
    if not isinstance(calls, list) or not calls:
        raise ValueError("calls is no list, or empty")
    for call in calls:
        if not isinstance(call, dict) or set(call) != set(_NAMES):
            raise ValueError("keys other than name and arguments")
    return _calls(calls)


def _parsed(answer: str, where: strict_json.Where) -> Any:
    if tagged := _TAGGED.findall(answer):
        return [strict_json.read(text) for text in tagged]
    return strict_json.find(answer, where)


def _calls(value: Any) -> list[Call]:
    """The calls of an answer, in the shapes that models and servers write them in."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    return [_call(one) for one in (value if isinstance(value, list) else [value])]


def _call(value: Any) -> Call:
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        raise ValueError("no name")
    arguments = value.get("arguments", value.get("parameters"))
    # Some servers write the arguments as JSON within JSON.
    if isinstance(arguments, str):
        arguments = strict_json.read(arguments)
    if not isinstance(arguments, dict):
        raise ValueError("arguments are no object")
    return value["name"], arguments


def _key(call: Call) -> str:
    return json.dumps([call[0], plain(call[1])], sort_keys=True)


def plain(value: Any) -> Any:
    """A JSON value with whole floats as integers, so that 5.0 is 5; true stays apart from 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: plain(inside) for key, inside in value.items()}
    return [plain(inside) for inside in value] if isinstance(value, list) else value


def _difference(given: list[Call], wanted: list[Call]) -> str:
    left, right = sorted(map(_key, given)), sorted(map(_key, wanted))
    got, meant = next((json.loads(a), json.loads(b)) for a, b in zip(left, right, strict=True) if a != b)
    keys = [key for key in {**meant[1], **got[1]} if json.dumps(meant[1].get(key)) != json.dumps(got[1].get(key))]
    keys = keys or [key for key in {**meant[1], **got[1]} if (key in meant[1]) is not (key in got[1])]
    return f"arguments differ: {', '.join(keys[:5])}"
