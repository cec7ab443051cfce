"""Texts made comparable: each option ignores what it names and nothing else, with Turkish letters too."""

from __future__ import annotations

from typing import Any

import pytest
from eval_items import misfit, score, value

from specq.evals import texts


@pytest.mark.parametrize(
    ("options", "reference", "answer", "right"),
    [
        ({}, "Ankara", "Ankara", 1),
        ({}, "Ankara", " Ankara\n", 1),
        ({}, "New York", "New \n York", 1),
        ({"ignore_whitespace": False}, "Ankara", "Ankara ", 0),
        ({}, "Ankara", "ankara", 0),
        ({"ignore_case": True}, "Ankara", "ANKARA", 1),
        ({"ignore_case": True}, "Straße", "STRASSE", 1),
        ({}, "a.b", "ab", 0),
        ({"ignore_punctuation": True}, "it's, (so)", "its so", 1),
        ({"ignore_punctuation": True}, "\u201cyes\u201d", "yes", 1),
        ({"ignore_punctuation": True}, "a b", "ab", 0),
        ({"ignore_punctuation": True}, "3 + 4", "3 4", 0),
        ({}, "the cat", "cat", 0),
        ({"ignore_articles": True}, "The cat", "a cat", 1),
        ({"ignore_articles": True}, "theory", "ory", 0),
        ({"ignore_articles": True}, "panda", "pand", 0),
        ({"ignore_articles": True}, "die Katze", "Katze", 0),
        ({"ignore_articles": True, "language": "de"}, "Die Katze", "Katze", 1),
        ({}, "caf\u00e9", "cafe\u0301", 1),
        ({"unicode": "none"}, "caf\u00e9", "cafe\u0301", 0),
        ({}, "\ufb01n", "fin", 0),
        ({"unicode": "NFKC"}, "\ufb01n", "fin", 1),
        ({}, ["x", "y"], "y", 1),
        ({}, ["x", "y"], "z", 0),
        ({}, "x", "", 0),
    ],
)
def test_exact_match_ignores_more_or_less_than_it_is_told(
    options: Any, reference: Any, answer: str, right: int
) -> None:
    assert value("exact_match", reference, answer, options) == right


@pytest.mark.parametrize(
    ("language", "one", "other", "same"),
    [
        ("tr", "ISPARTA", "\u0131sparta", True),
        ("tr", "\u0130ZM\u0130R", "izmir", True),
        ("tr", "I\u0307ZMIR", "iz\u006d\u0131r", True),
        ("tr", "ISPARTA", "isparta", False),
        ("en", "ISPARTA", "isparta", True),
        ("en", "ISPARTA", "\u0131sparta", False),
        ("de", "STRASSE", "stra\u00dfe", True),
    ],
)
def test_i_takes_the_case_of_another_language(language: Any, one: str, other: str, same: bool) -> None:
    assert (texts.lower(one, language) == texts.lower(other, language)) is same
    assert value("exact_match", one, other, {"ignore_case": True, "language": language}) == float(same)


@pytest.mark.parametrize(
    ("options", "answer", "right"),
    [
        ({}, "It is 42 EUR.", 1),
        ({}, "It is 142 EUR.", 1),
        ({"whole_words": True}, "It is 142 EUR.", 0),
        ({"whole_words": True}, "It is 42 EUROS.", 0),
        ({"whole_words": True}, "(42 EUR)", 1),
        ({}, "It is 42 eur.", 0),
        ({"ignore_case": True}, "It is 42 eur.", 1),
        ({}, "It is 42  EUR.", 1),
        ({}, "", 0),
    ],
)
def test_contains_finds_what_is_not_there(options: Any, answer: str, right: int) -> None:
    assert value("contains", ["nothing", "42 EUR"], answer, options) == right


def test_whole_words_take_signs_at_the_ends_of_a_reference_for_letters() -> None:
    assert value("contains", "(a+b)", "x(a+b)y", {"whole_words": True}) == 1
    assert value("contains", "\u0131", "s\u0131r", {"whole_words": True}) == 0


@pytest.mark.parametrize(
    ("options", "pattern", "answer", "right"),
    [
        ({}, r"\b4\d\b", "about 42.", 1),
        ({}, r"\b4\d\b", "about 142.", 0),
        ({}, "paris", "Paris", 0),
        ({"ignore_case": True}, "paris", "Paris", 1),
        ({}, "^b", "a\nb", 0),
        ({"multiline": True}, "^b", "a\nb", 1),
        ({}, "a.b", "a\nb", 0),
        ({"dot_all": True}, "a.b", "a\nb", 1),
        ({}, "b", "abc", 1),
        ({"full": True}, "b", "abc", 0),
        ({"full": True}, "b", " b\n", 1),
        ({}, ["x", "y"], "y", 1),
    ],
)
def test_regex_matches_where_it_should_not(options: Any, pattern: Any, answer: str, right: int) -> None:
    assert value("regex", pattern, answer, options) == right


def test_a_pattern_that_never_ends_holds_up_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specq.evals.text_metrics._MOST_SECONDS", 0.05)
    found = score("regex", "(a|aa)+$", "a" * 60 + "b")
    assert found.failed
    assert "took over" in found.why


def test_patterns_that_are_none_or_are_always_right_fit() -> None:
    assert "no regular expression" in misfit("regex", "(")
    assert "matches an empty answer" in misfit("regex", ["x", "y*"])
    assert misfit("regex", "y+") == ""


@pytest.mark.parametrize("name", ["exact_match", "contains", "regex", "token_f1", "rouge_l", "loglikelihood"])
def test_text_metrics_take_references_that_are_no_texts(name: str) -> None:
    assert "the reference is a number, allowed is a text" in misfit(name, 4)
    assert "the reference is an object, allowed is a text" in misfit(name, {"a": 1})
    assert "there is no reference" in misfit(name, None, schema={"type": "object"})
    assert misfit(name, "x") == ""
    assert misfit(name, 1, choices=["x", "y"]) == ""


def test_a_reference_of_which_nothing_is_left_is_in_every_answer() -> None:
    assert "nothing is left of the reference" in misfit("contains", ["x", "?!"], {"ignore_punctuation": True})
    assert "nothing is left of the reference" in misfit("exact_match", "the", {"ignore_articles": True})
    assert misfit("contains", "?!") == ""
    assert "has no words" in misfit("rouge_l", "?!")
    assert "has no words" in misfit("token_f1", "the")


def test_a_wrong_answer_gives_no_reason_or_a_page_of_it() -> None:
    assert score("exact_match", ["Ankara", "x", "y"], "Izmir\n").why == '"Izmir" for "Ankara" or 2 more'
    assert len(score("exact_match", "Ankara", "x " * 500_000).why) < 100
    assert score("exact_match", "Ankara", "Ankara").why == ""
