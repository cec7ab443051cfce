from __future__ import annotations

import json
from pathlib import Path

import pytest
import workload_files as files

from specq.core.errors import ConfigError, PromptError
from specq.experiment import prompts
from specq.workloads import formats

OWN = {"id": "a", "prompt": "one", "tags": ["x"]}
QUESTION = {"question_id": 81, "category": "writing", "turns": ["Write.", "Again."]}
ROWS = {
    "specq": OWN,
    "spec-bench": QUESTION,
    "sharegpt": files.talk("hello", "hi", id="c"),
    "openai": files.body("hello"),
    "trace": {"timestamp": 12000, "input_length": 100, "output_length": 5},
}


@pytest.mark.parametrize("name", ROWS)
def test_a_format_is_taken_for_another(name: str, tmp_path: Path) -> None:
    found = files.read(files.lines(tmp_path / "a.jsonl", ROWS[name], {**ROWS[name], "id": "b"}))
    assert found.format == name
    assert len(found.requests) == 2 - (name == "spec-bench")


@pytest.mark.parametrize(
    "row",
    [
        {"custom_id": "r1", "method": "POST", "url": "/v1/chat/completions", "body": files.body("hello")},
        {"request": files.body("hello"), "response": {"choices": []}},
        {"request": json.dumps(files.body("hello"))},
        {"messages": [{"role": "user", "content": "hello"}]},
        {"id": "a", "prompt_note": "an evaluation set's", "messages": [{"role": "user", "content": "hello"}]},
        {"model": "m", "input": "hello"},
        {"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}]},
        {"body": {"model": "m", "system": "", "messages": [{"role": "user", "content": "hello"}]}},
    ],
)
def test_a_request_is_lost_in_what_wraps_it(row: dict[str, object], tmp_path: Path) -> None:
    (one,) = files.read(files.lines(tmp_path / "a.jsonl", row)).requests
    assert one.messages == ({"role": "user", "content": "hello"},)


def test_two_formats_fit_and_one_is_guessed(tmp_path: Path) -> None:
    both = {**files.body("hello"), **files.talk("hi")}
    path = files.lines(tmp_path / "a.jsonl", "{broken", both)
    with pytest.raises(PromptError, match=r"a\.jsonl:2: the row fits sharegpt and openai; .*--format sharegpt or --"):
        files.read(path)
    assert files.read(path, format="sharegpt").requests[0].messages[0]["content"] == "hi"
    assert files.read(path, format="openai").requests[0].messages[0]["content"] == "hello"


def test_a_mixed_file_is_read_in_part_without_a_word(tmp_path: Path) -> None:
    path = files.lines(tmp_path / "a.jsonl", files.talk("hi"), files.talk("ho"), files.body("hello"))
    with pytest.raises(PromptError, match=r"2 of sharegpt and 1 of openai; say which .*--format sharegpt"):
        files.read(path)
    found = files.read(path, format="sharegpt")
    assert [(one.reason, one.lines) for one in found.dropped] == [("no conversations in it", (3,))]


def test_an_unknown_format_is_called_broken_or_named_without_what_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"line 1 has answer, question; allowed formats are specq, spec-bench"):
        files.read(files.lines(tmp_path / "a.jsonl", {"question": "x", "answer": "y"}))
    with pytest.raises(PromptError, match=r"no row of it is a JSON object \(line 1: no whole JSON"):
        files.read(files.lines(tmp_path / "b.jsonl", "{broken"))
    with pytest.raises(ConfigError, match=r"format sharegtp, did you mean 'sharegpt'\? allowed: auto, specq"):
        files.read(tmp_path / "a.jsonl", format="sharegtp")


def test_own_rows_are_read_by_another_parser_than_an_experiments(tmp_path: Path) -> None:
    chat = {"id": 7, "messages": [{"role": "system", "content": ""}, {"role": "user", "content": "x\u2028y"}]}
    path = files.lines(tmp_path / "a.jsonl", OWN, chat)
    items = prompts.load(path)
    found = files.read(path).requests
    assert [(one.id, one.messages, one.prompt, one.tags) for one in found] == [
        (item.id, item.messages, item.prompt, item.tags) for item in items
    ]
    wrong = files.lines(tmp_path / "b.jsonl", OWN, {"id": "b", "prompt": "x", "tags": "y"})
    with pytest.raises(PromptError) as refused:
        prompts.load(wrong)
    (dropped,) = files.read(wrong).dropped
    assert str(refused.value) == f"{wrong}:2: {dropped.reason}"


def test_only_the_first_turn_of_a_question_counts_and_the_others_vanish(tmp_path: Path) -> None:
    found = files.read(files.lines(tmp_path / "q.jsonl", QUESTION))
    assert [(one.id, one.tags, one.messages[0]["content"]) for one in found.requests] == [
        ("81", ("writing",), "Write.")
    ]
    assert found.counts.later_turns == 1


def test_a_conversation_loses_a_turn_or_asks_with_what_came_after(tmp_path: Path) -> None:
    path = files.lines(tmp_path / "s.json", files.talk("a", "b", "c", "d", "e", id="t"))
    first = files.read(path)
    assert [len(one.messages) for one in first.requests] == [1]
    assert first.counts.later_turns == 2
    each = files.read(path, turns="each")
    assert [(one.id, one.messages[-1]["content"], len(one.messages)) for one in each.requests] == [
        ("t#1", "a", 1),
        ("t#2", "c", 3),
        ("t#3", "e", 5),
    ]
    assert {one.user for one in each.requests} == {"t"}


def test_two_turns_of_a_user_in_a_row_are_two_requests(tmp_path: Path) -> None:
    row = {"conversations": [{"from": "human", "value": text} for text in ("a", "b")] + [{"from": "gpt", "value": "c"}]}
    (one,) = files.read(files.lines(tmp_path / "s.jsonl", row), turns="each").requests
    assert [message["content"] for message in one.messages] == ["a", "b"]


def test_a_list_in_one_document_is_no_file_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text in (
        json.dumps([files.talk("a"), files.talk("b")]),
        json.dumps([files.talk("a"), files.talk("b")], indent=1),
    ):
        path.write_text(text)
        assert [one.line for one in files.read(path).requests] == [1, 2]
    path.write_text(json.dumps([files.talk("a")])[:-3])
    with pytest.raises(PromptError, match=r"line 1: no whole JSON"):
        files.read(path)


def test_a_format_stands_in_the_code_and_not_in_the_list() -> None:
    assert list(formats.FORMATS) == list(ROWS)
