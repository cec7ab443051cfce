"""Planted bugs: twins of pieces of the code, each wrong in the one way that its name says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from toy import PROMPT, LightRequest, Toy, ToySession, Tree

from specq.core.types import Rule, Sampling
from specq.decoding import rules
from specq.decoding.drafters import Proposal
from specq.decoding.rules import Verified
from specq.decoding.sampling import Warper, draw


def verify_from_p_after_refusal(
    rule: Rule, p: Tensor, q: Tensor, x: Tensor, n: Tensor, u_accept: Tensor, u_token: Tensor
) -> Verified:
    """The residual is skipped: the token after a refusal comes from p."""
    accepted = rules.verify(rule, p, q, x, n, u_accept, u_token).accepted
    return Verified(accepted, draw(p[torch.arange(len(p)), accepted], u_token))


def verify_counting_past_refusals(
    rule: Rule, p: Tensor, q: Tensor, x: Tensor, n: Tensor, u_accept: Tensor, u_token: Tensor
) -> Verified:
    """Accepted proposals are counted, also those that stand after a refused one."""
    k = x.shape[1]
    p_x, q_x = p[:, :-1].gather(-1, x[..., None]), q.gather(-1, x[..., None])
    passed = (u_accept[:, :-1] * q_x.squeeze(-1) < p_x.squeeze(-1)) & (torch.arange(k) < n[:, None])
    accepted = passed.long().sum(dim=1)
    return Verified(accepted, draw(rules._residual(p, q, x, accepted, n), u_token))


def verify_in_half_precision(
    rule: Rule, p: Tensor, q: Tensor, x: Tensor, n: Tensor, u_accept: Tensor, u_token: Tensor
) -> Verified:
    """Probabilities pass through float16, where what is below 6e-8 is 0, and 0 over 0 passes."""
    p, q = p.half().float(), q.half().float()
    ratio = p[:, :-1].gather(-1, x[..., None]) / q.gather(-1, x[..., None])
    passed = ~(u_accept[:, :-1] > ratio.squeeze(-1))
    accepted = rules._leading(passed, n)
    return Verified(accepted, draw(rules._residual(p, q, x, accepted, n), u_token))


def verify_accepting_at_equality(
    rule: Rule, p: Tensor, q: Tensor, x: Tensor, n: Tensor, u_accept: Tensor, u_token: Tensor
) -> Verified:
    """u = 0 accepts what the target never says."""
    ratio = p[:, :-1].gather(-1, x[..., None]) / q.gather(-1, x[..., None])
    accepted = rules._leading(u_accept[:, :-1] <= ratio.squeeze(-1), n)
    return Verified(accepted, draw(rules._residual(p, q, x, accepted, n), u_token))


def block_with(*, inner: bool, weight: bool) -> Any:
    """Block verification of whole proposals, written again.

    inner false: h_i is a_i at inner positions too. weight false: the residual is max(p - q, 0).
    """

    def verify(rule: Rule, p: Tensor, q: Tensor, x: Tensor, n: Tensor, u_accept: Tensor, u_token: Tensor) -> Verified:
        a, stands = torch.ones(len(x)), torch.zeros(len(x), dtype=torch.long)
        rest = p[:, 0].clone()
        for i in range(x.shape[1] + 1):
            if i:
                here = x[:, i - 1, None]
                ratio = (p[:, i - 1].gather(1, here) / q[:, i - 1].gather(1, here)).squeeze(1)
                a = torch.where(i <= n, (a * ratio).clamp(max=1.0), a)
            last = n == i
            left = p[:, i].clone()
            if i < x.shape[1]:
                left = torch.where(last[:, None], left, (a[:, None] * p[:, i] - q[:, i]).clamp(min=0))
            mass = left.sum(dim=1)
            h = torch.where(last | (not inner) | (mass + 1 - a <= 0), a, mass / (mass + 1 - a))
            passed = (i <= n) & (u_accept[:, i - 1] < h) if i else torch.ones_like(last)
            if not weight and i < x.shape[1]:
                left = torch.where(last[:, None], left, (p[:, i] - q[:, i]).clamp(min=0))
            stands = torch.where(passed, i, stands)
            rest = torch.where(passed[:, None], left, rest)
        return Verified(stands, draw(rest, u_token))

    return verify


def scoring(q_of: Tensor) -> Any:
    """The draft draws from its q, and the ratio uses other probabilities, [N, V]."""

    def propose(at: Tree, rule: Rule, nodes: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        return draw(at.q[nodes], u), q_of[nodes]

    return propose


def best_scored_with_softmax(at: Tree, rule: Rule, nodes: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """The draft proposes its argmax, and the ratio uses q as if it had been drawn."""
    return at.best[nodes], at.q[nodes]


def one_uniform_for_all(rows: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Drafting, accepting and the added token share their chance."""
    u = torch.from_numpy(np.random.default_rng(7).random((rows, k + 1)))
    return u[:, :k], u, u[:, 0]


class OneStream:
    """Three streams from one seed."""

    def __init__(self, seed: int) -> None:
        self.draft, self.accept, self.token = (np.random.default_rng(seed) for _ in range(3))


class TrimsTooMany(ToySession):
    """A rollback takes one token more from the cache than the length says."""

    off = 1

    def restart(self) -> None:
        super().restart()
        self.claimed = 0

    @property
    def length(self) -> int:
        return self.claimed

    def forward(self, ids: Sequence[int], *, last_only: bool = False) -> Tensor:
        self.claimed += len(ids)
        return super().forward(ids, last_only=last_only)

    def rollback(self, tokens: int) -> None:
        if tokens:
            super().rollback(max(0, min(tokens + self.off, len(self.held))))
        self.claimed -= tokens


class TrimsTooFew(TrimsTooMany):
    """A rollback leaves one refused token in the cache."""

    off = -1


class DropsBonus(LightRequest):
    """After full acceptance the target's own token is thrown away."""

    __slots__ = ()

    def _emit(self, tokens: Sequence[int]) -> int:
        full = len(tokens) > 2
        return LightRequest._emit(self, tokens[:-1] if full else tokens)


class CountsPastTheEnd(LightRequest):
    """Proposals that were right count as accepted although the text ended before them."""

    __slots__ = ()

    def take(self, proposal: Proposal, logits: Tensor) -> tuple[int, int]:
        text = [*self.ids, *proposal.ids]
        accepted, token = self._verify(proposal, text, logits)
        return accepted, self._emit([*proposal.ids[:accepted], token])


class LastWins(LightRequest):
    """Among equal logits the highest id wins."""

    __slots__ = ()

    def _verify(self, proposal: Proposal, text: Sequence[int], logits: Tensor) -> tuple[int, int]:
        return LightRequest._verify(self, proposal, text, logits + torch.arange(logits.shape[-1]) * 1e-6)


class PenalisesRefused(Warper):
    """Every row of a block is penalised for all proposals, also for those that come after it."""

    def scores(self, ids: Sequence[int], logits: Tensor) -> Tensor:
        return torch.cat([super(PenalisesRefused, self).scores(ids, row[None]) for row in logits])


def softmax_tables(pair: Toy, at: Tree, sampling: Sampling) -> Tensor:
    """The draft's softmax at a temperature, without any filter, after each inner text of a tree, [N, V]."""
    texts = [list(PROMPT)]
    for text in texts:
        if len(texts) < len(at.q):
            texts += [[*text, v] for v in range(at.words)]
    rows = torch.stack([pair.draft[text[-2], text[-1]] for text in texts])
    return (rows / sampling.temperature).softmax(dim=-1)
