"""Where prompts of a group stop being equal, and what stands there.

Groups are what a log shows: prompts that begin alike. Where a group parts into a few large ones, they are different
prompts and each is looked at by itself; where it parts by a date, an id or the like, or into many small ones, that is
the group's first volatile token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specq.lab import prefix_values
from specq.lab.prefix_cache import Sorted
from specq.workloads.request import Request

LEAST_SHARE = 0.01
"""Groups of fewer of all prompts are counted and not looked at."""
_SMALL = 0.05
_SEEN = 48
_SHOWN, _AROUND = 3, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A group of prompts and the first volatile token in it.

    The prompts are equal for `equal` tokens; then stands `kind`, in `branches` different ways, of which `values` are
    some. `where` says in which message and line. `before` and `after` are the text around it in one of the prompts;
    `behind` is the mean of tokens a prompt that come after the equal ones. `ids` are two prompts that differ there.
    Without such a token (`kind` is None) all prompts of the group are the same.
    """

    prompts: int
    equal: int
    behind: float
    kind: str | None
    branches: int
    values: tuple[str, ...]
    where: str
    before: str
    after: str
    tags: tuple[str, ...]
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """The volatile tokens of all groups, the group with most tokens first; `rest` prompts are in smaller groups."""

    found: tuple[Point, ...]
    rest: int


def points(found: Sorted, requests: Sequence[Request], text: Callable[[Request], str]) -> Points:
    """Find the groups and their first volatile tokens; `text` gives a prompt's text."""
    least = max(2, int(np.ceil(LEAST_SHARE * len(requests))))
    made, rest = list[Point](), 0
    left = [(0, len(requests))]
    while left:
        low, high = left.pop()
        if high - low < least:
            rest += high - low
            continue
        inner = found.overlap[low + 1 : high]
        equal = int(inner.min())
        # Prompts that end where the group parts are one branch: they are the same.
        parts = (inner == equal) & (found.lengths[found.order[low + 1 : high]] > equal)
        starts = [low, *(low + 1 + np.flatnonzero(parts)).tolist()]
        sizes = np.diff([*starts, high])
        point, volatile = _point(found, requests, text, low, high, equal, starts)
        if volatile or _mostly_small(sizes):
            made.append(point)
        else:
            left += zip(starts, [*starts[1:], high], strict=True)
    made.sort(key=lambda point: -point.prompts * (point.equal + point.behind))
    return Points(found=tuple(made), rest=rest)


def _mostly_small(sizes: np.ndarray) -> bool:
    """Whether most prompts go into small branches."""
    return int(sizes[sizes < max(2, _SMALL * sizes.sum())].sum()) > sizes.sum() / 2


def _point(
    found: Sorted,
    requests: Sequence[Request],
    text: Callable[[Request], str],
    low: int,
    high: int,
    equal: int,
    starts: Sequence[int],
) -> tuple[Point, bool]:
    """The point of a group, and whether what stands there is volatile by its nature."""
    places = found.order[low:high]
    lengths = found.lengths[places]
    tags = Counter(tag for place in places.tolist() for tag in requests[place].tags)
    common = tuple(tag for tag, count in tags.most_common(3) if 2 * count > len(places))
    shown = {"prompts": high - low, "equal": equal, "behind": float((lengths - equal).mean()), "tags": common}
    if len(starts) == 1:
        one = requests[int(places[0])]
        blank = {"kind": None, "branches": 1, "values": (), "where": "", "before": "", "after": ""}
        return Point(**shown, **blank, ids=(one.id,)), True  # type: ignore[arg-type]
    chosen = np.unique(np.linspace(0, len(starts) - 1, min(_SEEN, len(starts))).astype(int))
    seen = sorted(int(found.order[starts[branch]]) for branch in chosen.tolist())
    texts = [text(requests[place]) for place in seen]
    at = _alike(min(texts), max(texts))
    named = prefix_values.name(texts, at)
    first, value = named.starts[0], named.values[0]
    values = tuple(dict.fromkeys(named.values))[:_SHOWN]
    point = Point(
        **shown,  # type: ignore[arg-type]
        kind=named.kind,
        branches=len(starts),
        values=values,
        where=_where(requests[seen[0]], texts[0], at),
        before=texts[0][max(0, first - _AROUND) : first],
        after=texts[0][first + len(value) :][:_AROUND],
        ids=tuple(requests[place].id for place in seen[:2]),
    )
    return point, named.kind in prefix_values.SURE


def _alike(left: str, right: str) -> int:
    """The characters that two texts begin with alike; of the first and the last in order, those that all share."""
    least = min(len(left), len(right))
    return next((place for place in range(least) if left[place] != right[place]), least)


def _where(one: Request, text: str, at: int) -> str:
    """The message and line that a place of a prompt's text lies in."""
    begin = 0
    if one.tools and 0 <= (start := text.find(one.tools)) <= at <= start + len(one.tools):
        return "the tool definitions"
    for number, message in enumerate(one.messages, start=1):
        said = message["content"] if message["content"] in text[begin:] else message["content"].strip()
        start = text.find(said, begin) if said else -1
        if start < 0:
            continue
        if start <= at <= start + len(said):
            line = text[start:at].count("\n") + 1
            return f"message {number} ({message['role']}), line {line}"
        begin = start + len(said)
    return f"line {text[:at].count(chr(10)) + 1}" if one.prompt else "the text between messages"
