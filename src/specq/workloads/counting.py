"""What lengths are counted in: a model's tokens, words or characters."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from specq.core.errors import ConfigError, nearest

WORDS = "words"
CHARACTERS = "characters"
UNITS = (WORDS, CHARACTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A unit of length: its name as reports say it, where each unit of a text begins and ends, how many there are."""

    unit: str
    spans: Callable[[str], list[tuple[int, int]]]

    def count(self, text: str) -> int:
        """How many units a text has."""
        return len(self.spans(text))


def counter(model: str | None = None, unit: str = WORDS) -> Counter:
    """The tokens of a model, or without one words (runs without blanks) or characters.

    Raises:
        ConfigError: no such unit. ModelError: no such model, or it has no tokenizer.json.
    """
    if model is not None:
        from specq.models import light_tokenizer

        return Counter(unit=f"tokens of {model}", spans=light_tokenizer.load(model).spans)
    if unit not in UNITS:
        raise ConfigError(f"unit {unit}{nearest(unit, UNITS) or ';'} allowed: {', '.join(UNITS)}")
    return Counter(unit=unit, spans=_word_spans if unit == WORDS else _character_spans)


def _word_spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\S+", text)]


def _character_spans(text: str) -> list[tuple[int, int]]:
    return [(place, place + 1) for place in range(len(text))]
