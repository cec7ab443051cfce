"""Metrics on log-probabilities that a harness measured: choice and loglikelihood."""

from __future__ import annotations

import math
from typing import Literal

from specq.evals.items import Item
from specq.evals.metric import RIGHT, Continuation, Score, failed, no_texts, quoted, wrong
from specq.evals.options import Options

Normalise = Literal["none", "characters", "tokens"]


# How far above 0 rounding may lift the log-probability of a certain token.
_ROUNDING = 1e-3


class Choice(Options):
    """Options of choice: what a choice's summed log-probability is divided by."""

    normalise: Normalise = "none"


class Loglikelihood(Options):
    """Options of loglikelihood: what the summed log-probability is divided by."""

    normalise: Normalise = "none"


def choice_misfit(options: Choice, item: Item) -> str | None:
    """Why an item has no choices."""
    return None if item.right is not None else "there are no choices"


def choice(options: Choice, item: Item, answer: tuple[Continuation, ...]) -> Score:
    """1 where the right choice is likelier than every other; a tie with another is wrong, whatever the order."""
    if [one.text for one in answer] != list(item.choices):
        raise ValueError(f"item {item.id}: the continuations are not the item's choices in their order")
    assert item.right is not None
    if unusable := _unusable(answer):
        return failed(unusable)
    numbers = [normalised(one, options.normalise) for one in answer]
    others = [(value, i) for i, value in enumerate(numbers) if i != item.right]
    best, place = max(others)
    if numbers[item.right] > best:
        return RIGHT
    tie = ", both equally likely" if numbers[item.right] == best else ""
    return wrong(f"{quoted(item.choices[place])} for {quoted(item.choices[item.right])}{tie}")


def likelihood_misfit(options: Loglikelihood, item: Item) -> str | None:
    """Why an item has no text to score, or no score that it could be held to."""
    if item.critical:
        return "it is critical, and a log-probability has no full score to fall from: take critical off, or use choice"
    return no_texts(item)


def loglikelihood(options: Loglikelihood, item: Item, answer: tuple[Continuation, ...]) -> Score:
    """The log-probability of the reference, in nats; of several references the likeliest."""
    if [one.text for one in answer] != list(item.texts):
        raise ValueError(f"item {item.id}: the continuations are not the reference's texts in their order")
    if unusable := _unusable(answer):
        return failed(unusable)
    return Score(value=max(normalised(one, options.normalise) for one in answer))


def normalised(scored: Continuation, how: Normalise) -> float:
    """A continuation's log-probability, whole or by character or token."""
    return scored.logprob / {"none": 1, "characters": len(scored.text), "tokens": scored.tokens}[how]


def _unusable(answer: tuple[Continuation, ...]) -> str:
    """The first continuation whose log-probability is no such number, in words; "" where all are."""
    for one in answer:
        if not math.isfinite(one.logprob) or one.logprob > _ROUNDING or one.tokens < 1:
            return f"log-probability {one.logprob} over {one.tokens} tokens of {quoted(one.text)}"
    return ""
