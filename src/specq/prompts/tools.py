"""Stale tool output: the result of a call that was made again later with the same arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specq.prompts.work import Edit, Piece, Work

_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>\s*", re.DOTALL)
_RESPONSE = re.compile(r"<tool_response>.*?</tool_response>\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A call and its result: what was asked, and where both stand. A call of a text has a span, else an id."""

    asked: str
    of: int
    result: int
    id: str = ""
    span: tuple[int, int] = (0, 0)
    result_span: tuple[int, int] = (0, 0)


def stale(work: Work) -> Iterator[Edit]:
    """Results that a later one of the same call replaces, each with its call.

    A call is a `tool_calls` entry that a message of role tool answers by its id, or a `<tool_call>` that a
    `<tool_response>` answers in their order, as the Hermes and Qwen templates write them. A result without a known call
    stays, for nothing tells that a later one is of the same.
    """
    open_places = {place for place, _ in work.open_parts()}
    for told in (list(_by_id(work)), list(_by_order(work))):
        last = {call.asked: i for i, call in enumerate(told)}
        for i, call in enumerate(told):
            if last[call.asked] > i and {call.of, call.result} <= open_places:
                yield _edit(work, call)


def _by_id(work: Work) -> Iterator[_Call]:
    results = {
        part.message["tool_call_id"]: place
        for place, part in work.open_parts()
        if part.role == "tool" and isinstance(part.message.get("tool_call_id"), str)
    }
    for place, part in work.open_parts():
        for call in part.calls:
            ident, asked = call.get("id"), _asked(call.get("function"))
            if isinstance(ident, str) and ident in results and asked is not None:
                yield _Call(asked=asked, of=place, result=results[ident], id=ident)


def _by_order(work: Work) -> Iterator[_Call]:
    calls, results = [], []
    for place, part in work.open_parts():
        if part.role == "assistant":
            calls += [(place, match) for match in _CALL.finditer(part.text)]
        elif part.role in ("user", "tool"):
            results += [(place, match) for match in _RESPONSE.finditer(part.text)]
    if len(calls) != len(results):
        return
    for (place, call), (answered, result) in zip(calls, results, strict=True):
        try:
            asked = _asked(json.loads(call[1]))
        except ValueError:
            continue
        if asked is not None and answered > place:
            yield _Call(asked=asked, of=place, result=answered, span=call.span(), result_span=result.span())


def _asked(function: Any) -> str | None:
    """One text for one call: its name and its arguments, whatever the order of their keys."""
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return None
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            return json.dumps([function["name"], arguments])
    return json.dumps([function["name"], arguments], sort_keys=True)


def _edit(work: Work, call: _Call) -> Edit:
    asking, answer = work.parts[call.of], work.parts[call.result]
    whole = []
    if call.id:
        pieces = [Piece(part=call.result, start=0, end=len(answer.text))]
        whole.append(call.result)
        if len(asking.calls) == 1 and not asking.text.strip():
            whole.append(call.of)
        calls: tuple[tuple[int, str], ...] = ((call.of, call.id),)
    else:
        spans = {call.of: call.span, call.result: call.result_span}
        pieces = [Piece(part=place, start=start, end=end) for place, (start, end) in spans.items()]
        for place, (start, end) in spans.items():
            text = work.parts[place].text
            if not (text[:start] + text[end:]).strip():
                whole.append(place)
        calls = ()
    return Edit(reason="stale tool output", pieces=tuple(pieces), whole=tuple(whole), calls=calls)
