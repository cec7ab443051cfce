"""Plain and speculative decoding of several requests at once, with ragged acceptance.

The same steps as `loop.decode`, row by row on shared forward passes; in float32 each row equals
its single run. A row's step carries the times of the whole batch's step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from specq.core.clock import Laps
from specq.core.types import CacheType
from specq.decoding.drafters import Proposal
from specq.decoding.drafters.chain import choose, confidence, fit
from specq.decoding.drafters.lookup import LookupDrafter
from specq.decoding.loop import NOTHING, step_of
from specq.decoding.ragged import RaggedSession
from specq.decoding.request import Request
from specq.decoding.session import shallow


class BatchDrafter(Protocol):
    """Proposes for several requests; row i of every call is the same request until `select`."""

    def start(self, requests: Sequence[Request], target: RaggedSession) -> None:
        """Begin with the prompts; the target has been prefilled."""
        ...

    def propose(self, requests: Sequence[Request], reach: Sequence[int]) -> list[Proposal]:
        """At most reach[i] tokens for row i."""
        ...

    def commit(self, requests: Sequence[Request]) -> None:
        """Roll back to the tokens that stand."""
        ...

    def select(self, rows: Sequence[int]) -> None:
        """Keep only these rows."""
        ...


@torch.inference_mode()
def decode_batch(
    requests: Sequence[Request],
    model: PreTrainedModel,
    drafter: BatchDrafter | None,
    k: int,
    *,
    sync: Callable[[], None] | None = None,
    kv_cache: CacheType | None = None,
) -> None:
    """Run requests to their ends; a finished row leaves the batch. `kv_cache` is the target's, as in Session.

    Raises:
        Unsupported: the model's positions or windows cannot be ragged.
        NonFiniteLogits: target or draft returned NaN or infinite logits.
    """
    whole = Laps(sync)
    target = RaggedSession(model, kv_cache=kv_cache)
    target.restart(len(requests))
    for request, logits in zip(requests, target.forward([r.ids for r in requests], last_only=True), strict=True):
        request.take(NOTHING, logits)
    if drafter is not None:
        drafter.start(requests, target)
    whole.lap("prefill")
    for request in requests:
        request.ttft_s = request.e2e_s = whole.total()
    active = _leave(list(requests), target, drafter)
    laps = Laps(sync)
    while active:
        laps.lap("rest")
        contexts = [len(request.ids) for request in active]
        proposals = [NOTHING] * len(active)
        if drafter is not None:
            proposals = drafter.propose(active, [request.reach(k) for request in active])
            laps.lap("draft")
        rows = target.forward([[r.ids[-1], *p.ids] for r, p in zip(active, proposals, strict=True)])
        laps.lap("verify")
        taken = [r.take(p, logits) for r, p, logits in zip(active, proposals, rows, strict=True)]
        laps.lap("sample")
        target.rollback([len(p.ids) + 1 - emitted for p, (_, emitted) in zip(proposals, taken, strict=True)])
        if drafter is not None:
            drafter.commit(active)
        laps.lap("rest")
        parts = laps.take()
        whole.lap("decode")
        for request, context, proposal, (accepted, emitted) in zip(active, contexts, proposals, taken, strict=True):
            request.record(step_of(parts, context, proposal, accepted, emitted))
            request.e2e_s = whole.total()
        active = _leave(active, target, drafter)
    for request in requests:
        # Of the whole batch: its rows are read together.
        request.cache_share = getattr(target.cache, "quantized_share", None)
        request.batch, request.batch_s = len(requests), whole.total()


def _leave(active: list[Request], target: RaggedSession, drafter: BatchDrafter | None) -> list[Request]:
    """Drop the rows of finished requests from the target's and the drafter's state."""
    rows = [i for i, request in enumerate(active) if request.finish is None]
    if rows and len(rows) < len(active):
        target.select(rows)
        if drafter is not None:
            drafter.select(rows)
    return [active[i] for i in rows]


class BatchLookup:
    """One index a row."""

    def __init__(self, make: Callable[[], LookupDrafter]) -> None:
        self._make = make

    def start(self, requests: Sequence[Request], target: RaggedSession) -> None:
        """Index each prompt."""
        self._rows = [self._make() for _ in requests]
        for drafter, request in zip(self._rows, requests, strict=True):
            drafter.start(request.ids, request.warper, request.streams.draft)

    def propose(self, requests: Sequence[Request], reach: Sequence[int]) -> list[Proposal]:
        """Each row's own proposal."""
        return [d.propose(r.ids, n) for d, r, n in zip(self._rows, requests, reach, strict=True)]

    def commit(self, requests: Sequence[Request]) -> None:
        """Index what is new in each row."""
        for drafter, request in zip(self._rows, requests, strict=True):
            drafter.commit(request.ids)

    def select(self, rows: Sequence[int]) -> None:
        """Keep only these rows."""
        self._rows = [self._rows[i] for i in rows]


