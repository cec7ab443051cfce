"""Writes the example sets of this folder: python evals/make.py [FOLDER].

All texts stand in makers/, invented for this project. The same seed gives the same bytes.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from makers import choices, invoices, longs, versions

SEED = 20240917
SETS = {"invoices": invoices.items, "versions": versions.items, "choices": choices.items}
LANGUAGES = ("en", "tr")

Values = dict[str, Any]


def main(folder: Path) -> None:
    """Writes the seven files into a folder."""
    for name, items in SETS.items():
        groups = []
        for language in LANGUAGES:
            # A stream of its own for each part: a change in one leaves the others as they are.
            groups += items(language, random.Random(f"{SEED} {name} {language}")).values()
        write(folder / f"{name}.jsonl", groups)
    # English alone; prompts of the same kinds, without an answer, are what speed is measured on.
    write(folder / "long.jsonl", list(longs.items(random.Random(f"{SEED} long"), longs.COUNTS).values()))
    asked = longs.items(random.Random(f"{SEED} long prompts"), longs.PROMPTS).values()
    write(folder / "long-prompts.jsonl", [[longs.prompt(item) for item in group] for group in asked])
    # The same with a beginning that all prompts share, and half as long after it.
    shape: Values = {"paragraphs": longs.DESK_PARAGRAPHS, "rules": True}
    write(folder / "desk.jsonl", list(longs.items(random.Random(f"{SEED} desk"), longs.DESK_COUNTS, **shape).values()))
    asked = longs.items(random.Random(f"{SEED} desk prompts"), longs.DESK_PROMPTS, **shape).values()
    write(folder / "desk-prompts.jsonl", [[longs.prompt(item) for item in group] for group in asked])


def write(file: Path, groups: list[list[Values]]) -> None:
    """Writes a set, its groups mixed."""
    lines = [json.dumps(item, ensure_ascii=False) + "\n" for item in interleaved(groups)]
    file.write_text("".join(lines), encoding="utf-8")


def interleaved(groups: list[list[Values]]) -> list[Values]:
    """All items, each group spread evenly over the whole, so that the first items of a file are mixed."""
    placed = [((place + 0.5) / len(group), item) for group in groups for place, item in enumerate(group)]
    return [item for _, item in sorted(placed, key=lambda one: one[0])]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
