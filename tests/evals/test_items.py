"""Evaluation sets: what a line may hold, and that a wrong line is named with its number and what is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from eval_items import item, write

from specq.core.errors import PromptError
from specq.evals import items
from specq.evals.item_values import Source

GOOD = '{"id": "a", "prompt": "2 + 2?", "reference": "4"}'
START = '{"id": "b", "prompt": "Q?", "reference": '
CHOICE = '{"id": "b", "prompt": "Q?", "choices": '
SCHEMA = '{"id": "b", "prompt": "Q?", "schema": '
SOURCES = START + '{"source": "d", "version": "1"}, "sources": '


def refused(path: Path) -> str:
    with pytest.raises(PromptError) as caught:
        items.load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_value_is_lost_or_takes_another_meaning(tmp_path: Path) -> None:
    whole = {
        "id": 7,
        "messages": [{"role": "system", "content": ""}, {"role": "user", "content": " Hi. "}],
        "reference": {"source": "d", "version": 2},
        "sources": [{"id": "d", "version": 2, "text": "T"}, {"id": "d", "version": 1, "text": "U"}],
        "tags": ["en", "x"],
        "cluster": "doc-1",
        "critical": True,
    }
    first, second = items.load(write(tmp_path, whole, "", GOOD))
    assert (first.id, first.line, first.cluster, first.critical, first.tags) == ("7", 1, "doc-1", True, ("en", "x"))
    assert first.asked == tuple(whole["messages"])
    assert first.sources[0] == Source(id="d", version="2", text="T")
    assert (first.kind, first.texts, first.given) == ("object", (), whole)
    assert (second.line, second.cluster, second.critical, second.asked) == (3, "a", False, "2 + 2?")


@pytest.mark.parametrize(
    ("keys", "kind", "texts", "right"),
    [
        ({"reference": "x"}, "text", ("x",), None),
        ({"reference": ["x", "y"]}, "texts", ("x", "y"), None),
        ({"reference": 0}, "number", (), None),
        ({"reference": 1.5}, "number", (), None),
        ({"reference": {"a": None}}, "object", (), None),
        ({"reference": "y", "choices": ["x", "y"]}, "choice", ("y",), 1),
        ({"reference": 0, "choices": ["x", "y"]}, "choice", ("x",), 0),
        ({"reference": "1", "choices": ["0", "2", "1"]}, "choice", ("1",), 2),
        ({"schema": {"type": "object"}}, "none", (), None),
    ],
)
def test_a_reference_is_read_as_another_kind(keys: dict[str, Any], kind: str, texts: tuple[str], right: Any) -> None:
    one = item(**keys)
    assert (one.kind, one.texts, one.right) == (kind, texts, right)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"id": "b", ', "not a JSON line"),
        ("[1]", "[1]: allowed is a JSON object"),
        ("[" * 100_000, "not a JSON line (nested too deeply)"),
        (START + "NaN}", "NaN is no JSON number"),
        (START + "-Infinity}", "-Infinity is no JSON number"),
        (START + "1e999}", "1e999 is too large a number"),
        (START + '"x", "reference": "y"}', 'key "reference" stands twice in one object; keep one'),
        (START + '{"a": 1, "a": 2}}', 'key "a" stands twice'),
        (START + '"\\ud800"}', "half of a surrogate pair"),
        ('{"id": "b", "prompt": "Q?"}', "no reference; write what is right"),
        ('{"id": "b", "prompt": "Q?", "schema": {"type": "object"}, "choices": ["x", "y"]}', "no reference"),
        (START + "null}", "reference = null: allowed is a text, a list of texts, a number or an object"),
        (START + "true}", "reference = true"),
        (START + '" "}', 'reference = " "'),
        (START + "[]}", "reference = []"),
        (START + '["x", ""]}', 'reference = ["x", ""]'),
        (START + '["x", 3]}', 'reference = ["x", 3]'),
        (START + "{}}", "reference = {}"),
        ('{"id": "b", "reference": "x"}', "neither messages nor prompt; allowed is one of the two"),
        (START + '"x", "messages": []}', "both messages and prompt; allowed is one of the two"),
        ('{"id": "b", "reference": "x", "prompt": " "}', "prompt holds no characters"),
        ('{"id": "b", "reference": "x", "prompt": 3}', "prompt is missing or no text"),
        ('{"id": "b", "reference": "x", "messages": []}', "messages is empty"),
        ('{"id": "b", "reference": "x", "messages": [{"role": "robot", "content": "x"}]}', 'role "robot": allowed'),
        ('{"id": "b", "reference": "x", "messages": [{"role": "user", "contents": "x"}]}', "did you mean 'content'?"),
        ('{"id": "b", "reference": "x", "messages": [{"role": "user", "content": ""}]}', "content holds no char"),
        ('{"prompt": "Q?", "reference": "x"}', "id = null: allowed is a text or a whole number"),
        ('{"id": true, "prompt": "Q?", "reference": "x"}', "id = true"),
        ('{"id": 1.5, "prompt": "Q?", "reference": "x"}', "id = 1.5"),
        (START + '"x", "refrence": "y"}', "unknown key \"refrence\", did you mean 'reference'?"),
        (START + '"x", "zzz": 1}', 'unknown key "zzz"; known keys: id, prompt'),
        (START + '"x", "tags": "en"}', 'tags = "en": allowed is a list of texts'),
        (START + '"x", "cluster": ""}', 'cluster = "": allowed'),
        (START + '"x", "critical": 1}', "critical = 1: allowed is true or false"),
        (CHOICE + '["x"], "reference": "x"}', "choices holds 1: allowed are two or more"),
        (CHOICE + '[], "reference": 0}', "choices holds 0"),
        (CHOICE + '"xy", "reference": "x"}', 'choices = "xy": allowed is a list of texts'),
        (CHOICE + '["x", "y", "x "], "reference": "y"}', 'choices: "x" stands twice'),
        (CHOICE + '["Rome", "Oslo"], "reference": "Romme"}', "is no choice, did you mean 'Rome'?"),
        (CHOICE + '["x", "y"], "reference": 2}', "reference = 2 is no choice; allowed is the text of one of the 2"),
        (CHOICE + '["x", "y"], "reference": -1}', "reference = -1 is no choice"),
        (CHOICE + '["x", "y"], "reference": true}', "reference = true: allowed"),
        (CHOICE + '["x", "y"], "reference": ["x"]}', 'reference = ["x"] is no choice'),
        (SCHEMA + '{"type": "objekt"}}', "schema is none at type: 'objekt' is not valid"),
        (SCHEMA + '{"type": "string", "pattern": "("}}', "schema is none at pattern"),
        (SCHEMA + "{}}", "schema is empty: every JSON value fits it"),
        (SCHEMA + '"object"}', "schema is no object"),
        (SCHEMA + '{"$ref": "#/$defs/x"}}', 'schema refers to "#/$defs/x", which is not in it'),
        (SCHEMA + '{"$ref": "https://example.org/s.json"}}', "allowed are references inside it"),
        (SCHEMA + '{"$schema": "https://example.org/draft"}}', "schema names an unknown draft"),
        (SOURCES + "[]}", "sources is empty or no list"),
        (SOURCES + '[{"id": "d", "version": "1"}]}', "source text is missing"),
        (SOURCES + '[{"id": "d", "version": "1", "txt": "T"}]}', "did you mean 'text'?"),
        (
            SOURCES + '[{"id": "d", "version": "1", "text": "T"}, {"id": "d", "version": 1, "text": "U"}]}',
            'sources: "d" version "1" stands twice',
        ),
    ],
)
def test_a_wrong_line_passes_or_is_not_named(tmp_path: Path, line: str, says: str) -> None:
    message = refused(write(tmp_path, GOOD, "", line))
    assert "set.jsonl:3: " in message
    assert says in message


@pytest.mark.parametrize("second", ["1", 1])
def test_two_items_share_an_id_in_silence(tmp_path: Path, second: Any) -> None:
    lines = [{"id": ident, "prompt": f"Q{i}?", "reference": "x"} for i, ident in enumerate([1, "z", second])]
    assert 'set.jsonl:3: id "1" stands in line 1 too; ids are unique' in refused(write(tmp_path, *lines))


def test_a_file_without_items_passes(tmp_path: Path) -> None:
    assert "no items in it" in refused(write(tmp_path, "", " "))
    assert "no such file" in refused(tmp_path / "none.jsonl")
    assert "cannot be read" in refused(tmp_path)
    path = tmp_path / "latin.jsonl"
    path.write_bytes(GOOD.encode() + b'\n{"id": "b", "prompt": "caf\xe9", "reference": "x"}\n')
    assert "latin.jsonl:2: not UTF-8" in refused(path)


def test_a_byte_order_mark_or_a_line_separator_in_a_text_breaks_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bom.jsonl"
    line = {"id": "a", "prompt": "one\u2028two\u0085three", "reference": "x"}
    path.write_text(json.dumps(line, ensure_ascii=False), encoding="utf-8-sig")
    assert items.load(path)[0].prompt == line["prompt"]


def test_a_long_value_fills_the_terminal(tmp_path: Path) -> None:
    line = {"id": "b", "prompt": "Q?", "reference": "x" * 10_000, "choices": ["y", "z"]}
    assert len(refused(write(tmp_path, line))) < len(str(tmp_path)) + 300


def test_a_schema_that_points_into_itself_is_refused() -> None:
    assert item(schema={"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}).schema
    # A property may be called $ref, and a constant may look like one.
    assert item(schema={"properties": {"$ref": {"type": "string"}}, "const": {"$ref": "nowhere"}}).schema
    assert item(schema={"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}).schema
