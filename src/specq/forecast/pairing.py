"""A text of the target beside the same text under a draft, both after warping; texts that it did not write refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specq.core.errors import PromptError
from specq.core.types import Sampling
from specq.decoding.law import LEAST_P
from specq.forecast import MOST_K, origin, warped
from specq.forecast.between import Between
from specq.forecast.imported import Position, Text
from specq.forecast.origin import Evidence
from specq.forecast.warped import Reach

# What stands for a token that the target's law does not have.
_LEAST = Reach(low=math.log(LEAST_P), high=math.log(LEAST_P), member="out")
# Logarithms closer than this are one: exported numbers are rounded.
_SAME = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """A text for replay, how many of its tokens the files fix, and how many the target's law does not have."""

    between: Between
    exact: int
    outside: int


def law(text: Text, sampling: Sampling) -> list[Reach]:
    """What is known of the probability of each token of a text after warping; at temperature 0 of "the likeliest"."""
    return [_reach(one, sampling) for one in text.positions]


def written(text: Text, law: Sequence[Reach], sampling: Sampling) -> Evidence:
    """What the target's log-probabilities say of whether it wrote the text at these settings.

    Raises:
        PromptError: it did not, by file and line.
    """
    found = origin.of_file(text.positions, [one.member == "out" for one in law], sampling)
    if why := found.why_not:
        raise PromptError(
            f'{text.where}: text "{text.id}": the target does not write such a text at these settings ({why}): give '
            "its own text, and the settings that it was drawn at"
        )
    return found


def pair(
    target: Text, law: Sequence[Reach], draft: Text, sampling: Sampling, max_new_tokens: int | None = None
) -> Paired:
    """A text under target (of that `law`) and draft, with the bounds of both.

    The target wrote each token that its law may have, so its probability is bounded given that the law has it; of the
    draft a token that its law may lack has no probability at the low end. How far beyond its end the text might have
    gone follows from `max_new_tokens`; None: it is not known.

    Raises:
        PromptError: they are not the same text.
    """
    if target.ids != draft.ids or target.prompt_tokens != draft.prompt_tokens:
        raise PromptError(
            f'{draft.where}: text "{draft.id}" has {_difference(target, draft)} in {target.where}: score the same ids '
            "with both; a draft with another tokenizer cannot be replayed"
        )
    rows = [_tokens(*both, sampling) for both in zip(law, draft.positions, strict=True)]
    ends = [np.array([row[at] for row in rows], dtype=float) for at in range(6)]
    room = (0, MOST_K) if max_new_tokens is None else (max_new_tokens - len(rows),) * 2
    return Paired(
        between=Between(ratio=(ends[0], ends[1]), q=(ends[2], ends[3]), hit=(ends[4], ends[5]), room=room),
        exact=sum(row[6] == "exact" for row in rows),
        outside=sum(row[6] == "outside" for row in rows),
    )


def _tokens(p: Reach, draft: Position, sampling: Sampling) -> tuple[float, float, float, float, float, float, str]:
    """Both ends of log q - log p, of q and of hit, and whether they are one."""
    if outside := p.member == "out":
        # The target wrote it, by a rounding of its own, so that p was small and not 0: as in the audit.
        p = _LEAST
    q_low, q_high = _draft(draft, sampling)
    known = (q_low == q_high or q_high - q_low <= _SAME) and p.high - p.low <= _SAME and draft.hit[0] == draft.hit[1]
    return (
        q_low - p.high,
        q_high - p.low,
        float(np.exp(q_low)),
        float(np.exp(q_high)),
        *draft.hit,
        "outside" if outside else "exact" if known else "bounded",
    )


def _draft(one: Position, sampling: Sampling) -> tuple[float, float]:
    """The least and the greatest logarithm of the draft's probability."""
    if sampling.temperature == 0:
        low, high = (0.0 if hit else -np.inf for hit in one.hit)
        return low, high
    found = _reach(one, sampling)
    return -np.inf if found.member == "open" else found.low, found.high


def _reach(one: Position, sampling: Sampling) -> Reach:
    if sampling.temperature > 0:
        return warped.reach(one, sampling)
    # Greedy: the likeliest token has all of the law; one that may be it by a tie is taken to be.
    if one.hit[1] == 0:
        return Reach(low=-np.inf, high=-np.inf, member="out")
    return Reach(low=0.0, high=0.0, member="in")


def _difference(target: Text, draft: Text) -> str:
    for at, (one, other) in enumerate(zip(target.ids, draft.ids, strict=False)):
        if one != other:
            return f"the id {other} as token {at}, not {one} as"
    if len(target.ids) != len(draft.ids):
        return f"{len(draft.ids)} ids, not {len(target.ids)} as"
    return f"prompt_tokens = {draft.prompt_tokens}, not {target.prompt_tokens} as"
