"""Items and scores for the tests of metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specq.evals import items, metrics
from specq.evals.items import Item
from specq.evals.metric import Continuation, Score


def item(reference: Any = None, **more: Any) -> Item:
    given = {"id": "a", "prompt": "Q?", **({} if reference is None else {"reference": reference}), **more}
    return items.read_line(json.dumps(given))


def score(name: str, reference: Any, answer: str, options: dict[str, Any] | None = None, **more: Any) -> Score:
    """The score of an answer, by a metric that fits the item."""
    metric, one = metrics.make(name, options), item(reference, **more)
    assert metric.check(one) is None
    return metric.score(one, answer)


def value(name: str, reference: Any, answer: str, options: dict[str, Any] | None = None, **more: Any) -> float | None:
    return score(name, reference, answer, options, **more).value


def misfit(name: str, reference: Any, options: dict[str, Any] | None = None, **more: Any) -> str:
    """Why a metric does not fit; "" where it does."""
    return metrics.make(name, options).check(item(reference, **more)) or ""


def scored(*pairs: tuple[str, float], tokens: int = 1) -> tuple[Continuation, ...]:
    return tuple(Continuation(text=text, logprob=logprob, tokens=tokens) for text, logprob in pairs)


def write(folder: Path, *lines: str | dict[str, Any], name: str = "set.jsonl") -> Path:
    path = folder / name
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    return path
