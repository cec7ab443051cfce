"""Prompts of given lengths made of real text, no two of which begin alike.

Random tokens are no text: what a draft proposes after them, and how much of it is accepted, says nothing of any user.
They can be made for measuring prefill, carry a tag, and a plan refuses drafts on them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from specq.core.errors import ConfigError, PromptError
from specq.experiment.prompts import RANDOM_TOKENS
from specq.workloads import source
from specq.workloads.counting import CHARACTERS, Counter
from specq.workloads.request import Request

TEXT = "builtin:text"
MANUAL = "builtin:manual"
BUILTINS = {
    TEXT: "prose, talk, code and numbers in some languages, about 400 words",
    MANUAL: "the manual of the Python that runs this, some 65,000 words; other versions have another text",
}
_BETWEEN = "\n\n"
_TRIES = 4
# A first token is at most so long; beyond it a text need not be read to know how it begins.
_HEAD = 64


def text_of(name: str) -> str:
    """The text of a file, or of a built-in.

    Raises:
        PromptError: it cannot be read, is empty, or no such built-in.
    """
    if name == TEXT:
        from specq.quantize.sample_text import MESSAGES, TEXTS

        return _BETWEEN.join((*TEXTS, *(message["content"] for message in MESSAGES)))
    if name == MANUAL:
        return _manual()
    if name.startswith("builtin:"):
        raise PromptError(f"no text {name}; allowed are {', '.join(BUILTINS)}, or a text file")
    text = source.text_of(Path(name)).strip()
    if not text:
        raise PromptError(f"{name}: no text in it; give a text file, or {TEXT}")
    return text


def _manual() -> str:
    try:
        from pydoc_data import topics  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise PromptError(f"this Python came without its manual; give a text file, or {TEXT}") from error
    return _BETWEEN.join(topics.topics[name].strip() for name in sorted(topics.topics))


def make(
    text: str, tokens: Sequence[int], count: int, counter: Counter, *, seed: int = 0, shuffled: bool = False
) -> tuple[Request, ...]:
    """Prompts of about `tokens` units each, `count` of every length, cut from a text at the beginnings of its words.

    No two begin with the same unit, so that no prefix cache holds the beginning of one for another; where a text ends
    it goes on at its beginning, and none is longer than the text, for repetition flatters every draft. With `shuffled`
    the units stand in random order.

    Raises:
        ConfigError: no length or count, or one below 1.
        PromptError: the text is shorter than a prompt, or has too few different beginnings.
    """
    if not tokens or min(tokens) < 1 or count < 1:
        raise ConfigError(
            f"tokens {', '.join(map(str, tokens)) or 'none'}, count {count}: allowed is 1 or more of each"
        )
    twice = f"{text}{_BETWEEN}{text}"
    spans = counter.spans(twice)
    own = sum(end <= len(text) for _, end in spans)
    if max(tokens) > own:
        raise PromptError(
            f"the text has {own:,} {counter.unit}, and a prompt of {max(tokens):,} would repeat it, which flatters "
            f"every draft; give a longer text, such as {MANUAL}"
        )
    wanted = [length for length in tokens for _ in range(count)]
    starts = _starts(twice, spans[:own], counter, random.Random(seed))
    made = []
    for number, length in enumerate(wanted, start=1):
        start = next(starts, None)
        if start is None:
            raise PromptError(
                f"{len(wanted):,} prompts that begin differently, and the text has {number - 1:,} different beginnings "
                f"({counter.unit}); give a longer text or ask for fewer"
            )
        cut = _shuffled(twice, spans[:own], start, length, random.Random(seed + number)) if shuffled else None
        said = _cut(twice, spans, start, length, counter) if cut is None else cut
        tag = f"{length}-{'tokens' if counter.unit.startswith('tokens') else counter.unit}"
        made.append(
            Request(
                id=f"synthetic-{number:04d}",
                line=number,
                messages=({"role": "user", "content": said},),
                tags=(tag, RANDOM_TOKENS) if shuffled else (tag,),
            )
        )
    return tuple(made)


def _starts(text: str, spans: Sequence[tuple[int, int]], counter: Counter, rng: random.Random) -> Iterator[int]:
    """Places among the units, in random order, where a word begins with a unit that no other of them begins with."""
    places = [0, *(at + 1 for at, (one, two) in enumerate(pairwise(spans)) if _new_word(text, one, two))]
    rng.shuffle(places)
    taken: set[str] = set()
    for place in places:
        head = text[_first(text, spans[place]) :][:_HEAD]
        start, end = counter.spans(head)[0]
        # Letters that differ in case alone may be one token to no tokenizer, but a word and its beginning can share it.
        if head[start:end] not in taken:
            taken.add(head[start:end])
            yield place


def _new_word(text: str, before: tuple[int, int], here: tuple[int, int]) -> bool:
    """Whether a letter stands first in a unit that follows a blank."""
    first = _first(text, here)
    return text[first : first + 1].isalpha() and (text[first - 1].isspace() or before[1] < here[0])


def _first(text: str, span: tuple[int, int]) -> int:
    """The first character of a unit that is no blank: tokenizers put the blank before a word into its token."""
    start = span[0]
    while start < span[1] - 1 and text[start].isspace():
        start += 1
    return start


def _cut(text: str, spans: Sequence[tuple[int, int]], start: int, length: int, counter: Counter) -> str:
    """From a place on, about `length` units as they are counted in the cut itself."""
    first, units = _first(text, spans[start]), length
    said = ""
    for _ in range(_TRIES):
        said = text[first : spans[min(start + units, len(spans)) - 1][1]]
        said = said if counter.unit == CHARACTERS else said.rstrip()
        over = counter.count(said) - length
        if over == 0 or units - over < 1:
            break
        units -= over
    return said


def _shuffled(text: str, spans: Sequence[tuple[int, int]], start: int, length: int, rng: random.Random) -> str:
    """A first unit and others of the text in random order, with a blank between words as they had it."""
    drawn = [spans[start], *(spans[rng.randrange(len(spans))] for _ in range(length - 1))]
    said = []
    for begin, end in drawn:
        blank = " " if begin and text[begin - 1].isspace() else ""
        said.append(blank + text[begin:end])
    return "".join(said).strip()
