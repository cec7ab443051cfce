"""Prompt files: what a line may hold, and that a wrong line is named with its number."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from specq.core.errors import PromptError
from specq.experiment import prompts

CHAT = Path(__file__).parents[2] / "evals" / "chat.jsonl"
GOOD = '{"id": "a", "prompt": "Say hello."}'


def write(tmp_path: Path, *lines: str | dict[str, Any]) -> Path:
    path = tmp_path / "p.jsonl"
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path) -> str:
    with pytest.raises(PromptError) as caught:
        prompts.load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_messages_texts_and_tags_are_kept(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": ""}, {"role": "user", "content": " Hi. "}]
    path = write(tmp_path, {"id": "m", "messages": messages, "tags": ["x", "y"]}, "", {"id": 7, "prompt": "Once"})
    assert prompts.load(path) == (
        prompts.Item(id="m", messages=tuple(messages), tags=("x", "y")),
        prompts.Item(id="7", prompt="Once"),
    )


def test_limit_takes_the_first_in_file_order_but_checks_the_whole_file(tmp_path: Path) -> None:
    path = write(tmp_path, *({"id": i, "prompt": "x"} for i in range(5)))
    assert [item.id for item in prompts.load(path, 3)] == ["0", "1", "2"]
    assert len(prompts.load(path, 99)) == 5
    path = write(tmp_path, GOOD, "{")
    with pytest.raises(PromptError, match=r"p\.jsonl:2: not a JSON line"):
        prompts.load(path, 1)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"id": "b", ', "not a JSON line"),
        ("[1]", "a list; allowed is a JSON object"),
        ('{"id": "b", "prompt": "x", "prompt": "y"}', 'key "prompt" stands twice in one object; keep one'),
        ('{"id": "b", "messages": [{"role": "user", "content": "x", "content": "y"}]}', 'key "content" stands twice'),
        ("[" * 100_000, "not a JSON line"),
        ('{"id": "b"}', "neither messages nor prompt"),
        ('{"id": "b", "prompt": "x", "messages": []}', "both messages and prompt"),
        ('{"prompt": "x"}', "id = null: allowed is a text or a whole number"),
        ('{"id": true, "prompt": "x"}', "id = true"),
        ('{"id": "b", "prompt": ""}', "empty prompt"),
        ('{"id": "b", "prompt": " \\n\\t"}', "empty prompt"),
        ('{"id": "b", "prompt": 3}', "prompt is missing or no text"),
        ('{"id": "b", "messages": []}', "messages is empty"),
        ('{"id": "b", "messages": ["x"]}', "a message that is no object"),
        ('{"id": "b", "messages": [{"role": "user", "content": " "}]}', "empty prompt"),
        ('{"id": "b", "messages": [{"role": "user"}]}', "content is missing"),
        ('{"id": "b", "messages": [{"role": "robot", "content": "x"}]}', "allowed is system, user, assistant"),
        ('{"id": "b", "messages": [{"role": "user", "contents": "x"}]}', "did you mean 'content'?"),
        ('{"id": "b", "zzz": "x"}', 'unknown key "zzz"; known keys: '),
        ('{"id": "b", "promt": "x"}', "unknown key \"promt\", did you mean 'prompt'?"),
        ('{"id": "b", "prompt": "x", "tags": "t"}', "allowed is a list of texts"),
        ('{"id": "b", "prompt": "\\ud800"}', "half of a surrogate pair"),
        ('{"question_id": 1, "turns": []}', "empty prompt"),
        ('{"question_id": 1, "turns": ["x"], "categry": "c"}', "did you mean 'category'?"),
    ],
)
def test_wrong_line_is_named_with_its_number(tmp_path: Path, line: str, says: str) -> None:
    message = refused(write(tmp_path, GOOD, "", line))
    assert "p.jsonl:3: " in message
    assert says in message


def test_id_that_stands_twice_names_both_lines(tmp_path: Path) -> None:
    message = refused(write(tmp_path, GOOD, {"id": "b", "prompt": "x"}, GOOD))
    assert 'p.jsonl:3: id "a" stands in line 1 too' in message


def test_number_and_text_of_the_same_id_are_the_same_id(tmp_path: Path) -> None:
    assert "stands in line 1 too" in refused(write(tmp_path, {"id": 1, "prompt": "x"}, {"id": "1", "prompt": "y"}))


def test_files_without_prompts_are_refused(tmp_path: Path) -> None:
    assert "no prompts in it" in refused(write(tmp_path, "", " "))
    assert "no such file" in refused(tmp_path / "none.jsonl")
    assert "cannot be read" in refused(tmp_path)
    path = tmp_path / "latin.jsonl"
    path.write_bytes(GOOD.encode() + b'\n{"id": "b", "prompt": "caf\xe9"}\n')
    assert "latin.jsonl:2: not UTF-8" in refused(path)


def test_line_separators_inside_a_text_do_not_cut_the_line(tmp_path: Path) -> None:
    path = write(tmp_path, '{"id": "a", "prompt": "one\u2028two\u0085three"}', GOOD.replace('"a"', '"b"'))
    assert prompts.load(path)[0].prompt == "one\u2028two\u0085three"


def test_byte_order_mark_is_no_broken_line(tmp_path: Path) -> None:
    path = tmp_path / "bom.jsonl"
    path.write_text(GOOD, encoding="utf-8-sig")
    assert prompts.load(path)[0].prompt == "Say hello."


def test_spec_bench_lines_give_their_first_turn_and_count_the_rest(tmp_path: Path) -> None:
    line = {"question_id": 81, "category": "writing", "turns": ["One", "Two"], "reference": ["r"]}
    assert prompts.load(write(tmp_path, line)) == (
        prompts.Item(id="81", messages=({"role": "user", "content": "One"},), tags=("writing",), dropped_turns=1),
    )


def test_shipped_chat_prompts_are_mixed_in_any_prefix() -> None:
    items = prompts.load(CHAT)
    kinds = Counter(item.tags[0] for item in items)
    assert len(items) >= 24
    assert kinds["editing"] + kinds["extraction"] >= 8
    assert kinds["writing"] >= 8
    first = Counter(item.tags[0] for item in items[:12])
    assert first == {"editing": 3, "extraction": 3, "writing": 3, "explanation": 3}
    assert all(len({item.tags[0] for item in items[i : i + 4]}) == 4 for i in range(0, 12, 4))
