"""General multiple choice from hand-written tables: a text breaks off, one of four ends goes on rightly."""

from __future__ import annotations

import random
from typing import Any

from makers.choice_words import ENGLISH
from makers.choice_words_tr import TURKISH

Values = dict[str, Any]

_TABLES = {"en": ENGLISH, "tr": TURKISH}
PLACES = 4


def items(language: str, rng: random.Random) -> dict[str, list[Values]]:
    """Items of one language by kind. The right choice stands at each of the four places equally often."""
    made = {}
    for kind, table in _TABLES[language].items():
        rows = [line.split("|") for line in table.strip().splitlines()]
        rng.shuffle(rows)
        places = [number % PLACES for number in range(len(rows))]
        rng.shuffle(places)
        made[kind] = [
            _item(language, kind, number, row, place, rng)
            for number, (row, place) in enumerate(zip(rows, places, strict=True), 1)
        ]
    return made


def _item(language: str, kind: str, number: int, row: list[str], place: int, rng: random.Random) -> Values:
    begin, right, *others = row
    rng.shuffle(others)
    return {
        "id": f"{language}-{kind}-{number:02d}",
        "prompt": begin,
        "choices": [*others[:place], right, *others[place:]],
        "reference": right,
        "tags": [language, kind],
    }
