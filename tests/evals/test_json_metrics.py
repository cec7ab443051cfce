"""JSON against a schema, and tool calls: what counts, and in which shapes an answer may come."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from eval_items import misfit, score, value

from specq.evals import schemas, strict_json

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1}, "day": {"type": "string", "format": "date"}},
    "required": ["n"],
    "additionalProperties": False,
}
CALL = {"name": "get_weather", "arguments": {"city": "Ankara", "days": 3}}


@pytest.mark.parametrize(
    ("answer", "right", "says"),
    [
        ('{"n": 1}', 1, ""),
        (' {"n": 1, "day": "2024-03-05"}\n', 1, ""),
        ('{"n": 0}', 0, "n: 0 is less than the minimum of 1"),
        ('{"n": "1"}', 0, "n: '1' is not of type 'integer'"),
        ("{}", 0, "'n' is a required property"),
        ('{"n": 1, "m": 2}', 0, "Additional properties are not allowed"),
        ('{"n": 1, "day": "2024-13-05"}', 0, "is not a 'date'"),
        ('{"n": 1', 0, "not JSON: "),
        ("", 0, "not JSON: empty answer"),
        ('{"n": NaN}', 0, "not JSON: NaN is no JSON number"),
        ('{"n": 0, "n": 1}', 0, 'not JSON: key "n" stands twice'),
        ('{"n": 1} done', 0, "not JSON: "),
        ('```json\n{"n": 1}\n```', 0, "not JSON: "),
        ("[" * 100_000, 0, "not JSON: nested too deeply"),
    ],
)
def test_json_that_does_not_fit_its_schema_is_right(answer: str, right: int, says: str) -> None:
    found = score("json_schema", None, answer, schema=SCHEMA)
    assert found.value == right
    assert says in found.why
    assert len(found.why) < 200


@pytest.mark.parametrize(
    ("answer", "whole", "fenced", "anywhere"),
    [
        ('{"n": 1}', 1, 1, 1),
        ('```json\n{"n": 1}\n```', 0, 1, 1),
        ('Here:\n```\n{"n": 1}\n```\nDone.', 0, 1, 1),
        ('It is {"n": 1}.', 0, 0, 1),
        ('{x} {"n": 1}', 0, 0, 1),
        ('```\n{"n": 1}\n```\n```\n{"n": 1}\n```', 0, 0, 1),
        ('It is {"n": 1, "n": 2}.', 0, 0, 0),
        ("It is {n: 1}.", 0, 0, 0),
    ],
)
def test_json_is_taken_from_where_it_may_not_stand(answer: str, whole: int, fenced: int, anywhere: int) -> None:
    for where, right in (("whole", whole), ("fenced", fenced), ("anywhere", anywhere)):
        assert value("json_schema", None, answer, {"where": where}, schema=SCHEMA) == right, where


def test_an_answer_full_of_braces_takes_long() -> None:
    with pytest.raises(ValueError, match="no JSON object in it"):
        strict_json.find("{" * 1_000_000, "anywhere")


def test_a_schema_without_end_or_from_the_network_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[Any] = []

    def connect(_: Any, address: Any) -> None:
        reached.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket.socket, "connect", connect)
    found = score("json_schema", None, '{"a": 1}', schema={"$ref": "#"})
    assert found.failed
    assert "nested too deeply" in found.why
    with pytest.raises(ValueError, match="leads nowhere"):
        schemas.misfit({"$ref": "http://127.0.0.1/schema.json"}, 1)
    assert reached == []
    assert misfit("json_schema", "x") == "there is no schema"


@pytest.mark.parametrize(
    "answer",
    [
        '{"name": "get_weather", "arguments": {"city": "Ankara", "days": 3}}',
        '{"arguments": {"days": 3.0, "city": "Ankara"}, "name": "get_weather"}',
        '[{"name": "get_weather", "parameters": {"city": "Ankara", "days": 3}}]',
        '{"id": "1", "type": "function", "function": '
        + json.dumps({**CALL, "arguments": json.dumps(CALL["arguments"])})
        + "}",
        '{"tool_calls": [{"function": ' + json.dumps(CALL) + "}]}",
        "Sure.\n<tool_call>\n" + json.dumps(CALL) + "\n</tool_call>",
        "```json\n" + json.dumps(CALL) + "\n```",
    ],
)
def test_a_right_call_in_another_shape_is_wrong(answer: str) -> None:
    assert value("tool_call", CALL, answer) == 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"name": "get_wether", "arguments": CALL["arguments"]}, 'calls "get_wether" for "get_weather"'),
        ({"name": "get_weather", "arguments": {"city": "Ankara", "days": 4}}, "arguments differ: days"),
        ({"name": "get_weather", "arguments": {"city": "ankara", "days": 3}}, "arguments differ: city"),
        ({"name": "get_weather", "arguments": {"city": "Ankara", "days": "3"}}, "arguments differ: days"),
        ({"name": "get_weather", "arguments": {"city": "Ankara"}}, "arguments differ: days"),
        ({"name": "get_weather", "arguments": {"city": "Ankara", "days": 3, "x": None}}, "arguments differ: x"),
        ([CALL, CALL], "2 calls for 1"),
        ([], "0 calls for 1"),
        ({"name": "get_weather"}, "no tool call: arguments are no object"),
        ({"arguments": {}}, "no tool call: no name"),
        ("get_weather", "no tool call: no name"),
    ],
)
def test_a_wrong_call_is_right(answer: Any, says: str) -> None:
    found = score("tool_call", CALL, json.dumps(answer))
    assert (found.value, found.why) == (0, says)


def test_true_is_taken_for_1_or_the_order_of_calls_counts() -> None:
    call = {"name": "f", "arguments": {"x": 1, "y": [{"z": 2.0}]}}
    assert value("tool_call", call, '{"name": "f", "arguments": {"y": [{"z": 2}], "x": 1}}') == 1
    assert value("tool_call", call, '{"name": "f", "arguments": {"y": [{"z": 2}], "x": true}}') == 0
    two = {"calls": [CALL, call]}
    assert value("tool_call", two, json.dumps([call, CALL])) == 1
    assert value("tool_call", two, json.dumps([call, call])) == 0
    assert value("tool_call", two, json.dumps([call])) == 0


def test_a_reference_that_is_no_call_fits() -> None:
    for reference in ("f", {"name": "f"}, {"name": "f", "arguments": {}, "x": 1}, {"calls": []}, {"calls": ["f"]}):
        assert "the reference is no tool call" in misfit("tool_call", reference)
    assert "arguments are no object" in misfit("tool_call", {"name": "f", "arguments": [1]})
    assert misfit("tool_call", {"name": "f", "arguments": {}}) == ""
