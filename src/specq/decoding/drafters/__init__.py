"""Drafters: the code that proposes tokens for a target.

One request, one drafter: `start` with the prompt and the first token, then `propose` and `commit`
in turn. `propose` must leave the target's cache as it found it; `commit` tells what the target
kept, and the drafter rolls its own state to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from torch import Tensor

from specq.decoding.sampling import Warper


class Proposal(NamedTuple):
    """Proposed token ids, and the probabilities [n, V] float32 that they were drawn from.

    q is None when each proposal is a fixed function of the tokens before it (one-hot). `copied` tells that a lookup
    copied them from the text; no block is half copied, half drafted.
    """

    ids: list[int]
    q: Tensor | None
    copied: bool = False


class Drafter(Protocol):
    """Proposes for one request."""

    def start(self, ids: Sequence[int], warper: Warper, stream: np.random.Generator) -> None:
        """Begin with the prompt; nothing of an earlier request may survive."""
        ...

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """Up to k tokens to follow ids, all that was committed so far."""
        ...

    def commit(self, ids: Sequence[int]) -> None:
        """All tokens that stand now; a prefix of them is what propose last saw."""
        ...
