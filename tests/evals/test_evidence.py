"""Evidence: the quote stands word for word in the right version of the right source, and nowhere else will do."""

from __future__ import annotations

from typing import Any

import pytest
from eval_items import misfit, score, value

SOURCES = [
    {"id": "manual", "version": "1", "text": "The pump runs at 40 bar.\nDrain it weekly. Keep the lid shut."},
    {"id": "manual", "version": 2, "text": "The pump runs at 55 bar.\nDrain it daily. Keep the lid shut."},
    {"id": "leaflet", "version": "1", "text": "Call us when the pump leaks."},
]
RIGHT = {"source": "manual", "version": "2", "answer": "55 bar"}
ANY = {"source": "manual", "version": 2}


def judged(answer: str, reference: Any = RIGHT, **options: Any) -> tuple[float | None, str]:
    found = score("evidence", reference, answer, options, sources=SOURCES)
    return found.value, found.why


@pytest.mark.parametrize(
    "answer",
    [
        "The pump runs at 55 bar.",
        '"runs at 55 bar"',
        "\u201cThe pump runs at 55 bar.\u201d\n",
        "55 bar. Drain it daily.",
        "The  pump\nruns at 55 bar",
        "55 bar",
    ],
)
def test_a_quote_from_the_right_version_is_wrong(answer: str) -> None:
    assert judged(answer) == (1.0, "")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("The pump runs at 40 bar.", "the quote stands only in version 1, wanted is manual 2"),
        ("Drain it weekly.", "the quote stands only in version 1, wanted is manual 2"),
        ("Call us when the pump leaks.", "the quote stands in leaflet 1, wanted is manual 2"),
        ("Drain it daily.", 'the quote stands in the right version, but does not hold "55 bar"'),
        ("the pump runs at 55 bar.", "stands in no source"),
        ("The pump runs at 55 bars", "stands in no source"),
        ("The pump runs at 5", "stands in no source"),
        ("The pump runs at 60 bar", "stands in no source"),
        ("It says: The pump runs at 55 bar.", "stands in no source"),
        ("", "a quote of 0 words"),
        ('"."', "a quote of 0 words"),
    ],
)
def test_a_quote_that_does_not_stand_in_the_right_version_is_right(answer: str, says: str) -> None:
    found, why = judged(answer)
    assert found == 0
    assert says in why


def test_a_quote_in_both_versions_is_held_against_the_wrong_one() -> None:
    assert judged("Keep the lid shut.", ANY) == (1.0, "")
    assert judged("Keep the lid shut.", {"source": "leaflet", "version": "1"})[0] == 0


def test_one_full_stop_too_many_is_wrong_or_two_are_right() -> None:
    assert judged("The pump runs at 55.", ANY)[0] == 1
    assert judged("The pump runs at 55..", ANY)[0] == 0
    assert judged("The pump runs at 55!", ANY)[0] == 0


def test_options_of_evidence_do_nothing() -> None:
    assert judged("THE PUMP runs at 55 bar", ignore_case=True)[0] == 1
    assert judged("55 bar", least_words=3) == (0.0, "a quote of 2 words, wanted are at least 3")
    assert judged('It says "runs at 55 bar", so "yes".', quote="marks")[0] == 1
    assert judged("It says \u201eruns at 55 bar\u201c.", quote="marks")[0] == 1
    assert judged("runs at 55 bar", quote="marks") == (0.0, "nothing in quotation marks")
    assert judged('{"quote": "runs at 55 bar", "version": 2}', quote="json")[0] == 1
    assert judged('{"quote": "runs at 55 bar", "version": 1}', quote="json") == (0.0, 'names version "1" for "2"')
    assert judged('{"quote": "runs at 55 bar", "source": "leaflet"}', quote="json")[0] == 0
    assert judged('{"text": "runs at 55 bar"}', quote="json")[0] == 0
    assert judged("runs at 55 bar", quote="json")[0] == 0


def test_a_reference_that_no_quote_can_prove_fits() -> None:
    assert misfit("evidence", RIGHT) == "there are no sources"
    assert "no object with source, version" in misfit("evidence", "55 bar", sources=SOURCES)
    assert "no object with source, version" in misfit("evidence", {"source": "manual"}, sources=SOURCES)
    assert "no object with source, version" in misfit("evidence", {**ANY, "quote": "x"}, sources=SOURCES)
    assert "names manual 3, which is no source; sources: manual 1, manual 2, leaflet 1" in misfit(
        "evidence", {**ANY, "version": 3}, sources=SOURCES
    )
    assert "does not stand in manual 2" in misfit("evidence", {**ANY, "answer": "40 bar"}, sources=SOURCES)
    assert "no text, or empty" in misfit("evidence", {**ANY, "answer": 55}, sources=SOURCES)
    assert misfit("evidence", RIGHT, sources=SOURCES) == ""


def test_turkish_letters_end_a_word() -> None:
    sources = [{"id": "d", "version": "1", "text": "Is\u0131 s\u0131f\u0131rd\u0131r."}]
    assert value("evidence", {"source": "d", "version": "1"}, "Is", sources=sources) == 0
    assert value("evidence", {"source": "d", "version": "1"}, "Is\u0131", sources=sources) == 1
    options = {"ignore_case": True, "language": "tr"}
    assert value("evidence", {"source": "d", "version": "1"}, "ISI", options, sources=sources) == 1
