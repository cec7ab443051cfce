from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
import workload_files as files

from specq.core.errors import PromptError
from specq.workloads import describe

IMAGE = {"type": "image_url", "image_url": {"url": "data:"}}
TEXT = {"type": "text", "text": "what is this?"}
WRONG: dict[str, Any] = {
    "a message without text": files.body(" "),
    "a message with an unknown role": {"messages": [{"role": "narrator", "content": "x"}]},
    "content of type image_url, which is no text": {"messages": [{"role": "user", "content": [TEXT, IMAGE]}]},
    "messages is empty or no list": {"model": "m", "messages": []},
    "a message that is no object": {"messages": ["x"]},
    "prompt is a list of token ids; a text is needed": {"model": "m", "prompt": [1, 2, 3]},
    "prompt is a list of several prompts; a text is needed": {"model": "m", "prompt": ["a", "b"]},
    "no messages, prompt or input in it": {"model": "m", "usage": {}},
    "answers and nothing that was asked": {"messages": [{"role": "assistant", "content": "x"}]},
    "no whole JSON (Expecting property name enclosed in double quotes)": "{broken",
    "a list and no JSON object": "[1]",
    "NaN is no JSON number": '{"model": "m", "prompt": "x", "temperature": NaN}',
    "a key stands twice in one object": '{"prompt": "x", "prompt": "y"}',
    "half of a surrogate pair, which is no text": '{"model": "m", "prompt": "\\ud83d"}',
}


def test_a_row_is_dropped_without_its_reason_or_its_line(tmp_path: Path) -> None:
    good = files.body("hello")
    path = files.lines(tmp_path / "a.jsonl", good, *WRONG.values(), good, WRONG["a message without text"])
    found = files.read(path)
    told = {one.reason: one.lines for one in found.dropped}
    expected = {reason: (place,) for place, reason in enumerate(WRONG, start=2)}
    last = len(WRONG) + 3
    assert told == {**expected, "a message without text": (2, last)}
    assert [one.line for one in found.requests] == [1, last - 1]
    assert found.counts.rows == last


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (files.talk(), "a conversation without a question"),
        ({"conversations": [{"from": "gpt", "value": "x"}]}, "a conversation without a question"),
        (
            {"conversations": [{"from": "gpt", "value": "x"}, {"from": "human", "value": "y"}]},
            "a conversation that begins with an answer",
        ),
        (files.talk(" "), "a turn without text"),
        ({"conversations": [{"from": "bot9", "value": "x"}]}, "a turn of an unknown speaker; known are human, gpt and"),
    ],
)
def test_a_broken_conversation_is_taken(row: dict[str, Any], reason: str, tmp_path: Path) -> None:
    (dropped,) = files.read(files.lines(tmp_path / "s.jsonl", files.talk("good"), row)).dropped
    assert dropped.reason.startswith(reason)


def test_a_file_of_nothing_but_dropped_rows_is_an_empty_workload(tmp_path: Path) -> None:
    path = files.lines(tmp_path / "a.jsonl", *[files.body(" ")] * 3)
    with pytest.raises(PromptError, match=r"no prompt .* taken as openai: a message without text \(3, first in line 1"):
        files.read(path)


def test_bytes_that_are_no_text_stop_the_file_or_pass(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"model": "m", "prompt": "good"}\n{"model": "m", "prompt": "caf\xe9"}\n')
    found = files.read(path)
    assert [(one.reason, one.lines) for one in found.dropped] == [("not UTF-8 text", (2,))]


