"""How much of each prompt a prefix cache holds already, by simulation over prompts in the order in which they came.

A prompt is the bytes of its token ids, four a token. With a cache that keeps everything, what a prompt shares with any
earlier one is found by sorting: in sorted order the two earlier prompts that stand next to it, one on either side,
share the most with it, and the least overlap of neighbours on the way is what they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

BYTES = 4
BLOCK = 16
"""Tokens of a block that vLLM caches whole or not at all (its default)."""
SLOT_SIMILARITY = 0.1
"""llama.cpp's --slot-prompt-similarity: below this share of the prompt a slot is not chosen for what it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """Prompts in sorted order.

    `order` [n] are their places in the file; `overlap` [n] is what each shares with the one before it in sorted order,
    in tokens, 0 for the first; `lengths` [n] are the tokens of each prompt, in file order.
    """

    order: np.ndarray
    overlap: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """A server with some slots: `reused` [n] tokens of each prompt, in file order.

    `taken_over` counts the prompts that went to a slot that held another prompt of which they could use less than
    `SLOT_SIMILARITY`.
    """

    reused: np.ndarray
    taken_over: int


def common(left: bytes, right: bytes) -> int:
    """The tokens that two prompts begin with alike."""
    least = min(len(left), len(right))
    if left[:least] == right[:least]:
        return least // BYTES
    one = np.frombuffer(left, np.uint32, least // BYTES)
    other = np.frombuffer(right, np.uint32, least // BYTES)
    return int((one != other).argmax())


def sort(prompts: Sequence[bytes]) -> Sorted:
    """Put prompts in order; those that begin alike stand together."""
    order = sorted(range(len(prompts)), key=prompts.__getitem__)
    overlap = [0, *(common(prompts[left], prompts[right]) for left, right in pairwise(order))]
    return Sorted(
        order=np.array(order, dtype=np.int64),
        overlap=np.array(overlap[: len(order)], dtype=np.int64),
        lengths=np.array([len(prompt) // BYTES for prompt in prompts], dtype=np.int64),
    )


def shared(found: Sorted) -> np.ndarray:
    """What each prompt shares with any earlier one, in tokens [n], in file order."""
    order, overlap = found.order.tolist(), found.overlap.tolist()
    best = [0] * len(order)
    _sweep(order, overlap, best)
    # From the other side the overlap of neighbours belongs to the one that comes after.
    _sweep(order[::-1], [0, *overlap[:0:-1]][: len(order)], best)
    return np.array(best, dtype=np.int64)


def _sweep(order: list[int], overlap: list[int], best: list[int]) -> None:
    """Raise `best` to what each shares with the nearest prompt before it in `order` that came earlier."""
    # Prompts that came ever earlier, and what each shares with the one above it.
    stack: list[tuple[int, int]] = []
    for place, least in zip(order, overlap, strict=True):
        while stack and stack[-1][0] > place:
            least = min(least, stack.pop()[1])
        if stack:
            best[place] = max(best[place], least)
        stack.append((place, least))


def reusable(overlap: np.ndarray, lengths: np.ndarray, block: int = 1) -> np.ndarray:
    """The tokens of an overlap that need no pass: whole blocks, and never a prompt's last token.

    That one is always read, for its logits give the first new token (vLLM, v1/core/kv_cache_manager.py: a hit is at
    most num_tokens - 1 long; llama.cpp's server evaluates at least one token).
    """
    return np.minimum(overlap, np.maximum(lengths - 1, 0)) // block * block


def slots(prompts: Sequence[bytes], count: int) -> Slots:
    """A server that keeps the last prompt of each slot, and asks the slots one prompt at a time.

    As llama.cpp's server picks a slot: the one whose prompt overlaps most, if that is more than `SLOT_SIMILARITY` of
    the new prompt, else the one that was not used for longest.
    """
    held: list[bytes | None] = [None] * count
    used = list(range(-count, 0))
    reused = np.zeros(len(prompts), dtype=np.int64)
    taken_over = 0
    for place, prompt in enumerate(prompts):
        overlaps = [0 if one is None else common(one, prompt) for one in held]
        slot = max(range(count), key=overlaps.__getitem__)
        if overlaps[slot] * BYTES <= SLOT_SIMILARITY * len(prompt):
            slot = min(range(count), key=used.__getitem__)
            taken_over += held[slot] is not None
        reused[place] = overlaps[slot]
        held[slot], used[slot] = prompt, place
    lengths = np.array([len(prompt) // BYTES for prompt in prompts], dtype=np.int64)
    return Slots(reused=reusable(reused, lengths), taken_over=taken_over)
