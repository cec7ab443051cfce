"""The example sets: what the script writes is what lies there, and every item can be answered from its own text."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from specq.evals import dates, items, metrics, numbers
from specq.evals.items import Item

FOLDER = Path(__file__).parents[2] / "evals"
METRICS = {"invoices": "fields", "versions": "evidence", "choices": "choice"}
OPTIONS = {"versions": {"quote": "json"}}
KINDS = {
    "invoices": {"invoice", "receipt", "contract"},
    "versions": {"single", "two"},
    "choices": {"fact", "opposite", "category", "sequence", "cause"},
}
SORTS = {"party", "date", "amount", "currency"}
SETS = {name: items.load(FOLDER / f"{name}.jsonl") for name in METRICS}

every_set = pytest.mark.parametrize("name", METRICS)


def language(item: Item) -> str:
    return next(tag for tag in item.tags if tag in ("en", "tr"))


def document(item: Item) -> str:
    """What the question is about: the last message without its last paragraph."""
    return item.messages[-1]["content"].rsplit("\n\n", 1)[0]


def says(text: str, value: Any, language: str) -> bool:
    """Whether a document holds a value: an amount or a date in any style, else the very text."""
    if isinstance(value, float):
        return any(float(one.value) == value for one in numbers.read(text, language=language))  # type: ignore[arg-type]
    if re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        words = re.findall(r"[^\s,;:()]+", text)
        parts = [" ".join(words[at : at + size]) for size in (1, 3) for at in range(len(words))]
        return any((day := dates.read(part)) is not None and day.isoformat() == value for part in parts)
    return value in text


def test_a_set_is_edited_by_hand_or_the_script_changed_without_being_run(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-B", str(FOLDER / "make.py"), str(tmp_path)], check=True)
    names = (*METRICS, "long", "long-prompts", "desk", "desk-prompts")
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(names)
    for name in names:
        assert (tmp_path / f"{name}.jsonl").read_bytes() == (FOLDER / f"{name}.jsonl").read_bytes(), name


@every_set
def test_an_item_does_not_fit_its_metric(name: str) -> None:
    assert metrics.misfits(metrics.make(METRICS[name], OPTIONS.get(name)), SETS[name]) == {}


@every_set
def test_an_id_or_a_question_comes_twice(name: str) -> None:
    assert len({item.id for item in SETS[name]}) == len(SETS[name])
    asked = Counter(json.dumps([item.asked, sorted(item.choices)]) for item in SETS[name])
    assert [text for text, count in asked.items() if count > 1] == []


@every_set
def test_a_language_is_short_of_items_or_a_tag_is_missing(name: str) -> None:
    counts = Counter(language(item) for item in SETS[name])
    assert counts["en"] >= 200
    assert counts["tr"] >= 60
    for item in SETS[name]:
        assert len(KINDS[name] & set(item.tags)) == 1, item.id
        assert len({"en", "tr"} & set(item.tags)) == 1, item.id
        assert len(set(item.tags)) == len(item.tags), item.id
        if name == "invoices":
            assert len(SORTS & set(item.tags)) == 1, item.id
            assert set(item.reference) <= set(item.tags), item.id


@every_set
def test_the_first_items_are_of_one_kind_or_language(name: str) -> None:
    """In any prefix each language and kind has its share of the whole, give or take a few items."""
    whole = SETS[name]
    for get in (language, lambda item: str(KINDS[name] & set(item.tags))):
        shares = {key: count / len(whole) for key, count in Counter(map(get, whole)).items()}
        seen: Counter[str] = Counter()
        for place, item in enumerate(whole, 1):
            seen[get(item)] += 1
            for key, share in shares.items():
                assert abs(seen[key] - share * place) <= 4, (place, key)


@pytest.mark.parametrize("name", ["invoices", "versions"])
def test_items_of_one_document_count_as_independent(name: str) -> None:
    clusters: dict[str, set[str]] = defaultdict(set)
    owners: dict[str, set[str]] = defaultdict(set)
    for item in SETS[name]:
        clusters[item.cluster].add(document(item))
        owners[document(item)].add(item.cluster)
    assert [key for key, texts in clusters.items() if len(texts) > 1] == []
    assert [text for text, keys in owners.items() if len(keys) > 1] == []
    assert set(Counter(item.cluster for item in SETS[name]).values()) == {2}


def test_a_choice_question_is_counted_as_part_of_a_cluster() -> None:
    assert all(item.cluster == item.id for item in SETS["choices"])


def test_a_field_is_asked_that_the_document_does_not_say() -> None:
    for item in SETS["invoices"]:
        for key, value in item.reference.items():
            assert says(document(item), value, language(item)), (item.id, key, value)


def test_a_field_that_is_missing_passes_for_said() -> None:
    text = "Total: 1.234,50 TL, 14 Mart 2024"
    assert says(text, 1234.5, "tr")
    assert not says(text, 1234.0, "tr")
    assert says(text, "2024-03-14", "tr")
    assert not says(text, "2024-03-15", "tr")


def test_critical_items_are_missing_or_everywhere() -> None:
    critical = [item for item in SETS["invoices"] if item.critical]
    assert 8 <= len(critical) <= 12
    assert {language(item) for item in critical} == {"en", "tr"}
    assert {key for item in critical for key in item.reference} == {"total", "due_date"}
    assert not any(item.critical for name in ("versions", "choices") for item in SETS[name])


def test_an_answer_stands_in_both_versions_or_in_two_lines() -> None:
    """Evidence is one line of the right version and none of the other; the prompt shows the sources as they are."""
    metric = metrics.make("evidence", OPTIONS["versions"])
    for item in SETS["versions"]:
        assert all(source.text in document(item) for source in item.sources), item.id
        lines = [(source.version, line) for source in item.sources for line in source.text.splitlines()]
        quotes = [one for one in lines if metric.score(item, json.dumps({"quote": one[1]})).value == 1]
        assert [version for version, _ in quotes] == [item.reference["version"]], item.id
        assert item.reference["answer"] in quotes[0][1], item.id
        assert [version for version, line in lines if line == quotes[0][1]] == [item.reference["version"]], item.id


def test_two_versions_say_the_same_of_a_point() -> None:
    """The answer itself, and not the year before it alone, differs between the versions."""
    for item in SETS["versions"]:
        for source in item.sources:
            if source.version != item.reference["version"]:
                says = [line.split(": ", 1)[1] for line in source.text.splitlines()]
                assert item.reference["answer"] not in says, item.id


def test_the_version_asked_for_is_told_by_its_place_or_its_age() -> None:
    for tongue in ("en", "tr"):
        two = [item for item in SETS["versions"] if "two" in item.tags and language(item) == tongue]
        cells: Counter[tuple[bool, bool]] = Counter()
        for item in two:
            version = item.reference["version"]
            cells[item.sources[0].version == version, version == min(one.version for one in item.sources)] += 1
        assert len(cells) == 4
        assert max(cells.values()) - min(cells.values()) <= 0.1 * len(two)


def test_the_right_choice_is_given_away_by_its_place() -> None:
    for tongue, kind in itertools.product(("en", "tr"), sorted(KINDS["choices"])):
        chosen = [item for item in SETS["choices"] if tongue in item.tags and kind in item.tags]
        places = Counter(item.right for item in chosen)
        assert max(places.values()) - min(places[place] for place in range(4)) <= 1, (tongue, kind)
        assert all(len(item.choices) == 4 for item in chosen)


def lengths_tell(chosen: Sequence[Item]) -> tuple[float, float]:
    """How often taking the longest, and taking the shortest choice is right; of equals, each is as likely."""

    def share(pick: Any) -> float:
        total = 0.0
        for item in chosen:
            ends = [choice for choice in item.choices if len(choice) == pick(map(len, item.choices))]
            total += (item.texts[0] in ends) / len(ends)
        return total / len(chosen)

    return share(max), share(min)


@pytest.mark.parametrize("tongue", ["en", "tr"])
def test_the_right_choice_is_given_away_by_its_length(tongue: str) -> None:
    longest, shortest = lengths_tell([item for item in SETS["choices"] if tongue in item.tags])
    assert longest <= 0.33
    assert shortest <= 0.33


def test_a_set_given_away_by_length_passes() -> None:
    planted = [
        items.read_line(json.dumps({"id": n, "prompt": "?", "choices": ["abc", "a", "b", "c"], "reference": 0}))
        for n in range(4)
    ]
    assert lengths_tell(planted) == (1.0, 0.0)


@every_set
def test_a_prompt_is_too_long_for_a_small_model(name: str) -> None:
    """Without a tokenizer: the built-in model's tokens hold three characters or more in English, two in Turkish."""
    for item in SETS[name]:
        text = item.prompt or "".join(message["content"] for message in item.messages)
        assert len(text) <= {"en": 900, "tr": 800}[language(item)], item.id
