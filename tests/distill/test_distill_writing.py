"""Texts to train on: no more than are asked for, each the same however many are written, told of while they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import tiny_models
from specq.distill import given as texts_of_users
from specq.distill import recipe, shards, writing
from specq.distill.given import Given, GivenText
from specq.distill.sampler import Text
from specq.distill.shards import Files
from specq.distill.writing import Opening, Writer

OPENING = Opening(start=(1, 7), bridge=(2, 8))


def writer(tokens: int | None, **asked: Any) -> Writer:
    return Writer(
        model=tiny_models.make("llama"),
        opening=OPENING,
        eos_ids=(),
        context=None,
        recipe=recipe.make({"layers": "1", "tokens": tokens, **asked}),
    )


def folder(path: Path) -> Path:
    path.mkdir()
    shards.write(path / shards.HELD_OUT, [Text(ids=(1, 2, 3), start=1, hidden=torch.zeros(2, 4))], {"asked": "1"})
    return path


def written(of: Writer, path: Path, given: Given | None = None) -> list[tuple[tuple[int, ...], int]]:
    found = of.train_texts(path, given, lambda _: None)
    assert all(found.hidden(entry).shape[0] == entry.learned for entry in found.entries)
    return [(entry.ids, entry.start) for entry in found.entries]


def learned(texts: list[tuple[tuple[int, ...], int]]) -> int:
    return sum(len(ids) - start for ids, start in texts)


@pytest.mark.parametrize("tokens", [1, 100, 500, 1024])
def test_more_is_sampled_than_was_asked_for(
    one_thread: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: int
) -> None:
    sampled: list[int] = []
    write = writing.write

    def counted(*given: Any) -> list[Text]:
        found = write(*given)
        sampled.append(sum(len(text.ids) - text.start for text in found))
        return found

    monkeypatch.setattr(writing, "write", counted)
    texts = written(writer(tokens), folder(tmp_path / "a"))
    assert learned(texts) == tokens
    # A token a text at most is sampled and cut.
    assert sum(sampled) < tokens + 5


def test_a_text_depends_on_how_many_are_asked_for(one_thread: None, tmp_path: Path) -> None:
    few, many = (written(writer(tokens), folder(tmp_path / str(tokens))) for tokens in (500, 2000))
    for (ids, start), (other, begin) in zip(few, many, strict=False):
        assert start == begin
        assert ids == other[: len(ids)]


def test_work_that_goes_on_writes_other_texts(
    one_thread: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "ANSWER_TOKENS", 7)
    monkeypatch.setattr(writing, "BATCH", 4)
    monkeypatch.setattr(writing, "_LEAVE", 0)
    texts = tuple(GivenText(ids=tuple(range(1, 6 + n)), start=1) for n in range(6))
    prompts = tuple((1, n) for n in range(5, 11))
    for given in (None, Given(texts=texts, prompts=prompts, notes=())):
        name = "own" if given is None else "given"
        whole = written(writer(1100 if given is None else 200), folder(tmp_path / name), given)
        files = sorted((tmp_path / name).glob("texts-*"))
        assert len(files) > 4
        for kept in (1, 3, len(files) - 1):
            again = folder(tmp_path / f"{name} {kept}")
            for file in files[:kept]:
                (again / file.name).write_bytes(file.read_bytes())
            assert written(writer(1100 if given is None else 200), again, given) == whole


def test_given_texts_and_prompts_are_taken_once_and_in_turn(
    one_thread: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "BATCH", 4)
    monkeypatch.setattr(writing, "_LEAVE", 0)
    texts = tuple(GivenText(ids=(3, *range(1, 6 + n)), start=1) for n in range(6))
    given = Given(texts=texts, prompts=((1, 5, 5), (1, 6), (1, 9)), notes=())
    found = written(writer(2600), folder(tmp_path / "a"), given)
    assert [ids for ids, _ in found[:6]] == [text.ids for text in texts]
    asked = [ids[:start] for ids, start in found[6:]]
    assert asked[:6] == [(1, 6), (1, 9), (1, 5, 5)] * 2
    assert learned(found) == 2600
    # Greedy, each prompt has one answer.
    once = Given(texts=(), prompts=tuple((1, n) for n in range(5, 10)), notes=())
    greedy = written(writer(1300, temperature=0.0, texts="x"), folder(tmp_path / "b"), once)
    assert [ids[:start] for ids, start in greedy] == list(once.prompts)
    cut = written(writer(12), folder(tmp_path / "c"), given)
    assert [ids for ids, _ in cut] == [texts[0].ids, texts[1].ids, texts[2].ids[:2]]


def test_a_batch_says_nothing_until_it_is_done(
    one_thread: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_TELL_S", 0.0)
    said: list[str] = []
    found: Files = writer(1024).train_texts(folder(tmp_path / "a"), None, said.append)
    assert len(said) > 10 * len(found.about)
    assert said[-1].startswith("the target's texts: 1024 tokens, of 1024")


@pytest.mark.parametrize(
    ("context", "says"),
    [(40, "2 of 3 texts were cut to the target's context of 40 tokens"), (4096, "1 of 3 texts were cut to 512 tokens")],
)
def test_texts_that_the_context_cuts_go_unsaid(tmp_path: Path, context: int, says: str) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": "ab" * n}) + "\n" for n in (15, 100, 600)))
    found = texts_of_users.texts(file, tiny_models.tokenizer(), context=context)
    assert [note for note in found.notes if " cut " in note] == [says]
    assert max(len(one.ids) for one in found.texts) <= context
