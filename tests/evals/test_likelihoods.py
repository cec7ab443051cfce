"""Choices and references by log-probability: which normalisation decides, and numbers that are none."""

from __future__ import annotations

import math
from typing import Any

import pytest
from eval_items import item, misfit, scored

from specq.evals import metrics
from specq.evals.metric import Continuation, Score

CHOICES = ["no", "certainly"]


def choose(no: float, certainly: float, normalise: str = "none", tokens: tuple[int, int] = (1, 4)) -> Score:
    answer = tuple(
        Continuation(text=text, logprob=logprob, tokens=count)
        for text, logprob, count in zip(CHOICES, (no, certainly), tokens, strict=True)
    )
    metric = metrics.make("choice", {"normalise": normalise})
    return metric.score(item("certainly", choices=CHOICES), answer)


@pytest.mark.parametrize(
    ("no", "certainly", "none", "characters", "tokens"),
    [(-2.0, -1.0, 1, 1, 1), (-2.0, -4.0, 0, 1, 1), (-2.0, -8.8, 0, 1, 0), (-2.0, -9.5, 0, 0, 0), (-1.0, -4.4, 0, 1, 0)],
)
def test_another_normalisation_decides(no: float, certainly: float, none: int, characters: int, tokens: int) -> None:
    for how, right in (("none", none), ("characters", characters), ("tokens", tokens)):
        assert choose(no, certainly, how).value == right, how


def test_a_tie_is_right_by_the_order_of_the_choices() -> None:
    assert choose(-1.0, -1.0) == Score(value=0.0, why='"no" for "certainly", both equally likely')
    metric = metrics.make("choice")
    assert metric.score(item("no", choices=CHOICES), scored(("no", -1.0), ("certainly", -1.0))).value == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.5])
def test_a_log_probability_that_is_none_is_judged(bad: float) -> None:
    for found in (choose(bad, -1.0), choose(-1.0, bad)):
        assert found.failed
        assert "log-probability" in found.why
    assert choose(-1.0, 1e-7).value == 1, "rounding may lift a certain token above 0"
    assert choose(-1.0, -1.0, tokens=(1, 0)).failed


@pytest.mark.parametrize("answer", [scored(("certainly", -1.0), ("no", -2.0)), scored(("no", -2.0)), ()])
def test_scores_of_other_texts_are_taken_for_those_of_the_choices(answer: Any) -> None:
    with pytest.raises(ValueError, match="not the item's choices in their order"):
        metrics.make("choice").score(item("no", choices=CHOICES), answer)


def test_log_likelihood_is_not_that_of_the_best_reference() -> None:
    answer = scored(("yes", -6.0), ("of course", -9.0), tokens=3)
    one = item(["yes", "of course"])
    assert metrics.make("loglikelihood").score(one, answer).value == -6.0
    assert metrics.make("loglikelihood", {"normalise": "characters"}).score(one, answer).value == -1.0
    assert metrics.make("loglikelihood", {"normalise": "tokens"}).score(one, answer).value == -2.0
    assert metrics.make("loglikelihood").score(one, scored(("yes", math.nan), ("of course", -9.0))).failed
    with pytest.raises(ValueError, match="not the reference's texts"):
        metrics.make("loglikelihood").score(one, answer[:1])


def test_items_without_choices_fit_choice() -> None:
    assert misfit("choice", "yes") == "there are no choices"
    assert misfit("choice", "no", choices=CHOICES) == ""


def test_a_critical_item_is_passed_over_for_it_has_no_full_score() -> None:
    assert "a log-probability has no full score to fall from" in misfit("loglikelihood", "yes", critical=True)
    assert misfit("loglikelihood", "yes") == ""
    assert misfit("choice", "no", choices=CHOICES, critical=True) == ""


def test_a_text_is_judged_as_a_log_probability_or_the_other_way_round() -> None:
    with pytest.raises(TypeError, match="judges a tuple of Continuation, given is str"):
        metrics.make("choice").score(item("no", choices=CHOICES), "no")
    with pytest.raises(TypeError, match="judges a text, given is tuple"):
        metrics.make("exact_match").score(item("no"), scored(("no", -1.0)))
