"""The page on evaluation sets says what the code does: keys, metrics, options, defaults and examples."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from eval_items import item

from doc_pages import blocks, chapters, page, rows
from specq.evals import items, metrics, tasks
from specq.evals.metric import Continuation

PAGE = page("docs/evals.md")
TOLD = chapters(PAGE)
EXAMPLES = [
    (title, json.loads(line))
    for title, text in TOLD.items()
    for _, body in blocks(text, "jsonl")
    for line in body.splitlines()
]


def cells(text: str) -> list[list[str]]:
    """Rows whose first cell is an option: a mark in code may be a bar's neighbour, so cut at bars with blanks."""
    return [row for row in rows(text) if len(row) == 4]


def test_a_key_is_not_in_the_docs_or_has_no_meaning() -> None:
    told = [row[0].strip("`") for row in rows(TOLD["The format"])]
    assert sorted(told) == sorted(items.KEYS)
    readme = page("evals/README.md").split("## Evaluation sets")[1].split("## Files")[0]
    assert sorted(name for row in rows(readme) for name in row[0].replace("`", "").split(" or ")) == sorted(items.KEYS)
    (example,) = blocks(TOLD["The format"], "json")
    assert items.read_line(example[1]).cluster == "inv-7"


def test_a_metric_is_not_in_the_docs_or_is_no_metric() -> None:
    listed = [line.split("`")[1] for line in TOLD["Metrics"].splitlines() if line.startswith("| [`")]
    assert listed == [*metrics.NAMES, "file.py:function"]
    for line in TOLD["Metrics"].splitlines():
        name = line.split("`")[1] if line.startswith("| [`") else ""
        if name in metrics.NAMES:
            metric = metrics.make(name)
            told = [cell.strip() for cell in line.strip("|").split(" | ")]
            assert (told[1] == "0 or 1") is metric.binary, name
            assert told[3].strip("| ") == metric.output, name


@pytest.mark.parametrize("name", metrics.NAMES)
def test_an_option_or_its_default_is_not_in_the_docs(name: str) -> None:
    told = {row[0].strip("`"): json.loads(row[1].strip("`")) for row in cells(TOLD[name])}
    assert told == metrics.options_of(name)


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[f"{title}-{i}" for i, (title, _) in enumerate(EXAMPLES)])
def test_an_example_scores_something_else(name: str, example: dict[str, Any]) -> None:
    metric = metrics.make(name, example.get("options"))
    one, answer = item(**example["item"]), example["answer"]
    assert metric.check(one) is None
    if not isinstance(answer, str):
        answer = tuple(Continuation(text=text, logprob=logprob, tokens=tokens) for text, logprob, tokens in answer)
    assert metric.score(one, answer).value == pytest.approx(example["score"])


def test_a_metric_has_no_example() -> None:
    assert {title for title, _ in EXAMPLES} == set(metrics.NAMES)


def test_a_task_in_the_docs_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: None) -> None:
    chapter = TOLD["Tasks of lm-eval"]
    ((_, text),) = blocks(chapter, "yaml")
    row = {"country": "France", "cities": ["Rome", "Paris"], "right": 1}
    (tmp_path / "capitals.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "capitals.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    task = tasks.load_task("capitals.yaml")
    assert task.ids == ("capitals 0",)
    assert (task.reading.metric, task.reading.binary) == ("acc", True)
    told = [row[0].strip("`") for row in rows(chapter)]
    assert told == [name for name in inspect.signature(tasks.load_task).parameters if name != "name"]
    assert f"`{tasks.FEWSHOT_SEED}`" in chapter
