"""What a lookup draft would copy along texts of files: their ids alone fix it, under every rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from specq.core.types import Match
from specq.forecast import replay
from specq.forecast.imported import Text
from specq.forecast.replay import Copied

WORDS: dict[str, Match] = {"lookup": "ngram", "lookup:ngram": "ngram", "lookup:suffix": "suffix"}
"""In the place of a draft's file; a file of such a name is given by its whole path."""


def match(draft: Path) -> Match | None:
    """How the lookup that stands in the place of a file finds its place; None: it is a file."""
    return WORDS.get(str(draft))


def along(text: Text, how: Match, most: int, max_new_tokens: int | None = None) -> Copied:
    """A text for replay under a lookup with the limits that `specq drafts` gives it, `most` tokens a step.

    `max_new_tokens` fixes how far last steps propose past the text's end; None: it is not known, and they are given all
    that they may propose.
    """
    from specq.decoding.drafters.lookup import LookupDrafter, NgramIndex, SuffixIndex

    drafter = LookupDrafter(NgramIndex(3, 1) if how == "ngram" else SuffixIndex(1))
    total = len(text.ids) - text.prompt_tokens
    proposed, matched = np.zeros((2, total), dtype=int)
    # Token 0 came from the prefill: nothing is proposed for it.
    for t in range(1, total):
        copies = drafter.propose(text.ids[: text.prompt_tokens + t], most).ids
        proposed[t] = len(copies)
        for copy, token in zip(copies, text.ids[text.prompt_tokens + t :], strict=False):
            if copy != token:
                break
            matched[t] += 1
    return Copied(matched=matched, proposed=proposed, room=most if max_new_tokens is None else max_new_tokens - total)


def summed(texts: Sequence[Copied], cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest of `replay.summed`'s mean over all rooms that the texts may have."""
    found = [
        replay.summed([dataclasses.replace(one, room=room) for one in texts], cost).mean for room in range(len(cost))
    ]
    return np.min(found, axis=0), np.max(found, axis=0)
