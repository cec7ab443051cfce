"""What is asked: the stretches of a prompt that no step may touch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from specq.prompts.blocks import Block, blocks, lines
from specq.prompts.sentences import sentences, strip
from specq.prompts.work import SYSTEM, Work

# A paragraph that asks is kept whole up to so many sentences; of a longer one the first, the last and those that ask.
MOST_SENTENCES = 8
_LABEL = re.compile(r"\W*(?:question|query|task|instructions?|q|frage|aufgabe|pregunta)\b[\s*]*[:.)]", re.IGNORECASE)
_ASKS = re.compile(
    r"\W*(?:please\s+|now\s+|then\s+)?(?:answer|extract|summari[sz]e|translate|list|write|explain|compare|find|give|"
    r"return|"
    r"rewrite|fix|classify|describe|tell|name|copy|count|decide|calculate|compute|convert|identify|provide|reply|"
    r"respond|"
    r"use|repeat|complete|continue|choose|select|show|check|correct|sort|rank|read|based on|given|using|according to|"
    r"do not|don't|output|format|make|create|draft|generate|edit|improve|shorten|label|quote|cite|state|is|are|was|"
    r"does|"
    r"do|did|can|could|would|should|will|what|when|where|which|who|whom|whose|why|how)\b(?!\s*:)",
    re.IGNORECASE,
)
_MARK = re.compile(r"[?\uff1f\u061f][\"'\u201d\u2019\u00bb)\]*_]*\s*$")


def place_of(work: Work) -> int | None:
    """The message that asks: the last of a user, None where there is none."""
    users = [place for place, part in enumerate(work.parts) if part.role == "user" and not part.gone]
    return users[-1] if users else None


def find(work: Work, *, is_text: bool = False) -> tuple[tuple[int, int, int], ...]:
    """Message, start and end of each stretch of the question.

    It is the first and the last paragraph of the last message of a user: both, or the one of the two that asks where
    only one does. A paragraph asks where a sentence of it ends in a question mark, has a label such as "Question:", or
    begins like an instruction or a question. Every other sentence of the message with a question mark or a label is of
    the question too. Of a prompt that `is_text`, without messages, the last paragraph is too: a model goes on from it.
    """
    place = place_of(work)
    if place is None:
        return ()
    part = work.parts[place]
    spans = _spans(part.text, last_too=is_text)
    after = [
        (other, 0, len(later.text))
        for other, later in enumerate(work.parts)
        # An answer that is to be continued.
        if other > place and other == len(work.parts) - 1 and later.role not in (*SYSTEM, "tool", "function")
    ]
    return (*((place, start, end) for start, end in spans), *after)


def _spans(text: str, last_too: bool) -> tuple[tuple[int, int], ...]:
    told = blocks(text)
    if not told:
        return ()
    ends = list(dict.fromkeys((told[0], told[-1])))
    data = ("fence", "code", "json")
    asking = [b for b in ends if b.kind not in data and any(_asks(text, *one) for one in _units(text, b))]
    chosen = asking or ends
    if last_too and told[-1] not in chosen:
        chosen = [*chosen, told[-1]]
    spans = {span for block in chosen for span in _kept(text, block)}
    for block in told:
        if block not in chosen and block.kind not in data:
            spans.update(one for one in _units(text, block) if _marked(text, *one))
    return tuple(sorted(spans))


def _kept(text: str, block: Block) -> Iterator[tuple[int, int]]:
    units = list(_units(text, block))
    if len(units) <= MOST_SENTENCES or block.is_code:
        yield block.start, block.end
        return
    for place, unit in enumerate(units):
        if place in (0, len(units) - 1) or _asks(text, *unit):
            yield unit


def _units(text: str, block: Block) -> Iterator[tuple[int, int]]:
    if block.kind in ("fence", "code", "json"):
        yield block.start, block.end
    elif block.kind == "prose":
        yield from sentences(text, block.start, block.end)
    else:
        yield from (strip(text, *line) for line in lines(text, block.start, block.end))


def _marked(text: str, start: int, end: int) -> bool:
    told = text[start:end]
    return _MARK.search(told) is not None or _LABEL.match(told) is not None


def _asks(text: str, start: int, end: int) -> bool:
    return _marked(text, start, end) or _ASKS.match(text[start:end]) is not None
