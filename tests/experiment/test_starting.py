"""The first experiment that specq writes: it must be read and planned as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from specq.cli import eval_views
from specq.core.errors import ConfigError, PromptError
from specq.evals import checking, describe
from specq.experiment import config, plan, starting


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [{"id": f"p{n}", "prompt": f"a quick test {n}"} for n in range(3)]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = [{**line, "reference": {"a": "b"}} for line in lines for _ in range(1)]
    (tmp_path / "own items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in asked))
    return tmp_path


@pytest.mark.parametrize("question", starting.QUESTIONS)
@pytest.mark.parametrize("evals", [None, "own items.jsonl"])
def test_what_is_written_does_not_run(
    question: str, evals: str | None, files: Path, folder_of: Callable[..., Path]
) -> None:
    model = str(folder_of("llama"))
    made = starting.write(question, model, Path("p.jsonl"), evals and Path(evals), out=Path("first.toml"))
    experiment = config.load(made[0])
    assert experiment.target.model == model
    assert [one.metric for one in experiment.evals] == (["fields"] if evals else [])
    smoke = config.load(made[0], smoke=True)
    assert not plan.make(smoke, available_bytes=1 << 40).refusals


def test_a_file_is_written_over(files: Path, folder_of: Callable[..., Path]) -> None:
    (files / "first-w8.toml").write_text("mine")
    with pytest.raises(ConfigError, match=r"first-w8\.toml is there already"):
        starting.write("quantize", str(folder_of("llama")), Path("p.jsonl"), None, out=Path("first.toml"))
    assert not (files / "first.toml").exists()


@pytest.mark.parametrize(
    ("question", "prompts", "says"),
    [("quantise", "p.jsonl", "did you mean 'quantize'"), ("draft", None, "give --prompts FILE")],
)
def test_a_mistake_is_not_told(
    question: str, prompts: str | None, says: str, files: Path, folder_of: Callable[..., Path]
) -> None:
    with pytest.raises(ConfigError, match=says):
        starting.write(question, str(folder_of("llama")), prompts and Path(prompts), None, out=Path("x.toml"))


def test_what_a_plan_refuses_is_said_to_be_ready(files: Path, folder_of: Callable[..., Path]) -> None:
    (files / "long.jsonl").write_text(json.dumps({"id": "long", "prompt": "a quick test " * 20}) + "\n")
    with pytest.raises(PromptError) as caught:
        starting.write("draft", str(folder_of("llama")), Path("long.jsonl"), None, out=Path("first.toml"))
    said = str(caught.value)
    assert said.startswith('first.toml is written, and a run of it would be refused: prompt "long" has 260 tokens')
    assert said.endswith("change it, then type: specq plan first.toml")
    assert config.load(files / "first.toml").levers


def test_an_unknown_key_is_written_and_not_read_back(
    files: Path, folder_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "_head", lambda question, target: f'[target]\nmodle = "{target}"\n')
    with pytest.raises(ConfigError, match=r"first\.toml is written, and .*modle"):
        starting.write("draft", str(folder_of("llama")), Path("p.jsonl"), None, out=Path("first.toml"))


@pytest.mark.parametrize(("items", "margin"), [(3, None), (13, 0.2), (30, 0.1)])
def test_a_margin_that_the_items_cannot_decide_is_proposed(
    files: Path, folder_of: Callable[..., Path], items: int, margin: float | None
) -> None:
    lines = [{"id": f"p{n}", "prompt": f"a quick test {n}", "reference": {"a": "b"}} for n in range(items)]
    (files / "mine.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = starting.write("draft", str(folder_of("llama")), None, Path("mine.jsonl"), out=Path("first.toml"))
    # What is right is no part of a prompts file.
    assert "reference" not in (files / "first-prompts.jsonl").read_text()
    assert config.load(made[0]).floor.quality == ({} if margin is None else {"mine": margin})
    if margin is None:
        assert "3 items cannot decide even 20 points; 13 or more can" in made[0].read_text()


def test_an_example_margin_hides_how_many_items_it_takes(files: Path, folder_of: Callable[..., Path]) -> None:
    made = starting.starter("draft", str(folder_of("llama")), prompts=Path("p.jsonl"), out=Path("first.toml"))
    (line,) = [line for line in made[Path("first.toml")].splitlines() if line.startswith("# quality")]
    (takes,) = [int(word) for word in line.split() if word.isdecimal() and int(word) > 5]
    assert line == f"# quality = {{ mine = 0.05 }}  # 5 points take {takes} items or more"
    assert (describe.undecidable(takes, 0.05), bool(describe.undecidable(takes - 1, 0.05))) == (None, True)


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        ({"reference": "a", "choices": ["a", "b"]}, "choice"),
        ({"reference": {"a": "b"}}, "fields with all = true; 0 or 1: every field right"),
        # Any object has fields; these say what else they are.
        ({"reference": {"name": "f", "arguments": {}}}, "tool_call"),
        ({"reference": 5}, "number_match"),
        ({"reference": "a"}, "contains"),
        ({"reference": "a", "critical": True}, "contains"),
        ({"schema": {"type": "object"}}, "json_schema"),
    ],
)
def test_the_check_and_the_first_experiment_propose_other_metrics(
    more: dict[str, object], shown: str, files: Path, folder_of: Callable[..., Path]
) -> None:
    lines = [{"id": f"p{n}", "prompt": f"a quick test {n}", **more} for n in range(13)]
    (files / "mine.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = starting.write("draft", str(folder_of("llama")), None, Path("mine.jsonl"), out=Path("first.toml"))
    (one,) = config.load(made[0]).evals
    found = checking.check(Path("mine.jsonl"))
    assert found.proposed is not None
    assert (one.metric, one.options) == (found.proposed.name, found.proposed.options)
    facts = dict(eval_views._facts(found))
    assert facts["metric to start with"] == shown
