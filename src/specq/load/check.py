"""The client's clock held against the server's own numbers of the same requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specq.load.measures import Attempt, tpot_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The median of the client's value over the server's, over `n` requests; None where the server tells none.

    Queue time, where it is told, is part of both times to the first token; where it is not, the client's has it alone.
    """

    n: int
    ttft: float | None
    tpot: float | None


def agreement(attempts: Sequence[Attempt]) -> Agreement:
    """How both clocks agree at a level."""
    rows = [row for one in attempts for row in one.steady if row.error is None]
    firsts, laters = [], []
    for row in rows:
        theirs = row.server_ttft_s if row.server_ttft_s is not None else row.prefill_s
        if theirs and row.sent_at_s is not None and row.first_token_at_s is not None:
            queued = 0.0 if row.server_ttft_s is not None else row.queue_s or 0.0
            firsts.append((row.first_token_at_s - row.sent_at_s) / (theirs + queued))
        mine = tpot_s(row)
        if mine and row.decode_s and row.output_tokens:
            laters.append(mine / (row.decode_s / (row.output_tokens - 1)))
    return Agreement(
        n=max(len(firsts), len(laters)),
        ttft=float(np.median(firsts)) if firsts else None,
        tpot=float(np.median(laters)) if laters else None,
    )
