"""Long prompts of notes with one fact that is asked for: at their start, in their middle or at their end.

Half of a prompt and more says nothing that is asked: filler, facts on other things, repeats, and in between what mail,
pages and machines put around a text. The notes of a workshop are the held-out domain: nothing was tuned on them.
"""

from __future__ import annotations

import json
import random
from typing import Any

from makers import long_words as words
from makers.long_words import Fact

Values = dict[str, Any]
POSITIONS = ("start", "middle", "end")
# Items of each domain and position; a third of them asks for a fact that holds a protected field.
COUNTS = {"club": 24, "workshop": 8}
# As many for the prompts that speed is measured on.
PROMPTS = {"club": 6, "workshop": 2}
HELD_OUT = "workshop"
PARAGRAPHS = 8
# Of the desk's prompts, which all begin with the rules of the house.
DESK_PARAGRAPHS = 4
DESK_COUNTS = {"club": 24, "workshop": 8}
DESK_PROMPTS = {"club": 6, "workshop": 2}


def prompt(item: Values) -> Values:
    """A line of a prompts file: an item without what is right."""
    return {key: item[key] for key in ("id", "messages", "tags")}


def items(
    rng: random.Random, counts: dict[str, int], *, paragraphs: int = PARAGRAPHS, rules: bool = False
) -> dict[str, list[Values]]:
    """Items by domain and position of the fact, so many of each; with `rules` those of the house stand before all."""
    found = {
        f"{domain}-{position}": [_item(domain, position, number, rng, paragraphs) for number in range(count)]
        for domain, count in counts.items()
        for position in POSITIONS
    }
    if rules:
        for item in (item for group in found.values() for item in group):
            item["messages"].insert(0, {"role": "system", "content": words.RULES})
    return found


def _item(domain: str, position: str, number: int, rng: random.Random, paragraphs: int) -> Values:
    kind = "protected" if number % 3 == 2 else "plain"
    facts = words.FACTS[domain]
    asked = facts[kind][number // 3 % len(facts[kind])]
    value = rng.choice(asked[2])
    others = rng.sample([fact for some in facts.values() for fact in some if fact is not asked], 3)
    notes = _notes(domain, position, asked[0].format(value), others, rng, paragraphs)
    return {
        "id": f"{domain}-{position}-{number + 1:02d}",
        "messages": [
            {
                "role": "user",
                "content": f"Here are some notes.\n\n{notes}\n\nQuestion: {asked[1]} Answer with a few words.",
            }
        ],
        "reference": value,
        "tags": [position, domain, kind, *(["held-out"] if domain == HELD_OUT else [])],
    }


def _notes(domain: str, position: str, evidence: str, others: list[Fact], rng: random.Random, count: int) -> str:
    # A short prompt has one sentence of filler a paragraph.
    each = 2 if count == PARAGRAPHS else 1
    filler = rng.sample(words.FILLER[domain], each * count)
    paragraphs = [" ".join(filler[at : at + each]) for at in range(0, len(filler), each)]
    place = {"start": 0, "middle": count // 2, "end": count - 1}[position]
    for at, (sentence, _, values) in zip((1, 2, count - 2), others, strict=True):
        paragraphs[at] += " " + sentence.format(rng.choice(values))
    paragraphs[place] = f"{evidence} {paragraphs[place]}" if rng.random() < 0.5 else f"{paragraphs[place]} {evidence}"
    # What stands twice stands behind the fact, so that a fact at the start stays there.
    paragraphs.insert(place + 1, paragraphs[3 if place != 3 else min(4, count - 3)])
    paragraphs.insert(count // 2 + (2 if count == PARAGRAPHS else 1), _around(domain, rng))
    return "\n\n".join(paragraphs)


def _around(domain: str, rng: random.Random) -> str:
    """What stands around the text of a mail or a page, or what machines write."""
    if domain != HELD_OUT:
        return f"{words.NAVIGATION}\n\n{rng.choice(words.SIGNATURES)}\n\n{words.FOOTER}"
    rows = [
        {"machine": machine, "state": rng.choice(words.STATES), "note": None, "tags": []}
        for machine in rng.sample(words.MACHINES, 3)
    ]
    return json.dumps(rows, indent=4)
