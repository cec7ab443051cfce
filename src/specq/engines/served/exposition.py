"""Prometheus' text format, and how far counters grew between two scrapes of one server.

The format: https://prometheus.io/docs/instrumenting/exposition_formats/. A counter that falls was reset, and counts
from 0 since: https://prometheus.io/docs/prometheus/latest/querying/functions/#rate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)\s*(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')
_ESCAPED = re.compile(r"\\(.)")
# How the series end that only ever grow: counters, and the parts of histograms.
_GROWING = ("_total", "_sum", "_count", "_bucket")

Labels = tuple[tuple[str, str], ...]


def split(line: str) -> tuple[str, str, str] | None:
    """Name, labels as written and value as written of a sample's line; None for what is no sample."""
    match = _SAMPLE.fullmatch(line.strip())
    return None if match is None else (match[1], match[2] or "", match[3])


def labels(text: str) -> Labels | None:
    """The labels of a sample, sorted; None for what are none."""
    found, at = [], 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            return None
        found.append((match[1], _ESCAPED.sub(lambda one: {"n": "\n"}.get(one[1], one[1]), match[2])))
        at = match.end()
    return tuple(sorted(found))


def samples(text: str) -> Iterator[tuple[str, Labels, float]]:
    """Name, labels and value of each sample of a scrape.

    Raises:
        ValueError: a line is neither a sample nor a comment; the message has the line.
    """
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = split(line)
        of = None if parts is None else labels(parts[1])
        try:
            if parts is None or of is None:
                raise ValueError
            yield parts[0], of, float(parts[2])
        except ValueError:
            raise ValueError(f"no line of Prometheus' text format: {line[:80]!r}") from None


class Grown:
    """What a server's counters grew by from one scrape to the next, their `_total` left out of the names.

    `restarted` says that a counter fell: the server began anew, and all of its counters count from 0.
    """

    def __init__(self, before: str, after: str) -> None:
        was, now = list(samples(before)), list(samples(after))
        counters = {(name, of) for name, of, _ in now if name.endswith(_GROWING)}
        earlier = {(name, of): value for name, of, value in was}
        self.restarted = any((name, of) in counters and value < earlier.get((name, of), 0.0) for name, of, value in now)
        self._was = {} if self.restarted else _by_series(was)
        self._now = _by_series(now)

    def number(self, name: str) -> float | None:
        """The growth of all series of a name; None where the later scrape has none."""
        of = [one for one in self._now if one[0] == name]
        return sum(self._now[one] - self._was.get(one, 0.0) for one in of) if of else None

    def by_position(self, name: str) -> tuple[int, ...] | None:
        """The growth of a name's series by their label "position", from 0 on; None where there are none."""
        found: dict[int, float] = {}
        for one in self._now:
            place = dict(one[1]).get("position", "")
            if one[0] == name and place.isascii() and place.isdigit():
                found[int(place)] = found.get(int(place), 0.0) + self._now[one] - self._was.get(one, 0.0)
        return tuple(int(found[place]) for place in sorted(found)) if found else None


def _by_series(of: Iterable[tuple[str, Labels, float]]) -> dict[tuple[str, Labels], float]:
    # One NaN would make every sum one.
    return {(name.removesuffix("_total"), where): value for name, where, value in of if math.isfinite(value)}
