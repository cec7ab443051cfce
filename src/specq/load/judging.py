"""What answers are held against: an item's JSON Schema or that of a file, and a metric where the prompts are items."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.core.errors import ConfigError, PromptError
from specq.evals import items as reading
from specq.evals import metrics, schemas
from specq.evals.items import Item
from specq.evals.metric import Metric
from specq.load.rows import Judged

ITEMS = "items"
"""The name of evaluation sets among the formats of prompts."""
_OF_ITEMS = ("reference", "schema")


def is_items(path: Path, format: str) -> bool:
    """Whether a file of prompts is an evaluation set: its format says so, or its first row has what is right."""
    if format != "auto":
        return format == ITEMS
    try:
        with path.open(encoding="utf-8") as file:
            first = json.loads(next((line for line in file if line.strip()), "null"))
    except (OSError, ValueError):
        return False
    known = isinstance(first, dict) and first.keys() <= set(reading.KEYS)
    return known and any(key in first for key in _OF_ITEMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Judges answers: `schema` is that of all items that have none of their own."""

    items: Mapping[str, Item] = field(default_factory=dict)
    metric: Metric | None = None
    schema: Mapping[str, Any] | None = None

    @property
    def sha256(self) -> str:
        """The hash of all that decides what an answer is worth."""
        metric = None if self.metric is None else [self.metric.name, self.metric.options, self.metric.sha256]
        return hashes.of_json([[item.given for item in self.items.values()], metric, self.schema])

    def fits(self, prompt: str, text: str) -> str | None:
        """How an answer fits its schema, in a word of Requested.schema; None where there is none."""
        item = self.items.get(prompt)
        schema = self.schema if item is None or item.schema is None else item.schema
        if schema is None:
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return "no JSON"
        try:
            return "fits" if schemas.misfit(schema, value) is None else "misfit"
        except ValueError:
            # Nested too deeply to be held against it.
            return "misfit"

    def judged(self, answers: Sequence[tuple[str, str, str]], point: str, attempt: int) -> list[Judged]:
        """What answers are worth, given as ids of requests, prompts and texts; nothing without a metric."""
        found = []
        for ident, prompt, text in answers if self.metric is not None else ():
            item = self.items.get(prompt)
            if item is None:
                continue
            assert self.metric is not None
            score = self.metric.score(item, text)
            found.append(
                Judged(
                    id=ident,
                    point=point,
                    attempt=attempt,
                    prompt=prompt,
                    cluster=item.cluster,
                    metric=self.metric.name,
                    score=score.value,
                    why=score.why,
                )
            )
        return found


def of(items: Sequence[Item], path: Path, metric: str | None, schema: Path | None) -> Judging | None:
    """What judges the answers to prompts, `items` where they are some; None where nothing is asked of them.

    Raises:
        ConfigError: a metric without items, no such metric, or one that judges no texts.
        PromptError: it does not fit the items, or a schema is none.
    """
    found = None
    if metric is not None:
        if not items:
            raise ConfigError(
                f"--metric {metric} judges items, and {path} has none: give an evaluation set, whose rows have a "
                "reference or a schema"
            )
        found = metrics.make(metric)
        if found.output != "text":
            raise ConfigError(f'--metric "{metric}" judges log-probabilities, and servers are asked for texts')
        metrics.check(found, items, path)
    read = None if schema is None else _schema(schema)
    if found is None and read is None and not any(item.schema is not None for item in items):
        return None
    return Judging(items={item.id: item for item in items}, metric=found, schema=read)


def _schema(path: Path) -> Mapping[str, Any]:
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PromptError(f"{path}: no JSON Schema can be read from it ({error}); give a file with one") from error
    if why := schemas.fault(schema):
        raise PromptError(f"{path}: the schema {why}")
    found: Mapping[str, Any] = schema
    return found
