from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specq.core.errors import ConfigError, PromptError, RunFolderError
from specq.distill import given, recipe, work


@pytest.mark.parametrize(
    ("asked", "total", "kept"),
    [
        ("4", 30, (0, 10, 19, 29)),
        ("2", 30, (0, 29)),
        ("1", 30, (0,)),
        ("29", 30, tuple(i for i in range(30) if i != 14)),
        ("0,1,15,29", 30, (0, 1, 15, 29)),
        ("7,", 30, (7,)),
    ],
)
def test_other_layers_than_asked_for_are_kept(asked: str, total: int, kept: tuple[int, ...]) -> None:
    found = recipe.chosen(asked, total)
    assert len(found) == len(kept)
    assert found == kept or asked == "29"


def test_a_count_of_layers_gives_fewer() -> None:
    for total in range(2, 40):
        for count in range(1, total):
            found = recipe.chosen(str(count), total)
            assert len(found) == count
            assert sorted(set(found)) == list(found)
            assert found[0] == 0
            assert count == 1 or found[-1] == total - 1


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("30", "the target has 30 layers; allowed is 1 to 29"),
        ("0", "allowed is 1 to 29"),
        ("0,30", "no layer 30"),
        ("0,0", "layer 0 stands twice"),
        ("5,2", "type --layers 2,5"),
        ("two", "allowed is how many"),
        ("-1", "allowed is how many"),
        ("1,,2", "allowed is how many"),
        (",".join(map(str, range(30))), "all 30 layers"),
    ],
)
def test_layers_that_cannot_be_kept_pass(asked: str, says: str) -> None:
    for few in ("1", "0,"):
        with pytest.raises(ConfigError, match="the target has a single layer, so no draft can keep fewer"):
            recipe.chosen(few, 1)
    with pytest.raises(ConfigError, match=r"the target has 2 layers; allowed is 1$"):
        recipe.chosen("2", 2)
    with pytest.raises(ConfigError, match=says):
        recipe.chosen(asked, 30)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"minutes": 0.1}, "--minutes 0.1"),
        ({"minutes": float("nan")}, "--minutes nan"),
        ({"loss": "mse"}, "allowed is kl or overlap"),
        ({"temperature": -1.0}, "--temperature -1"),
        ({"temperature": 0.0}, "writes the same text each time"),
        ({"tokens": 0}, "--tokens 0"),
        ({"steps": 0}, "--steps 0"),
        ({"seed": -1}, "--seed -1"),
        ({"layers": "x"}, "--layers 'x'"),
    ],
)
def test_a_recipe_out_of_range_passes(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        recipe.make({"layers": "2", **values})


def test_time_that_the_texts_leave_is_lost() -> None:
    made = recipe.make({"layers": "2", "minutes": 10.0})
    assert (made.sampling_s, made.training_s(240.0), made.training_s(300.0)) == (240.0, 330.0, 330.0)
    assert made.training_s(40.0) == 530.0


def test_another_recipe_goes_on_with_the_work(tmp_path: Path) -> None:
    out = tmp_path / "small"
    with work.opened(out, {"seed": 0, "layers": [0, 2]}) as part:
        (part / "something").write_text("kept")
    with pytest.raises(ConfigError, match=r"seed was 0 and is 1"), work.opened(out, {"seed": 1, "layers": [0, 2]}):
        pass
    with work.opened(out, {"seed": 0, "layers": [0, 2]}) as part:
        assert (part / "something").read_text() == "kept"
        with pytest.raises(RunFolderError, match="another specq process"), work.opened(out, {}):
            pass


def test_work_is_written_over_or_begun_by_resume(tmp_path: Path) -> None:
    out, source = tmp_path / "small", tmp_path / "target"
    source.mkdir()
    with pytest.raises(ConfigError, match="no unfinished work"):
        work.check_out(out, source, resume=True)
    with work.opened(out, {"seed": 0}):
        pass
    with pytest.raises(ConfigError, match="add --resume"):
        work.check_out(out, source, resume=False)
    assert work.check_out(out, source, resume=True) == out
    out.mkdir()
    with pytest.raises(ConfigError, match="exists already"):
        work.check_out(out, source, resume=True)
    with pytest.raises(ConfigError, match="inside the target's own folder"):
        work.check_out(source / "small", source, resume=False)


class Characters:
    """A tokenizer of one token a character, with a template that names the role by its first letter."""

    chat_template = "yes"
    bos_token = None
    all_special_tokens = ("#",)

    def __call__(self, text: str, **how: Any) -> dict[str, list[int]]:
        return {"input_ids": [ord(c) for c in text]}

    def apply_chat_template(self, messages: list[dict[str, str]], *, add_generation_prompt: bool, **how: Any) -> str:
        text = "".join(f"{message['role'][0]}{message['content']}#" for message in messages)
        return text + ("a" if add_generation_prompt else "")


def ids(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


def test_texts_are_answered_and_prompts_are_read(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    talk = [{"role": "user", "content": "why"}, {"role": "assistant", "content": "because " * 4}]
    lines: list[dict[str, Any]] = [
        {"prompt": "plain prompt"},
        {"messages": talk[:1]},
        {"messages": talk},
        {"text": "a text of many words and a few more"},
        {"text": "short"},
        {"prompt": "p" * 700},
        {"text": "t" * 600},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = given.texts(path, Characters(), context=650)
    assert found.prompts == (ids("plain prompt"), ids("uwhy#a"))
    assert [(text.ids, text.start) for text in found.texts] == [
        (ids("uwhy#a" + "because " * 4 + "#"), 6),
        (ids("a text of many words and a few more"), 1),
        (ids("t" * 513), 1),
    ]
    told = " ".join(found.notes)
    for words in ("1 of 7 texts were dropped", "1 of 7 prompts were dropped", "1 of 7 texts were cut", "3 of 7 texts"):
        assert words in told


def test_a_held_out_prompt_is_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"prompt": "one"}\n{"text": "two and what follows it, at length"}\n')
    found = given.texts(path, Characters(), context=None)
    given.check_apart(found, [ids("three")], "t", "p")
    for inside in ("one", "two and"):
        with pytest.raises(PromptError, match=r"--prompts p: 1 of its prompts .* prompt 2"):
            given.check_apart(found, [ids("three"), ids(inside)], "t", "p")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("no.jsonl", None, "no such file; give --texts"),
        ("a.jsonl", '{"text": "fine"}\n{"text": \n', r"a.jsonl:2: not a JSON line"),
        ("a.jsonl", '{"text": "too short"}\n', "nothing is left of its 1 texts"),
        ("a.txt", "", "empty"),
    ],
)
def test_a_broken_file_of_texts_passes(tmp_path: Path, name: str, content: str | None, says: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(PromptError, match=says):
        given.texts(tmp_path / name, Characters(), context=None)
