"""The sets of long prompts: the fact stands where its tag says, once, and the shares of tags are those documented."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from specq.evals import items, metrics
from specq.prompts.transform import transform
from specq.prompts.types import Steps

EVALS = Path(__file__).parents[2] / "evals"
SETS = {name: items.load(EVALS / f"{name}.jsonl") for name in ("long", "desk")}

every_set = pytest.mark.parametrize("name", SETS)


def named(text: str) -> set[str]:
    """The words of a text that name something."""
    return {word.strip(".,") for word in text.casefold().split() if len(word) > 3} - {"which", "does", "what", "date"}


@every_set
def test_an_item_does_not_fit_its_metric(name: str) -> None:
    assert metrics.misfits(metrics.make("contains", None), SETS[name]) == {}


@every_set
def test_a_tag_is_short_of_items(name: str) -> None:
    counts = Counter(tag for item in SETS[name] for tag in item.tags)
    assert counts == {
        **{"start": 32, "middle": 32, "end": 32},
        **{"plain": 66, "protected": 30, "club": 72, "workshop": 24, "held-out": 24},
    }
    assert all(("held-out" in item.tags) == ("workshop" in item.tags) for item in SETS[name])


@every_set
def test_a_fact_stands_elsewhere_than_its_tag_says(name: str) -> None:
    for item in SETS[name]:
        notes = item.messages[-1]["content"].split("\n\n")[1:-1]
        subject = named(item.messages[-1]["content"].rsplit("Question: ", 1)[1].split("?")[0])
        held = [
            place
            for place, text in enumerate(notes)
            for sentence in text.split(". ")
            if str(item.reference) in sentence and len(subject & named(sentence)) >= min(2, len(subject))
        ]
        first, last = held[0] / (len(notes) - 1), held[-1] / (len(notes) - 1)
        wanted = {"start": (0.0, 0.1), "middle": (0.25, 0.6), "end": (0.8, 1.0)}
        low, high = wanted[next(tag for tag in item.tags if tag in wanted)]
        assert low <= first <= last <= high, item.id


@every_set
def test_there_is_nothing_to_drop_or_a_protected_answer_is_dropped(name: str) -> None:
    for item in SETS[name]:
        found = transform(item.messages, Steps(select=0.3))
        assert found.after.tokens < 0.75 * found.before.tokens, item.id
        if "protected" in item.tags:
            assert str(item.reference) in found.messages[-1]["content"], item.id


def test_prompts_of_the_desk_begin_with_other_rules() -> None:
    prompts = map(json.loads, (EVALS / "desk-prompts.jsonl").read_text(encoding="utf-8").splitlines())
    rules = {item.messages[0]["content"] for item in SETS["desk"]} | {one["messages"][0]["content"] for one in prompts}
    assert len(rules) == 1
    assert {message["role"] for item in SETS["desk"] for message in item.messages} == {"system", "user"}
