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
    values = [normalised(one, options.normalise) for one in answer]
    if (bad := next((i for i, value in enumerate(values) if value is None), None)) is not None:
        return failed(_unusable(answer[bad]))
    numbers = [value for value in values if value is not None]
    others = [(value, i) for i, value in enumerate(numbers) if i != item.right]
    best, place = max(others)
    if numbers[item.right] > best:
        return RIGHT
    tie = ", both equally likely" if numbers[item.right] == best else ""
    return wrong(f"{quoted(item.choices[place])} for {quoted(item.choices[item.right])}{tie}")


def likelihood_misfit(options: Loglikelihood, item: Item) -> str | None:
    """Why an item has no text to score."""
    return no_texts(item)


def loglikelihood(options: Loglikelihood, item: Item, answer: tuple[Continuation, ...]) -> Score:
    """The log-probability of the reference, in nats; of several references the likeliest."""
    if [one.text for one in answer] != list(item.texts):
        raise ValueError(f"item {item.id}: the continuations are not the reference's texts in their order")
    values = [normalised(one, options.normalise) for one in answer]
    if (bad := next((i for i, value in enumerate(values) if value is None), None)) is not None:
        return failed(_unusable(answer[bad]))
    return Score(value=max(value for value in values if value is not None))


def normalised(scored: Continuation, how: Normalise) -> float | None:
    """A continuation's log-probability, whole or by character or token; None where it is no finite number."""
    if not math.isfinite(scored.logprob) or scored.logprob > _ROUNDING or scored.tokens < 1:
        return None
    return scored.logprob / {"none": 1, "characters": len(scored.text), "tokens": scored.tokens}[how]


def _unusable(scored: Continuation) -> str:
    return f"log-probability {scored.logprob} over {scored.tokens} tokens of {quoted(scored.text)}"
