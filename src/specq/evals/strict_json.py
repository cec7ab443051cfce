"""JSON without what readers let pass in silence: a key twice in one object, NaN, infinities, half characters."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, Literal, NoReturn

import regex

Where = Literal["whole", "fenced", "anywhere"]

_FENCE = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\n(.*?)\n?[ \t]*```", re.S)
# Beyond this an answer is no answer, and looking for objects in it would take long.
_PLACES = 100
_SURROGATE = regex.compile(r"\p{Cs}")


def read(text: str) -> Any:
    """The JSON value of a text.

    Raises:
        ValueError: in one sentence, why it is none.
    """
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise ValueError("half of a surrogate pair, which is no text; write the whole character")
    return value


def find(output: str, where: Where) -> Any:
    """The JSON value in a model's answer.

    "whole": the answer and nothing else. "fenced": that, or the one block between ``` in it, whatever stands around.
    "anywhere": that, or the first JSON object that begins anywhere.

    Raises:
        ValueError: in one sentence, why there is none.
    """
    text = output.strip()
    if not text:
        raise ValueError("empty answer")
    blocks = [] if where == "whole" else _FENCE.findall(text)
    if len(blocks) > 1 and where == "fenced":
        raise ValueError(f"{len(blocks)} fenced blocks, one is allowed")
    try:
        return read(blocks[0] if blocks else text)
    except ValueError:
        if where != "anywhere":
            raise
    return _first_object(text)


def _first_object(text: str) -> Any:
    decoder = json.JSONDecoder()
    for match in islice(re.finditer(r"\{", text), _PLACES):
        try:
            _, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        return read(text[match.start() : end])
    raise ValueError("no JSON object in it")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Readers keep the last of two values, and the first may be the one that was meant.
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for i, key in enumerate(keys) if key in keys[:i])
        raise ValueError(f'key "{twice}" stands twice in one object; keep one')
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{digits[:20]} is too large a number")
    return value