class BatchChain:
    """A draft that is a model, token by token over all rows: a second one, or the target's first layers."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        layers: int | None,
        sampled: bool,
        vocabulary: int,
        stop_below: float | None = None,
    ) -> None:
        self._session = RaggedSession(model if layers is None else shallow(model, layers))
        self._layers, self._sampled, self._vocabulary = layers, sampled, vocabulary
        self._stop_below = stop_below

    def start(self, requests: Sequence[Request], target: RaggedSession) -> None:
        """Prefill a second model; the first layers need none."""
        self._target = target
        if self._layers is None:
            self._session.restart(len(requests))
            self._session.forward([request.ids[:-1] for request in requests], last_only=True)

    def propose(self, requests: Sequence[Request], reach: Sequence[int]) -> list[Proposal]:
        """reach[i] tokens for each row; rows that want fewer, or stop, sit out the later rounds."""
        if self._layers is not None:
            self._session.share(self._target, self._layers)
        columns = self._session.valid.shape[1]
        texts = [list(request.ids) for request in requests]
        drawn: list[list[Tensor]] = [[] for _ in requests]
        open_, round_ = list(reach), 0
        while any(wants := [round_ < n for n in open_]):
            round_ += 1
            pending = [t[n:] if w else [] for t, n, w in zip(texts, self._session.lengths, wants, strict=True)]
            for i, logits in enumerate(self._session.forward(pending)):
                if wants[i]:
                    request = requests[i]
                    row = fit(logits[-1:], self._vocabulary)
                    token, q = choose(request.warper, texts[i], row, request.streams.draft, self._sampled)
                    stop = self._stop_below
                    if stop is not None and confidence(request.warper, texts[i], row, token, q) < stop:
                        open_[i] = round_
                    texts[i].append(token)
                    if q is not None:
                        drawn[i].append(q)
        if self._layers is not None:
            self._session.crop(self._session.valid.shape[1] - columns)
        return [
            Proposal(text[len(request.ids) :], torch.cat(q) if q else None)
            for text, request, q in zip(texts, requests, drawn, strict=True)
        ]

    def commit(self, requests: Sequence[Request]) -> None:
        """Drop cached tokens that were refused."""
        if self._layers is None:
            pairs = zip(self._session.lengths, requests, strict=True)
            self._session.rollback([max(0, length - (len(request.ids) - 1)) for length, request in pairs])

    def select(self, rows: Sequence[int]) -> None:
        """Keep only these rows."""
        if self._layers is None:
            self._session.select(rows)


class BatchLookupFirst:
    """Row by row a lookup where it finds a place, a draft elsewhere: the twin of LookupFirstDrafter."""

    def __init__(self, lookup: BatchLookup, other: BatchChain) -> None:
        self._lookup, self._other = lookup, other

    def start(self, requests: Sequence[Request], target: RaggedSession) -> None:
        """Begin both with the prompts."""
        self._lookup.start(requests, target)
        self._other.start(requests, target)

    def propose(self, requests: Sequence[Request], reach: Sequence[int]) -> list[Proposal]:
        """Each row copied, or else drafted; rows that are copied sit out the draft's rounds."""
        copied = self._lookup.propose(requests, reach)
        drafted = self._other.propose(requests, [0 if p.ids else n for p, n in zip(copied, reach, strict=True)])
        return [one if one.ids else other for one, other in zip(copied, drafted, strict=True)]

    def commit(self, requests: Sequence[Request]) -> None:
        """Index what is new, and roll the draft's cache to what stands."""
        self._lookup.commit(requests)
        self._other.commit(requests)

    def select(self, rows: Sequence[int]) -> None:
        """Keep only these rows."""
        self._lookup.select(rows)
        self._other.select(rows)
