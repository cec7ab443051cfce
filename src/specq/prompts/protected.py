"""Which fields of a text may not be lost, and whether a change of texts would lose one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from specq.prompts import patterns
from specq.prompts.blocks import groups, is_item, is_row
from specq.prompts.numbers import CURRENCY, quantities
from specq.prompts.sentences import sentences
from specq.prompts.tables import fold
from specq.prompts.types import Kind, Protected


def _any(told: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(map(re.compile, told))


_FIELDS: dict[Kind, tuple[re.Pattern[str], ...]] = {
    "amount": _any(patterns.AMOUNTS),
    "currency": (CURRENCY,),
    "date": _any(patterns.DATES),
    "rate": _any(patterns.RATES),
    "threshold": _any(patterns.THRESHOLDS),
    "source": _any(patterns.SOURCES),
    "version": _any(patterns.VERSIONS),
}
Span = tuple[int, int]
_LINKS = _any(patterns.LINKS)
_RATE_BEFORE, _RATE_AFTER, _THRESHOLD_BEFORE, _THRESHOLD_AFTER = _any(
    (patterns.RATE_BEFORE, patterns.RATE_AFTER, patterns.THRESHOLD_BEFORE, patterns.THRESHOLD_AFTER)
)
_CLAUSES: dict[Kind, re.Pattern[str]] = {"obligation": patterns.OBLIGATIONS, "exception": patterns.EXCEPTIONS}
_VALUES: tuple[Kind, ...] = ("date", "amount", "rate")
_WITHIN_DATES: tuple[Kind, ...] = ("amount", "rate")
_WORD_LAST = re.compile(r"\s?[^\W\d_]{1,12}$")
_ENDS_NO_LINK = ".,;:!?)]}*_\u3002\u201d\u2019"
# A clause goes no further: quotes, braces and bars set cells and values apart.
_BOUND = re.compile(r"[{}\[\]\"|<>;\u201c\u201d\t]+")
_WORD = re.compile(r"\w+(?:[.,:/'\u2019-]\w+)*|[%$\u20ac\u00a3\u00a5\u2264\u2265]")
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"{}\[\],:]+|[{}\[\],:]')


def fields(text: str) -> Counter[Protected]:
    """The protected fields of a text, each with the number of groups of blocks that hold it, in the order of the text.

    Amounts, currencies, dates, rates, thresholds, sources and versions are compared by their characters, whatever the
    space between them; an obligation or an exception by the words of its clause, whatever their case.
    """
    found: Counter[Protected] = Counter()
    for group in groups(text):
        found.update(_of_group(text[group[0].start : group[-1].end], group[0].kind == "json"))
    return found


def changed(before: Iterable[str], after: Iterable[str]) -> Counter[Protected]:
    """By how much each field falls (above 0) or rises where texts take the place of others."""
    net: Counter[Protected] = Counter()
    for text in before:
        net.update(fields(text))
    for text in after:
        net.subtract(fields(text))
    return net


@lru_cache(maxsize=4096)
def _of_group(text: str, is_json: bool) -> tuple[Protected, ...]:
    # JSON is read token by token, so that its white space makes no difference.
    read = " ".join(_JSON_TOKEN.findall(text)) if is_json else text
    found: list[tuple[int, Protected]] = []
    for pattern in _LINKS:
        for match in pattern.finditer(read):
            found.append((match.start(), Protected(kind="source", value=match[0].rstrip(_ENDS_NO_LINK))))
    # What stands within a link is no date and no number of its own.
    for pattern in _LINKS:
        read = pattern.sub(lambda match: " " * len(match[0]), read)
    for kind, told in _spans(fold(read)).items():
        for start, end in _widest(told):
            found.append((start, Protected(kind=kind, value=" ".join(read[start:end].split()))))
    found += _clauses(read)
    return tuple(dict.fromkeys(one for _, one in sorted(found, key=lambda pair: pair[0])))


def _spans(text: str) -> dict[Kind, list[Span]]:
    """Where the fields of a folded text stand, but for clauses and links."""
    found = {
        kind: [match.span() for pattern in told for match in pattern.finditer(text)] for kind, told in _FIELDS.items()
    }
    counts = list[Span]()
    for kind, start, end in quantities(text):
        (counts if kind == "number" else found[kind]).append((start, end))
    values = [*counts, *(span for kind in _VALUES for span in found[kind])]
    found["rate"] += _joined(text, values, _RATE_BEFORE, _RATE_AFTER)
    # "by 3" of "by 3 March 2024" goes on to the end of the date, and "at most EUR 5 a month" to that of the rate.
    found["threshold"] += _joined(text, [*values, *found["rate"]], _THRESHOLD_BEFORE, _THRESHOLD_AFTER)
    # "5/III" of "5/III/2026" is no rate.
    for inner in _WITHIN_DATES:
        found[inner] = [one for one in found[inner] if not any(_is_part(one, date) for date in found["date"])]
    return found


def _is_part(one: Span, other: Span) -> bool:
    return one != other and other[0] <= one[0] and one[1] <= other[1]


def _joined(text: str, values: Iterable[Span], before: re.Pattern[str], after: re.Pattern[str]) -> Iterator[Span]:
    """Values with the words before or after them that make a rate or a threshold of them."""
    begins, ends = dict[int, int](), dict[int, int]()
    for start, end in values:
        begins[start] = max(end, begins.get(start, end))
        ends[end] = min(start, ends.get(end, start))
    for match in before.finditer(text):
        if (last := begins.get(match.end())) is not None:
            yield match.start(), last
    for match in after.finditer(text):
        # One word may stand between: "30 widgets per month", "18 years or older".
        floor = max(0, match.start() - 20)
        held = text[floor : match.start()].rstrip()
        bare = floor + len(_WORD_LAST.sub("", held))
        if (first := ends.get(floor + len(held), ends.get(bare))) is not None:
            yield first, match.end()


def _widest(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The spans that stand within no other: the year of a date is a part of it."""
    reach = -1
    for start, end in sorted(set(spans), key=lambda span: (span[0], -span[1])):
        if end > reach:
            yield start, end
            reach = end