def test_a_missing_or_an_empty_file_is_an_internal_error(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="no such file; give a file of prompts"):
        files.read(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n \n")
    with pytest.raises(PromptError, match="the file is empty"):
        files.read(tmp_path / "empty.jsonl")
    with pytest.raises(PromptError, match=r"cannot be read \(Is a directory"):
        files.read(tmp_path)


def test_an_answer_at_the_end_is_asked_again_or_lost_uncounted(tmp_path: Path) -> None:
    found = files.read(files.lines(tmp_path / "a.jsonl", files.body("q", "a"), files.body("q", "a", "r")))
    assert [len(one.messages) for one in found.requests] == [1, 3]
    assert found.counts.answers == 1


def test_tools_and_their_results_are_lost_or_pass_for_specqs_own(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f"}}]}
    result = {"role": "tool", "tool_call_id": "1", "content": "42"}
    asked = {"role": "user", "content": "q"}
    rows = [{"model": "m", "tools": tools, "messages": [asked]}, {"model": "m", "messages": [asked, call, result]}]
    first, second = files.read(files.lines(tmp_path / "a.jsonl", *rows)).requests
    assert first.tools == '[{"type":"function","function":{"name":"f"}}]'
    assert [message["role"] for message in second.messages] == ["user", "assistant", "tool"]
    assert '"name":"f"' in second.messages[1]["content"]
    assert first.foreign
    assert second.foreign


def test_one_id_names_two_prompts(tmp_path: Path) -> None:
    rows = [{"custom_id": name, "body": files.body(str(n))} for n, name in enumerate(["a", "a", "a-2", "a", "b"])]
    found = files.read(files.lines(tmp_path / "a.jsonl", *rows, {"body": files.body("6")}))
    idents = [one.id for one in found.requests]
    assert len(set(idents)) == 6
    assert idents[0] == "a"
    assert idents[2] == "a-2"
    assert idents[-1] == "line-6"
    assert found.counts.renamed == 2


def test_a_prompt_that_stands_twice_is_not_counted(tmp_path: Path) -> None:
    rows = [
        files.body("x"),
        files.body("y"),
        files.body("x"),
        files.body("x", temperature=1),
        files.body("x", tools=[1]),
    ]
    made = describe.describe(files.read(files.lines(tmp_path / "a.jsonl", *rows)))
    assert made.duplicates == (("line-1", "line-3", "line-4"),)
    assert made.repeats == 2


def test_tags_users_and_usage_of_a_log_are_lost(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}}
    row = {"id": "r", "body": files.body("x", user="u1", metadata={"app": "mail"}), "response": {"usage": usage}}
    other = {"usage": {"input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": 2}, **files.body("y")}
    first, second = files.read(files.lines(tmp_path / "a.jsonl", row, other), tag="metadata.app").requests
    assert (first.tags, first.user) == (("mail",), "u1")
    assert (first.prompt_tokens, first.cached_tokens, first.output_tokens) == (12, 8, 3)
    # What Anthropic calls input tokens are those that no cache gave.
    assert (second.prompt_tokens, second.cached_tokens, second.output_tokens) == (25, 20, 2)


WHOLE = "".join(f"{json.dumps(files.body(text, tags=[text]))}\n" for text in ("one", "tw\u00f6", "three"))
ODD = {
    "a.gz": (gzip.compress(b'{"prompt": "x"}\n'), "no UTF-8 text; unpack it"),
    "utf16": ('{"model": "m", "prompt": "x"}\n'.encode("utf-16"), "no UTF-8 text; .* save it as UTF-8"),
    "zeros": (b"\0" * 100, "no UTF-8 text"),
    "twice.csv": (b"timestamp,timestamp\n1.5,2.5\n", ":1: a heading stands twice"),
    "head.csv": (b"timestamp,prompt_tokens\n", "no rows"),
}


@pytest.mark.parametrize("name", ODD)
def test_a_file_that_is_no_text_or_no_table_is_called_plain_text(name: str, tmp_path: Path) -> None:
    data, told = ODD[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(PromptError, match=told):
        files.read(tmp_path / name)


def test_a_pipe_loses_the_rows_that_told_its_format(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b'{"model": "m", "prompt": "x"}\n')
    os.close(write)
    try:
        with pytest.raises(PromptError, match="a pipe or a device, which cannot be read twice; save it as a file"):
            files.read(Path(f"/dev/fd/{read}"))
    finally:
        os.close(read)


@pytest.mark.parametrize("data", [WHOLE, json.dumps([json.loads(one) for one in WHOLE.splitlines()], indent=1)])
def test_a_file_that_is_cut_somewhere_stops_with_no_word_or_makes_up_a_prompt(data: str, tmp_path: Path) -> None:
    path, whole = tmp_path / "a.jsonl", data.encode()
    path.write_bytes(whole)
    every = [one.messages for one in files.read(path).requests]
    taken = set()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        try:
            found = files.read(path)
        except PromptError:
            continue
        assert [one.messages for one in found.requests] == every[: len(found.requests)]
        taken.add(len(found.requests))
        assert found.counts.rows == len(found.requests) + sum(len(one.lines) for one in found.dropped)
    assert taken <= {0, 1, 2, 3}


def test_a_number_that_python_does_not_read_tells_its_digits(tmp_path: Path) -> None:
    rows = [f'{{"model": "m", "prompt": "x", "created": {"9" * digits}}}' for digits in (5000, 6000)]
    found = files.read(files.lines(tmp_path / "a.jsonl", *rows, files.body("y")))
    assert [(one.reason, one.lines) for one in found.dropped] == [("a number of too many digits", (1, 2))]
