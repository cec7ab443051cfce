"""Metrics that look for the reference's text in an answer: exact_match, contains, regex."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import regex as regex_library

from specq.evals import texts
from specq.evals.items import Item
from specq.evals.metric import RIGHT, Score, failed, no_texts, quoted, wrong
from specq.evals.options import Options

# A pattern that backtracks without end would hold up the run.
_MOST_SECONDS = 5.0


class Normal(Options):
    """How texts are made comparable before they are compared."""

    ignore_case: bool = False
    ignore_punctuation: bool = False
    ignore_whitespace: bool = True
    ignore_articles: bool = False
    unicode: texts.Form = "NFC"
    language: texts.Language = "en"

    def of(self, text: str) -> str:
        """The text without what the options ignore."""
        return texts.normalised(
            text,
            case=self.ignore_case,
            punctuation=self.ignore_punctuation,
            whitespace=self.ignore_whitespace,
            articles=self.ignore_articles,
            form=self.unicode,
            language=self.language,
        )


class ExactMatch(Normal):
    """Options of exact_match."""


class Contains(Normal):
    """Options of contains; `whole_words` lets no reference begin or end inside of a word."""

    whole_words: bool = False


class Regex(Options):
    """Options of regex; `full` asks that the whole answer matches, blanks at its ends left out."""

    ignore_case: bool = False
    multiline: bool = False
    dot_all: bool = False
    full: bool = False


def text_misfit(options: Normal, item: Item) -> str | None:
    """Why a reference cannot be compared as text: it is none, or nothing is left of it."""
    if why := no_texts(item):
        return why
    empty = next((text for text in item.texts if not options.of(text)), None)
    return None if empty is None else f"nothing is left of the reference {quoted(empty)} with these options"


def exact_match(options: ExactMatch, item: Item, answer: str) -> Score:
    """1 where the answer is one of the references."""
    given = options.of(answer)
    return RIGHT if any(given == options.of(text) for text in item.texts) else wrong(instead(item, answer))


def contains(options: Contains, item: Item, answer: str) -> Score:
    """1 where one of the references stands in the answer."""
    given = options.of(answer)
    found = any(stands_in(options.of(text), given, whole_words=options.whole_words) for text in item.texts)
    return RIGHT if found else wrong(instead(item, answer))


def instead(item: Item, answer: str) -> str:
    """What was said instead of the reference."""
    others = len(item.texts) - 1
    return f"{quoted(answer)} for {quoted(item.texts[0])}{f' or {others} more' if others else ''}"


def stands_in(part: str, text: str, *, whole_words: bool) -> bool:
    """Whether a text holds a part, on request with no letter or digit that goes on at its ends."""
    if not whole_words:
        return part in text
    before = r"(?<!\w)" if regex_library.match(r"\w", part) else ""
    after = r"(?!\w)" if regex_library.match(r"\w", part[-1:]) else ""
    return regex_library.search(before + regex_library.escape(part) + after, text) is not None


def regex_misfit(options: Regex, item: Item) -> str | None:
    """Why a reference is no pattern that can tell right from wrong."""
    if why := no_texts(item):
        return why
    for pattern in item.texts:
        try:
            compiled = _compiled(pattern, options)
        except regex_library.error as error:
            return f"the reference {quoted(pattern)} is no regular expression ({error})"
        if compiled.search("") is not None:
            return f"the reference {quoted(pattern)} matches an empty answer, so every answer is right"
    return None


def regex(options: Regex, item: Item, answer: str) -> Score:
    """1 where one of the references, read as patterns, matches somewhere in the answer."""
    for pattern in item.texts:
        compiled = _compiled(pattern, options)
        match = compiled.fullmatch if options.full else compiled.search
        try:
            if match(answer.strip() if options.full else answer, timeout=_MOST_SECONDS) is not None:
                return RIGHT
        except TimeoutError:
            return failed(f"the pattern {quoted(pattern)} took over {_MOST_SECONDS:.0f} s on this answer")
    return wrong(f"{quoted(answer)} does not match")


@lru_cache(maxsize=1024)
def _compiled(pattern: str, options: Regex) -> Any:
    flags = regex_library.IGNORECASE if options.ignore_case else 0
    flags |= regex_library.MULTILINE if options.multiline else 0
    flags |= regex_library.DOTALL if options.dot_all else 0
    return regex_library.compile(pattern, flags)
