"""What bandwidth and arithmetic allow: the ceiling of decoding, and the batch at which it stops being free.

A step of decoding reads all weights once and each sequence's cache, so tokens a second are at most bandwidth over
these bytes. It does 2 FLOP a weight and sequence: 2B/b FLOP for each byte of weights at batch B and b bytes a weight,
and prefill of P tokens does 2P/b. Where that reaches the ridge, peak FLOP/s over bandwidth, arithmetic binds
(Williams, Waterman and Patterson, Roofline, CACM 52(4), 2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specq.lab.size_memory import Card, Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The most that decoding can do at so many tokens of context: bytes a step reads, and tokens a second."""

    tokens: int
    sequences: int
    weights_read: float
    cache_read: int
    each: float

    @property
    def together(self) -> float:
        """Tokens a second of all sequences."""
        return self.each * self.sequences


@dataclass(frozen=True, slots=True, kw_only=True)
class Ridge:
    """Where arithmetic binds.

    `batch` is the batch that reaches the ridge, caches left out; `held` is what the card holds, None where that is not
    known; `largest` is the smaller of the two, and `binds` names it. `prefill` is FLOP a byte of prefilling `tokens`,
    `cached` that of decoding the batch with so many tokens in each cache, which are read too.
    """

    flops: float
    flop_per_byte: float
    bytes_per_weight: float
    batch: int
    held: int | None
    largest: int
    binds: Literal["ridge", "card"]
    tokens: int | None
    prefill: float | None
    cached: float | None


def ceilings(model: Model, kv: str, bandwidth: float, contexts: Sequence[int], sequences: int) -> tuple[Ceiling, ...]:
    """The ceilings of one sequence, then of `sequences` where these are more than one, at each context."""
    counts = (1,) if sequences == 1 else (1, sequences)
    found = []
    for count in counts:
        for tokens in contexts:
            weights, cache = model.weights.read(count), count * model.shape.sequence_bytes(tokens, kv)
            found.append(
                Ceiling(
                    tokens=tokens,
                    sequences=count,
                    weights_read=weights,
                    cache_read=cache,
                    each=bandwidth / (weights + cache),
                )
            )
    return tuple(found)


def ridge(
    model: Model, kv: str, bandwidth: float, flops: float, context: int | None, card: Card | None
) -> Ridge | None:
    """Where arithmetic binds; None where the number of weights is not known."""
    if not model.weights.used:
        return None
    per_byte = flops / bandwidth
    each = model.weights.read_whole / model.weights.used
    batch = max(1, round(per_byte * each / 2))
    held = None if card is None or card.held is None else card.asked_held
    cached = None
    if context is not None and model.shape.state_known:
        read = model.weights.read_whole + batch * model.shape.sequence_bytes(context, kv)
        cached = 2 * batch * model.weights.used / read
    return Ridge(
        flops=flops,
        flop_per_byte=per_byte,
        bytes_per_weight=each,
        batch=batch,
        held=held,
        largest=batch if held is None else min(batch, held),
        binds="ridge" if held is None or batch <= held else "card",
        tokens=context,
        prefill=None if context is None else 2 * context / each,
        cached=cached,
    )
