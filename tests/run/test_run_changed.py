"""An input that changed since a run began is named by its file, whichever it is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from specq.run import changed

Edit = Callable[[dict[str, Any]], Any]


def prompt(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "tags": ["t"], "ids": [1, 2], "text": name, "messages": [], **more}


def item(name: str) -> dict[str, Any]:
    return {"id": name, "tokens": 3, "prompt_sha256": "p", "given": {"id": name, "prompt": "Q?", "reference": "a"}}


def an_eval(metric: str) -> dict[str, Any]:
    hashes = {"metric_sha256": "m", "sha256": "s"}
    return {"metric": metric, **hashes, "batch_size": 8, "twin_batch_size": 4, "items": [item("i0"), item("i1")]}


def info() -> dict[str, Any]:
    settings = {"bits": 4, "calibration": "c.jsonl"}
    own = {"name": "own", "items": "own.jsonl", "metric": "slow.py:score", "task": None}
    return {
        "config": {
            "target": {"model": "m"},
            "workload": {"prompts": "p.jsonl"},
            "evals": [own, {"name": "easy", "items": None, "metric": None, "task": "arc_easy"}],
        },
        "models": {"target m": {"weights_sha256": "w", "template_sha256": "t", "folder": "~/m"}},
        "prompts": [prompt("p0"), prompt("p1", messages=[{"role": "user", "content": "Q?"}])],
        "evals": {"own": an_eval("slow.py:score"), "easy": an_eval("arc_easy: acc")},
        "readings": {"s": {"other_tokens": "id 4", "prompts": [prompt("p0"), prompt("p1")], "evals": {"own": {}}}},
        "quantized": {"r.toml of m": "k"},
        "quantized_from": {"r.toml of m": {"recipe": "r.toml", "settings": settings, "text_sha256": "x"}},
    }


def recipe(made: dict[str, Any]) -> dict[str, Any]:
    made["quantized"]["r.toml of m"] = "other"
    return dict(made["quantized_from"]["r.toml of m"])


def template(made: dict[str, Any]) -> None:
    made["models"]["target m"]["template_sha256"] = "other"
    made["prompts"][1].update(text="<Q?>", ids=[3])
    made["evals"]["own"]["items"][1]["prompt_sha256"] = "other"


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (
            lambda made: made["evals"]["own"].update(metric_sha256="other"),
            ['slow.py, the file of the metric slow.py:score of eval "own"'],
        ),
        (
            lambda made: made["evals"]["easy"].update(metric_sha256="other"),
            ['the YAML or the code of the task arc_easy of eval "easy"'],
        ),
        (
            lambda made: made["evals"]["easy"].update(sha256="other"),
            ['the documents of the task arc_easy of eval "easy"'],
        ),
        (
            lambda made: made["evals"]["own"]["items"][1]["given"].update(reference="b"),
            ['own.jsonl, the items of eval "own": 1 item differs, first i1'],
        ),
        (lambda made: made["evals"]["own"].update(sha256="other"), []),
        (lambda made: made["evals"]["own"]["items"].reverse(), ['own.jsonl, the items of eval "own": their order']),
        (
            lambda made: made["evals"]["own"].update(batch_size=1),
            ['batch_size of eval "own": 8 -> 1, as this version of specq asks the engine'],
        ),
        (lambda made: made["evals"].pop("easy"), ['the eval "easy", which is not asked for now']),
        (
            lambda made: made["readings"]["s"]["prompts"][0].update(ids=[9]),
            ["how s reads prompts and items: its tokenizer or chat template, or run.json was edited"],
        ),
        (lambda made: made["prompts"][0].update(text="x"), ["p.jsonl (workload.prompts): 1 prompt differs, first p0"]),
        (lambda made: made["prompts"].reverse(), ["p.jsonl (workload.prompts): the order of its prompts"]),
        (
            lambda made: [one.update(ids=[9]) for one in made["prompts"]],
            ["the tokenizer of m, or run.json was edited: 2 prompts differ in tokens alone, first p0"],
        ),
        (
            template,
            [
                "the chat template of m, or run.json was edited: 1 prompt differs in tokens alone, first p1",
                'the chat template of m, or run.json was edited: 1 item of eval "own" differs in tokens alone, '
                "first i1",
            ],
        ),
        (
            lambda made: made["models"]["target m"].update(weights_sha256="other"),
            ["the weights of target m in ~/m"],
        ),
        (lambda made: recipe(made)["settings"].update(bits=3), ["the recipe r.toml (bits: 4 -> 3)"]),
        (
            lambda made: made["quantized_from"].update({"r.toml of m": {**recipe(made), "text_sha256": "y"}}),
            ["c.jsonl, the calibration text of the recipe r.toml"],
        ),
        (recipe, ["the quantizer's version, or the config or the tokenizer of the model, behind r.toml of m"]),
    ],
)
def test_a_changed_input_passes_or_is_named_as_another(edit: Edit, says: list[str]) -> None:
    then, now = info(), copy.deepcopy(info())
    edit(now)
    assert changed.inputs(then, now) == says


def test_a_run_of_an_older_version_is_refused_for_what_it_did_not_record() -> None:
    then, now = info(), info()
    del then["readings"], now["readings"]
    now["readings"] = {}
    assert changed.inputs(then, now) == []
    then = info()
    del then["quantized_from"]
    assert changed.inputs(then, info()) == []
    del then["quantized"]
    assert changed.inputs(then, info()) == []
    then["quantized"] = {"r.toml of m": "older"}
    assert changed.inputs(then, info()) == ["the recipe, the calibration text or the quantizer that makes r.toml of m"]
