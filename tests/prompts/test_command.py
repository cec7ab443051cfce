"""The command and its function: lines in, lines out, a log, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specq import api, cli

SAID = "The garden lies behind the house and is shared by all."
LINES: list[dict[str, Any]] = [
    {"id": "a", "prompt": f"{SAID}\n\nThe fee is EUR 3.\n\n{SAID}\n\nWhat is it?", "tags": ["one"], "reference": "3"},
    {"id": 2, "messages": [{"role": "user", "content": "What is it?"}], "tags": ["one", "two"]},
]


def written(file: Path, lines: list[Any]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def test_lines_keep_their_keys_and_the_log_says_what_went(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = written(tmp_path / "in.jsonl", LINES), tmp_path / "out.jsonl"
    assert cli.main(["prompts", str(file), "--clean", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "clean: repeat" in said
    assert "none lost" in said
    first, second = (json.loads(line) for line in out.read_text().splitlines())
    assert first == {**LINES[0], "prompt": f"{SAID}\n\nThe fee is EUR 3.\n\nWhat is it?"}
    assert second == LINES[1]
    log = [json.loads(line) for line in (tmp_path / "out.deletions.jsonl").read_text().splitlines()]
    assert [one["id"] for one in log] == ["a", "2"]
    (gone,) = log[0]["deletions"]
    assert (gone["reason"], gone["text"].strip(), gone["tokens"]) == ("repeat", SAID, len(SAID.split()))
    assert LINES[0]["prompt"][gone["start"] : gone["end"]] == gone["text"]
    assert log[0]["before"]["tokens"] - gone["tokens"] == log[0]["after"]["tokens"]
    assert log[0]["protected_before"] == log[0]["protected_after"] != []
    assert cli.main(["prompts", str(file), "--clean", "--out", str(out)]) == 2
    assert "nothing is written over" in capsys.readouterr().err


def test_json_has_every_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "in.jsonl", LINES)
    assert cli.main(["prompts", str(file), "--clean", "--select", "12", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = api.shorten_prompts(file, clean=True, select=12)
    assert (told["tokens_before"], told["tokens_after"]) == (found.before, found.after)
    assert told["tags"]["one"]["before"] == found.before
    assert told["lost"] == 0
    assert told["steps"] == {"clean": True, "select": 12}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ([], "no prompts in it"),
        ([{"id": "a"}], "one of messages and prompt"),
        ([{"id": "a", "prompt": ""}], "a prompt that is a text"),
        ([{"id": "a", "prompt": "\ud800"}], "a prompt that is a text"),
        ([{"id": "a", "messages": [{"role": "me", "content": "x"}]}], "messages of a role"),
        ([{"id": "a", "messages": [{"role": "user", "content": None}]}], "null beside tool_calls"),
        ([{"prompt": "x"}], "no object with an id"),
        ([{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}], "stands twice"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], line: list[Any], why: str) -> None:
    file = written(tmp_path / "in.jsonl", line)
    assert cli.main(["prompts", str(file), "--clean"]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "neither clean nor select"),
        (["--select", "half"], "a number of tokens"),
        (["--select", "1.5"], "share"),
        (["--clean", "--log", "x.jsonl"], "without out"),
    ],
)
def test_an_option_that_does_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], why: str
) -> None:
    assert cli.main(["prompts", str(written(tmp_path / "in.jsonl", LINES)), *given]) == 2
    assert why in capsys.readouterr().err
