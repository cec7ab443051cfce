"""Drafts from a model, one token after another: a second model, or the target's own first layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from specq.core.errors import NonFiniteLogits
from specq.decoding.drafters import Proposal
from specq.decoding.sampling import Warper, draw
from specq.decoding.session import Session, shallow


def choose(
    warper: Warper, ids: Sequence[int], logits: Tensor, stream: np.random.Generator, sampled: bool
) -> tuple[int, Tensor | None]:
    """One draft token after ids from logits [1, V], and its q [1, V]; q is None for the argmax.

    Raises:
        NonFiniteLogits: the draft returned NaN or infinite logits.
    """
    try:
        if warper.greedy or not sampled:
            return int(warper.argmax(ids, logits)), None
        q = warper.probs(ids, logits)
    except NonFiniteLogits as error:
        raise NonFiniteLogits(f"in the draft, {error.found}", error.advice) from error
    return int(draw(q, torch.tensor([stream.random()], dtype=torch.float64))), q


def confidence(warper: Warper, ids: Sequence[int], logits: Tensor, token: int, q: Tensor | None) -> float:
    """The draft's probability of the token that it just proposed after ids, from logits [1, V] and what `choose` gave.

    After warping; at temperature 0, where warping leaves one token alone, the softmax before it: transformers' measure
    for assistant_confidence_threshold (ConfidenceCriteria in generation/stopping_criteria.py).
    """
    if q is None:
        scores = warper.scores(ids, logits)
        q = scores.softmax(dim=-1) if warper.greedy else warper.warp(scores)
    return float(q[0, token])


def fit(logits: Tensor, vocabulary: int) -> Tensor:
    """Draft logits [R, U] on the target's vocabulary, [R, vocabulary].

    Ids beyond the draft's own get -inf; rows of a padded embedding beyond the target's are cut, since
    they are never tokens.
    """
    missing = vocabulary - logits.shape[-1]
    if missing == 0:
        return logits
    return torch.nn.functional.pad(logits, (0, max(0, missing)), value=-torch.inf)[:, :vocabulary]


def chain(
    session: Session,
    pending: Sequence[int],
    ids: Sequence[int],
    k: int,
    *,
    warper: Warper,
    stream: np.random.Generator,
    sampled: bool,
    vocabulary: int | None = None,
    stop_below: float | None = None,
) -> Proposal:
    """K draft tokens after ids, one pass each; `pending` are those of ids that the session lacks.

    A token that the draft is less sure of than `stop_below` is the last one. It is proposed all the same: whether a
    token is proposed then depends on those before it alone, so that each is a draw from its q whatever stands, and
    every exact rule stays exact. Were it dropped, an unlikely draw would never be proposed, and q would not be the law
    of what is.
    """
    text = list(ids)
    rows: list[Tensor] = []
    for _ in range(k):
        logits = session.forward(pending, last_only=True)
        logits = logits if vocabulary is None else fit(logits, vocabulary)
        token, q = choose(warper, text, logits, stream, sampled)
        if q is not None:
            rows.append(q)
        last = stop_below is not None and confidence(warper, text, logits, token, q) < stop_below
        text.append(token)
        if last:
            break
        pending = [token]
    return Proposal(text[len(ids) :], torch.cat(rows) if rows else None)


class ModelDrafter:
    """A second model with a cache of its own.

    The cache holds a prefix of what was committed; what it lacks (one token after a refusal, two
    after full acceptance) is fed with the next proposal.
    `sampled` false proposes argmaxes, as the rule greedy_draft wants; true draws from q.
    `vocabulary` is the target's number of logits, `stop_below` that of `chain`.
    """

    def __init__(self, session: Session, *, sampled: bool, vocabulary: int, stop_below: float | None = None) -> None:
        self._session = session
        self._sampled = sampled
        self._vocabulary = vocabulary
        self._stop_below = stop_below

    def start(self, ids: Sequence[int], warper: Warper, stream: np.random.Generator) -> None:
        """Prefill the draft with all but the last token."""
        self._warper, self._stream = warper, stream
        self._session.restart()
        if len(ids) > 1:
            self._session.forward(ids[:-1], last_only=True)

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """K tokens after ids, or fewer where the draft stops."""
        return chain(
            self._session,
            ids[self._session.length :],
            ids,
            k,
            warper=self._warper,
            stream=self._stream,
            sampled=self._sampled,
            vocabulary=self._vocabulary,
            stop_below=self._stop_below,
        )

    def commit(self, ids: Sequence[int]) -> None:
        """Drop cached tokens that were refused; the last committed token is never in the cache."""
        self._session.rollback(max(0, self._session.length - (len(ids) - 1)))


class EarlyExitDrafter:
    """The target's first layers, its own norm and its own head, on the target's cache.

    The first layers' entries of the target's cache are what this draft would have computed itself,
    so it needs no prefill. It appends to those layers while it drafts and crops them, and only
    them, before the target verifies.
    """

    def __init__(self, target: Session, layers: int, *, sampled: bool, stop_below: float | None = None) -> None:
        self._target = target
        self._layers = layers
        self._sampled = sampled
        self._stop_below = stop_below
        self._view = Session(shallow(target.model, layers), keep="everything")

    def start(self, ids: Sequence[int], warper: Warper, stream: np.random.Generator) -> None:
        """Share the first layers of the target's cache."""
        self._warper, self._stream = warper, stream
        self._view.cache.layers = self._target.cache.layers[: self._layers]

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """K tokens after ids, or fewer where the draft stops; the target's cache holds all of ids but the last."""
        proposal = chain(
            self._view,
            ids[-1:],
            ids,
            k,
            warper=self._warper,
            stream=self._stream,
            sampled=self._sampled,
            stop_below=self._stop_below,
        )
        self._view.rollback(len(proposal.ids))
        return proposal

    def commit(self, ids: Sequence[int]) -> None:
        """Nothing to do: the state is the target's."""
