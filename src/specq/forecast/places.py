"""Where steps are measured: after how many tokens, on which text, and the room that they take after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specq.core.errors import ConfigError
from specq.core.types import Prompt

APART = 2.0
"""Where the longest prompt has more than so many times the tokens of the shortest, both ends are measured."""
_STEPS = 5


def steps_of(k: int) -> int:
    """How many steps of k proposals a text is measured for: fewer of the long ones, which take their time."""
    return max(2, min(_STEPS, 16 // (k + 1)))


def room(k: int) -> int:
    """The tokens that may be written, at most, while steps of up to k proposals are measured."""
    return 1 + max((steps_of(size) + 1) * (size + 1) for size in range(k + 1))


def contexts(
    asked: Sequence[int], prompts: Sequence[Prompt], new_tokens: int, *, k: int, limit: int | None, model: str
) -> tuple[int, ...]:
    """The contexts to measure, rising; none: the prompts as they are.

    Args:
        asked: by the user; none: both ends of where steps of these prompts lie, if those are far apart.
        prompts: what will be decoded.
        new_tokens: how many tokens each may grow by.
        k: the most that a step proposes.
        limit: the shortest context of the models, None where it is not stated.
        model: whose context that is.

    Raises:
        ConfigError: one is no context, or no model reads so far.
    """
    lengths = [len(prompt.ids) for prompt in prompts]
    most = None if limit is None else max(1, limit - room(k))
    if not asked:
        short, long = min(lengths), max(lengths)
        if long <= APART * short:
            return ()
        return tuple(sorted({min(one, most or one) for one in (short, long + new_tokens)}))
    for one in asked:
        if one < 1:
            raise ConfigError(f"contexts = {one}: allowed are whole numbers of tokens from 1 on; type --contexts 256")
        if most is not None and one > most:
            raise ConfigError(
                f"contexts = {one}: the context of {model} is {limit} tokens, and {room(k)} of them are kept for the "
                f"steps that are measured; the longest prompt has {max(lengths)} tokens; type --contexts {most} at most"
            )
    return tuple(sorted(set(asked)))


def laid(prompts: Sequence[Prompt], tokens: int, first: int) -> Prompt:
    """A prompt of so many tokens that ends as one of the prompts does, with the others before it, again if need be."""
    ids: tuple[int, ...] = ()
    place = first
    while len(ids) < tokens:
        ids = prompts[place % len(prompts)].ids + ids
        place -= 1
    return replace(prompts[first % len(prompts)], ids=ids[-tokens:])
