"""What a metric is: data, and a pure function from an item and an answer to a score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from specq.evals.items import Item

Output = Literal["text", "choice", "loglikelihood"]
# Longer quotes of answers would hide the reason.
_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What one answer is worth, and in a few words why it is not right.

    `value` is None where no score could be made (a function that raised, a log-probability that is no number): such
    an item failed, which is neither right nor wrong.
    """

    value: float | None
    why: str = ""

    @property
    def failed(self) -> bool:
        """Whether no score could be made."""
        return self.value is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """What a harness tells of a text that was scored after the prompt.

    `logprob` is the sum of its tokens' natural log-probabilities, `tokens` their count.
    """

    text: str
    logprob: float
    tokens: int


Answer = str | tuple[Continuation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric with its options, ready to judge.

    `output` tells what it judges: "text" a generated text, "choice" one Continuation for each choice, in their order,
    "loglikelihood" one for each text of the reference. `binary` ones score 0 or 1. `options` holds all, defaults
    filled in. `sha256` is that of the file of a metric function.
    """

    name: str
    output: Output
    binary: bool
    misfit: Callable[[Item], str | None]
    judge: Callable[[Item, Any], Score]
    options: Mapping[str, Any] = field(default_factory=dict)
    sha256: str | None = None

    def check(self, item: Item) -> str | None:
        """Why the metric cannot judge this item, or None when it can."""
        return self.misfit(item)

    def score(self, item: Item, answer: Answer) -> Score:
        """What an answer to the item is worth. The item must have passed `check`.

        Raises:
            TypeError: the answer is not of the metric's `output`.
        """
        if isinstance(answer, str) is not (self.output == "text"):
            wanted = "a text" if self.output == "text" else "a tuple of Continuation"
            raise TypeError(f'metric "{self.name}" judges {wanted}, given is {type(answer).__name__}')
        return self.judge(item, answer)


RIGHT = Score(value=1.0)


def wrong(why: str) -> Score:
    """Nothing right, and why."""
    return Score(value=0.0, why=why)


def failed(why: str) -> Score:
    """No score could be made, and why."""
    return Score(value=None, why=why)


def quoted(text: str) -> str:
    """An answer or a reference, in quotes, on one line, cut where it is long."""
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= _SHOWN else f'"{line[:_SHOWN]}..."'


def no_texts(item: Item) -> str | None:
    """Why an item has no reference that is a text, or None when it has one."""
    if item.texts:
        return None
    hints = {"number": "; number_match takes numbers", "object": "; fields, tool_call and evidence take objects"}
    given = {"none": "there is no reference"}.get(item.kind, f"the reference is a {item.kind}".replace("a o", "an o"))
    return f"{given}, allowed is a text or a list of texts{hints.get(item.kind, '')}"