def _clauses(text: str) -> Iterator[tuple[int, Protected]]:
    listed: list[Kind] = []
    for start, end, item in _stretches(text):
        words = " ".join(_WORD.findall(text[start:end])).casefold()
        kinds = [kind for kind, pattern in _CLAUSES.items() if pattern.search(text, start, end)]
        # "The tenant must:" obliges to every item of the list below it.
        for kind in dict.fromkeys([*kinds, *(listed if item else [])]):
            yield start, Protected(kind=kind, value=words)
        if not item:
            listed = kinds if text[start:end].rstrip().endswith(":") else []


def _stretches(text: str) -> Iterator[tuple[int, int, bool]]:
    """Clauses, and whether each stands in an item of a list; lines that stand for themselves end with their line."""
    for start, end, item in _paragraphs(text):
        for first, last in sentences(text, start, end):
            begun = first
            for bound in _BOUND.finditer(text, first, last):
                if text[begun : bound.start()].strip():
                    yield begun, bound.start(), item
                begun = bound.end()
            if text[begun:last].strip():
                yield begun, last, item


def _paragraphs(text: str) -> Iterator[tuple[int, int, bool]]:
    begun, at, item = 0, 0, False
    for line in text.split("\n"):
        alone = is_item(line) or is_row(line) or not line.strip()
        if alone or text[begun:at].rstrip().endswith(":"):
            if text[begun:at].strip():
                yield begun, at, item
            begun, item = at, is_item(line)
        at += len(line) + 1
    if text[begun:].strip():
        yield begun, len(text), item


def forget() -> None:
    """As blocks.forget."""
    _of_group.cache_clear()
