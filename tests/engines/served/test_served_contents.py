"""What events of each API say, and what is no event of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specq.engines.served.contents import Content, Malformed, read


def said(**told: Any) -> Content:
    return read(json.dumps(told).encode())


def choice(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, **fields}]}


def test_text_of_an_openai_event_is_not_found() -> None:
    assert said(**choice(delta={"content": "a"})).text == "a"
    assert said(**choice(text="a", token_ids=[1, 2])).ids == (1, 2)
    assert said(**choice(message={"content": "a"}, finish_reason="stop")).finish == "stop"
    assert said(**choice(delta={"reasoning_content": "r"})).reasoning == "r"
    assert said(**choice(delta={"reasoning": "r"})).reasoning == "r"
    calls = [{"index": 0, "function": {"name": "f", "arguments": '{"x'}}, {"index": 1, "function": {"arguments": "y"}}]
    assert said(**choice(delta={"tool_calls": calls})).calls == 'f{"xy'


@pytest.mark.parametrize("delta", [{"role": "assistant", "content": ""}, {"content": None}, {}, None])
def test_an_event_without_output_is_taken_for_the_first_token(delta: Any) -> None:
    content = said(**choice(delta=delta, finish_reason=None))
    assert not content.says
    assert content.finish is None


def test_an_empty_finish_is_taken_for_the_end() -> None:
    assert said(**choice(text="a", finish_reason="")).finish is None


def test_numbers_of_the_server_are_lost() -> None:
    usage = {"completion_tokens": 3}
    content = said(choices=[], usage=usage, timings={"predicted_n": 3}, metrics={"queue_time_ms": 1.5}, model="m")
    assert content.usage == usage
    assert content.server == {"timings": {"predicted_n": 3}, "metrics": {"queue_time_ms": 1.5}, "model": "m"}
    assert content.total is None
    assert said(**choice(text="a", stop_reason=7)).server == {"stop_reason": 7}
    last = said(response="", done=True, done_reason="stop", eval_count=9, context=[1, 2], total_duration=5)
    assert last.server == {"done_reason": "stop", "eval_count": 9, "total_duration": 5}
    assert (last.total, last.finish, last.ends) == (9, "stop", True)


def test_a_running_count_is_not_read() -> None:
    assert said(**choice(text="ab"), usage={"completion_tokens": 7}).total == 7
    assert said(content="a", stop=False, tokens_predicted=7, tokens=[5]).total == 7
    assert said(text="a", output_ids=[1], meta_info={"completion_tokens": 1, "finish_reason": None}).total == 1


def test_the_end_of_a_llamacpp_stream_is_not_seen() -> None:
    content = said(content="", stop=True, stop_type="eos", tokens_predicted=3, timings={"prompt_n": 1}, prompt="secret")
    assert (content.finish, content.ends, content.server["timings"]) == ("eos", True, {"prompt_n": 1})
    assert "prompt" not in content.server


def test_a_number_that_is_no_json_is_kept_as_one() -> None:
    content = read(b'{"choices":[],"timings":{"predicted_ms":NaN,"prompt_ms":-Infinity}}')
    assert content.server == {"timings": {"predicted_ms": "NaN", "prompt_ms": "-Infinity"}}


@pytest.mark.parametrize(
    "told",
    [
        {"error": {"message": "x", "code": 500}},
        {"error": "x"},
        {"object": "error", "message": "x"},
        {"code": 503, "message": "x", "type": "unavailable_error"},
        {"text": "", "meta_info": {"finish_reason": {"type": "abort", "message": "x", "status_code": 503}}},
    ],
)
def test_a_failure_is_read_as_an_answer(told: dict[str, Any]) -> None:
    assert said(**told).refused is not None


def test_an_event_of_no_known_api_is_read_as_one() -> None:
    assert not said(type="ping").known
    assert said(error=None, choices=[]).known


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{", "not JSON"),
        (b'{"choices": [\xff]}', "not UTF-8 at byte 13"),
        (b"[1]", "no object: list"),
        (b"[" * 100_000, "not JSON"),
        (b'{"choices": {}}', "choices is no list"),
        (b'{"choices": [1]}', "choices is no list of objects"),
        (b'{"choices": [{}, {}]}', "more than one answer; ask for n = 1"),
        (b'{"choices": [{"index": 1}]}', "more than one answer; ask for n = 1"),
        (b'{"choices": [{"delta": []}]}', "delta is no object"),
        (b'{"choices": [{"text": 5}]}', "text is no text"),
        (b'{"choices": [{"token_ids": [1.5]}]}', "token_ids is no list of token ids"),
        (b'{"choices": [{"token_ids": [true]}]}', "token_ids is no list of token ids"),
        (b'{"choices": [{}], "usage": {"completion_tokens": -1}}', "completion_tokens is no count"),
        (b'{"choices": [{}], "usage": 3}', "usage is no object"),
        (b'{"choices": [{"delta": {"tool_calls": 1}}]}', "tool_calls is no list of objects"),
    ],
)
def test_a_malformed_event_is_read(data: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        read(data)
