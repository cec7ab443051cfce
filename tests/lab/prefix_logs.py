"""Logs of prompts that break a cache in known places, and the slow true twins of what is computed fast."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from specq.workloads.request import Request


def prompt(*ids: int) -> bytes:
    return np.array(ids, dtype=np.uint32).tobytes()


def asked(text: str, system: str = "", ident: str = "", tags: Iterable[str] = ()) -> Request:
    messages = [{"role": "system", "content": system}] if system else []
    return Request(id=ident or text, line=1, messages=(*messages, {"role": "user", "content": text}), tags=tuple(tags))


def slow_common(left: bytes, right: bytes) -> int:
    one, other = np.frombuffer(left, np.uint32).tolist(), np.frombuffer(right, np.uint32).tolist()
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


def slow_shared(prompts: Sequence[bytes]) -> list[int]:
    """With every earlier prompt in turn."""
    return [
        max((slow_common(prompts[earlier], prompts[place]) for earlier in range(place)), default=0)
        for place in range(len(prompts))
    ]


def slow_blocks(prompts: Sequence[bytes], block: int) -> list[int]:
    """As a cache of blocks works: every whole block is known by all that it holds and all that stands before it."""
    known: set[tuple[int, ...]] = set()
    hits = []
    for one in prompts:
        ids = np.frombuffer(one, np.uint32).tolist()
        hit = 0
        # The last token is read in any case.
        while hit + block <= len(ids) - 1 and tuple(ids[: hit + block]) in known:
            hit += block
        hits.append(hit)
        known.update(tuple(ids[:end]) for end in range(block, len(ids) + 1, block))
    return hits


def slow_slots(prompts: Sequence[bytes], count: int, similarity: float) -> list[int]:
    """Slots in the words of a server: the most similar one if it is similar enough, else the one unused longest."""
    slots: list[bytes | None] = [None] * count
    last_used = {slot: slot - count for slot in range(count)}
    hits = []
    for now, one in enumerate(prompts):
        shares = [slow_common(held, one) if held is not None else 0 for held in slots]
        best = shares.index(max(shares))
        chosen = best if shares[best] > similarity * len(one) / 4 else min(last_used, key=lambda slot: last_used[slot])
        hits.append(min(shares[chosen], max(len(one) // 4 - 1, 0)))
        slots[chosen] = one
        last_used[chosen] = now
    return hits
