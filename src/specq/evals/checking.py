"""Checking a set from its file: items, metric, margin, tokens, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError
from specq.evals import items, metrics
from specq.evals.describe import Description, describe
from specq.evals.items import Item


def check(
    path: Path,
    metric: str | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    margin: float | None = None,
    model: str | None = None,
) -> Description:
    """Read, check and describe a set; `model` names whose tokens are counted.

    Raises:
        PromptError: the file or a line is wrong, or the metric does not fit.
        ConfigError: no such metric or option, options without a metric, or a margin out of range.
        ModelError: no such model, or it has no tokenizer.
    """
    if margin is not None and not 0 < margin < 1:
        raise ConfigError(f"margin = {margin}: allowed is a share above 0 and below 1; 0.02 is 2 points")
    if options and metric is None:
        raise ConfigError("options of a metric and no metric; name one")
    made = None if metric is None else metrics.make(metric, options)
    found = items.load(path)
    if made is not None:
        metrics.check(made, found, path)
    count = None if model is None else _counter(model)
    return describe(path, found, metric=made, margin=margin, count_tokens=count)


def _counter(model: str) -> Callable[[Item], int]:
    from specq.models import refs, tokenizers

    tokenizer = tokenizers.load(refs.resolve(model))
    return lambda item: len(tokenizers.render(tokenizer, item.asked).ids)
