from __future__ import annotations

import json
from pathlib import Path

import pytest
from quantize_sources import TEMPLATE, WIDE, sentence, write_texts

import tiny_models
from specq.core.errors import PromptError
from specq.models import refs
from specq.quantize import calibration, recipes, self_text

ROOT = Path(__file__).parents[2]


def recipe(**given):
    return recipes.make({"method": "gptq", "samples": 8, "tokens": 64, **given})


def load(path: Path, columns: int = 1, **given):
    return calibration.load(recipe(**given), path, tiny_models.tokenizer(), source="texts", columns=columns)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not a JSON line"),
        ("[1]", "a list"),
        ('{"txt": "a"}', "did you mean 'text'"),
        ('{"text": "a", "prompt": "b"}', "text and prompt"),
        ('{"id": 1}', "none of text"),
        ('{"text": "  "}', "empty"),
        ('{"text": 3}', "no text"),
        ('{"messages": []}', "messages is empty"),
        ('{"messages": [{"role": "user"}]}', "role and content"),
    ],
)
def test_a_broken_line_is_not_named_with_its_number(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"text": "a"}\n\n' + line + "\n")
    with pytest.raises(PromptError, match=rf"c\.jsonl:3.*{words}"):
        calibration.read(path)


def test_bytes_that_are_no_text_are_read(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_bytes(b"fine\n\n\xff\xfe\n")
    with pytest.raises(PromptError, match=r"c\.txt:3: not UTF-8"):
        calibration.read(path)
    with pytest.raises(PromptError, match="no such file"):
        calibration.read(tmp_path / "none.txt")
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(PromptError, match=r"empty\.txt: the file is empty; allowed is plain text"):
        calibration.read(tmp_path / "empty.txt")


def test_plain_text_is_cut_at_lines_and_not_at_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_text("one\ntwo\n\n\n[three]\n  \nfour")
    assert calibration.read(path) == ["one\ntwo", "[three]", "four"]


def test_rows_are_dropped_or_cut_in_silence(tmp_path: Path) -> None:
    lengths = [100, 10, 64, 15, 16, 70]
    path = write_texts(tmp_path / "c.jsonl", [{"text": sentence(i, n)} for i, n in enumerate(lengths)])
    found = load(path)
    used = found.used
    assert (used.rows_given, used.rows_used, used.rows_too_short) == (6, 4, 2)
    assert (used.tokens_given, used.tokens_used) == (sum(lengths), 64 + 64 + 16 + 64)
    assert sorted(map(len, found.rows)) == [16, 64, 64, 64]
    assert any("2 calibration texts were dropped" in note for note in found.notes)
    assert any("2 calibration texts were cut to 64" in note for note in found.notes)
    assert any("8 calibration texts were asked for and 4" in note for note in found.notes)


def test_the_order_does_not_follow_the_seed(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "c.jsonl", [{"text": sentence(i, 40)} for i in range(20)])
    assert load(path).rows == load(path).rows
    assert load(path).rows != load(path, seed=1).rows


def test_too_few_tokens_for_the_columns_are_taken(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "c.jsonl", [{"text": sentence(i, 50)} for i in range(4)])
    assert load(path, columns=200).used.tokens_used == 200
    with pytest.raises(PromptError, match=r"200 tokens.*201 are needed"):
        load(path, columns=201)


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ({"samples": 2}, {"samples": 3}),
        ({"tokens": 20}, {"tokens": 38}),
        ({"samples": 2, "tokens": 20}, {"samples": 4, "tokens": 38}),
    ],
)
def test_the_flags_that_are_asked_for_do_not_do(tmp_path: Path, given: dict, more: dict) -> None:
    path = write_texts(tmp_path / "c.jsonl", [{"text": sentence(i, 50)} for i in range(4)])
    typed = " ".join(f"--{name} {value}" for name, value in more.items())
    with pytest.raises(PromptError, match=f"150 are needed.*: type {typed}$"):
        load(path, columns=150, **given)
    assert load(path, columns=150, **{**given, **more}).used.tokens_used >= 150
    with pytest.raises(PromptError, match=r"give --calibration a file of more or longer texts$"):
        load(path, columns=201, **given)


def test_own_texts_that_are_too_short_are_called_a_file(tmp_path: Path) -> None:
    path = write_texts(tmp_path / "scratch.jsonl", [{"text": sentence(0, 50)}])
    with pytest.raises(
        PromptError, match=r"^calibration = self: 50 tokens.*type --samples 9, or give --calibration FILE"
    ):
        calibration.load(recipe(), path, tiny_models.tokenizer(), source="self", columns=51)


def test_messages_get_a_second_bos_or_an_open_turn() -> None:
    tokenizer = tiny_models.tokenizer()
    talk = ({"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"})
    assert tokenizer.decode(calibration.encode(tokenizer, talk, where="x")) == "hi<unk>yes"
    tokenizer.chat_template = TEMPLATE
    assert tokenizer.decode(calibration.encode(tokenizer, talk, where="x")) == "u:hi</s>a:yes</s>"
    assert tokenizer.decode(calibration.encode(tokenizer, talk[:1], where="x")) == "u:hi</s>a:"
    tokenizer.add_bos_token = True
    plain = calibration.encode(tokenizer, "hi", where="x")
    assert list(plain) == tokenizer("hi")["input_ids"]
    tokenizer.chat_template = "{{ raise_exception('no') }}"
    with pytest.raises(PromptError, match=r"c:2: the chat template refuses"):
        calibration.encode(tokenizer, talk, where="c:2")


def test_the_shipped_texts_are_short_or_stand_twice() -> None:
    texts = calibration.read(ROOT / "evals" / "calibration.jsonl")
    words = [" ".join(t if isinstance(t, str) else " ".join(m["content"] for m in t) for t in [text]) for text in texts]
    assert len(texts) >= 32
    assert len(set(words)) == len(words)
    prompts = [json.loads(line) for line in (ROOT / "evals" / "chat.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = {message["content"] for prompt in prompts for message in prompt["messages"]}
    given = {message["content"] for text in texts if not isinstance(text, str) for message in text}
    assert asked & given == set(), "a text that calibrates a model must not be what it is measured on"


def test_self_texts_differ_from_run_to_run(folder_of, tmp_path: Path) -> None:
    source = refs.resolve(str(folder_of("llama", **WIDE)))
    chosen = recipe(calibration="self", samples=3, tokens=24)
    told: list[tuple[int, int]] = []
    for name in ("a", "b"):
        self_text.write(source, chosen, tmp_path / name, lambda *done: told.append(done))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert told[-1] == (3, 3)
    other = recipe(calibration="self", samples=3, tokens=24, seed=1)
    self_text.write(source, other, tmp_path / "c", lambda *_: None)
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()
    lines = [json.loads(line) for line in (tmp_path / "a").read_text().splitlines()]
    assert all(len(tiny_models.tokenizer()(line["text"])["input_ids"]) <= 24 for line in lines)


def test_self_texts_are_not_asked_through_the_template(folder_of, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "chat"
    shutil.copytree(folder_of("window", **WIDE), folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    self_text.write(refs.resolve(str(folder)), recipe(samples=2), tmp_path / "c.jsonl", lambda *_: None)
    lines = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()]
    assert lines
    assert all(line["messages"][0]["role"] == "user" for line in lines)
    assert calibration.read(tmp_path / "c.jsonl")
