"""Short documents in one or two editions, and questions whose answer stands in one edition only."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from makers.version_words import ASKED, DOCUMENTS, EXAMPLE, EXAMPLE_EDITIONS, LINE, Point

Values = dict[str, Any]
# An edition's name with the values of the document's points.
Edition = tuple[str, list[str]]

# Documents of each kind; each asks for two of its points.
COUNTS = {"en": {"single": 25, "two": 80}, "tr": {"single": 8, "two": 24}}
POINTS = 3


def items(language: str, rng: random.Random) -> dict[str, list[Values]]:
    """Items of one language by kind: "single" with one edition, "two" with two of which the question names one."""
    titles = list(DOCUMENTS[language])
    made: dict[str, list[Values]] = {}
    for kind, count in COUNTS[language].items():
        made[kind] = []
        for number in range(count):
            title = titles[number % len(titles)]
            points = rng.sample(DOCUMENTS[language][title], POINTS)
            editions = _editions(points, kind, rng)
            # The edition asked for stands first or last, and is the older or the newer, equally often.
            if number % 2:
                editions.reverse()
            name = f"{language}-{kind}-{number + 1:03d}"
            for step, place in enumerate(rng.sample(range(POINTS), 2)):
                asked = (number // 2 + step) % len(editions)
                made[kind].append(_item(language, kind, name, title, points, editions, place, asked))
    return made


def _editions(points: Sequence[Point], kind: str, rng: random.Random) -> list[Edition]:
    """One or two editions, of two each value other than in the other."""
    pairs = [rng.sample(values, 2) for _, values in points]
    year = rng.randrange(2008, 2018)
    years = (str(year), str(year + rng.randrange(2, 7)))
    return [(years[step], [pair[step] for pair in pairs]) for step in range(1 if kind == "single" else 2)]


def _item(
    language: str,
    kind: str,
    name: str,
    title: str,
    points: Sequence[Point],
    editions: Sequence[Edition],
    place: int,
    asked: int,
) -> Values:
    """The question for one point of one edition, after an answered example of the same kind."""
    source = title.casefold().replace(" ", "-")
    version, values = editions[asked]
    example, known = EXAMPLE[language]
    shown = [(EXAMPLE_EDITIONS[step], [point[1][step] for point in known]) for step in range(len(editions))]
    edition, says = shown[-1]
    answer = json.dumps({"quote": _line(language, edition, known[0], says[0])}, ensure_ascii=False)
    return {
        "id": f"{name}-{place + 1}",
        "messages": [
            {"role": "user", "content": _prompt(language, example, known, shown, known[0][0], edition)},
            {"role": "assistant", "content": answer},
            {"role": "user", "content": _prompt(language, title, points, editions, points[place][0], version)},
        ],
        "reference": {"source": source, "version": version, "answer": values[place]},
        "sources": [{"id": source, "version": one[0], "text": _text(language, points, one)} for one in editions],
        "tags": [language, kind, *([] if kind == "single" else ["named-first" if asked == 0 else "named-last"])],
        "cluster": name,
    }


def _line(language: str, version: str, point: Point, value: str) -> str:
    return LINE[language].format(version=version, point=point[0], value=value)


def _text(language: str, points: Sequence[Point], edition: Edition) -> str:
    version, values = edition
    return "\n".join(_line(language, version, point, value) for point, value in zip(points, values, strict=True))


def _prompt(
    language: str, title: str, points: Sequence[Point], editions: Sequence[Edition], point: str, version: str
) -> str:
    texts = "\n".join(_text(language, points, edition) for edition in editions)
    return f"{title}\n{texts}\n\n{ASKED[language].format(version=version, point=point)}"
