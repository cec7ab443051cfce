"""Token F1 as SQuAD counts it and ROUGE-L by its library, with letters that the library alone would drop."""

from __future__ import annotations

import random

import pytest
from eval_items import value
from rouge_score.rouge_scorer import RougeScorer

from specq.evals import texts


@pytest.mark.parametrize(
    ("reference", "answer", "f1"),
    [
        ("The Eiffel Tower", "eiffel tower!", 1.0),
        ("Eiffel Tower", "tower of London", 2 * 1 / (2 + 3)),
        ("x y y", "y y y", 2 * 2 / (3 + 3)),
        ("a y y", "y y", 1.0),
        ("x", "y", 0.0),
        ("x", "", 0.0),
        ("x", "the", 0.0),
        ("U.S.", "US", 1.0),
        ("well-known", "wellknown", 1.0),
        (["x y", "x y z"], "x y z", 1.0),
        (["x y", "z"], "x", 2 * 1 / (2 + 1)),
    ],
)
def test_token_f1_is_not_that_of_squad(reference: str | list[str], answer: str, f1: float) -> None:
    assert value("token_f1", reference, answer) == pytest.approx(f1)


def test_token_f1_takes_turkish_letters_for_english_ones() -> None:
    assert value("token_f1", "ISPARTA\u2019da g\u00fcl", "\u0131spartada g\u00fcl", {"language": "tr"}) == 1.0
    assert value("token_f1", "ISPARTA", "isparta", {"language": "tr"}) == 0.0
    assert value("token_f1", "ISPARTA", "isparta") == 1.0
    # Turkish has no article: a and the are words.
    assert value("token_f1", "a b", "b", {"language": "tr"}) == pytest.approx(2 / 3)
    assert value("token_f1", "das Haus", "Haus", {"language": "de"}) == 1.0


def test_rouge_l_is_not_that_of_its_library() -> None:
    drawn = random.Random(3)
    library = RougeScorer(["rougeL"])
    words = ["red", "blue", "Green,", "dog.", "runs", "12"]
    for _ in range(200):
        one, other = (" ".join(drawn.choices(words, k=drawn.randint(1, 9))) for _ in range(2))
        assert value("rouge_l", one, other) == pytest.approx(library.score(one, other)["rougeL"].fmeasure)


def test_rouge_l_drops_letters_outside_of_a_to_z() -> None:
    one, other = "g\u00fcne\u015f \u0131\u015f\u0131k", "g\u00fcne\u015f so\u011fuk"
    assert value("rouge_l", one, other, {"language": "tr"}) == pytest.approx(0.5)
    assert RougeScorer(["rougeL"]).score(one, other)["rougeL"].fmeasure != pytest.approx(0.5), "the trap is still there"
    assert value("rouge_l", "\u0130stanbul", "istanbul", {"language": "tr"}) == 1.0
    assert value("rouge_l", "\u6771\u4eac", "\u6771\u4eac") == 1.0
    assert texts.words("\u0130stanbul") == ["i\u0307stanbul"], "a mark belongs to its letter"


def test_rouge_l_takes_another_reference_than_the_best() -> None:
    assert value("rouge_l", ["x y z w", "x y"], "x y") == 1.0
    assert value("rouge_l", ["x y", "x y z w"], "") == 0.0
    assert value("rouge_l", "b a", "a b") == pytest.approx(0.5), "the order counts"
