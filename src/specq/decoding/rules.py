"""Verification rules as pure functions over a leading batch dimension.

The rules of EXACT_RULES are exact: if x[j] was drawn from q[j] (or is any fixed function of what stands
before it, where q is None), the tokens that come out have the law of the target alone. `lossy_threshold`
is not: it accepts what the target finds good enough.

Shapes: B rows, K proposed tokens at most, V vocabulary.
    p [B, K+1, V] float32  target probabilities after each prefix, the last one after all proposals
    q [B, K, V] float32    the probabilities that the proposals were drawn from; None: one-hot at x
    x [B, K] int64         proposed tokens
    n [B] int64            how many of them are real in each row (the rest is padding)
    u_accept [B, K+1], u_token [B]   independent uniforms in [0, 1), float64

Sources: rejection is algorithm 1 of arXiv 2211.17192 (and 2302.01318); block is algorithm 2 of
arXiv 2403.10444; greedy_draft is rejection with a one-hot q; match draws from the target and
compares. lossy_threshold is of the family of typical acceptance (Medusa, arXiv 2401.10774, there under
that name), whose bound min(epsilon, delta exp(-H(p))) on p(x) is put relative to the best token instead.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specq.core.errors import ConfigError
from specq.core.types import Rule
from specq.decoding.sampling import draw


class Verified(NamedTuple):
    """What a rule decided for each row: how many proposals stand, and the target's token after them."""

    accepted: Tensor
    token: Tensor


def check_threshold(rule: Rule, threshold: float | None) -> None:
    """Refuse a rule that lacks its threshold, and a threshold that no rule reads.

    Raises:
        ConfigError: says what was given and what is allowed.
    """
    if rule != "lossy_threshold":
        if threshold is not None:
            raise ConfigError(
                f'threshold = {threshold}: rule = "{rule}" is exact and has none, allowed with rule = "lossy_threshold"'
            )
    elif threshold is None:
        raise ConfigError('threshold is missing: rule = "lossy_threshold" needs one above 0 and below 1, such as 0.3')
    elif not 0 < threshold < 1:
        raise ConfigError(
            f"threshold = {threshold}: allowed is above 0 and below 1, the share of its best token's probability that "
            "the target must give a proposal; such as 0.3"
        )


def verify(
    rule: Rule,
    p: Tensor,
    q: Tensor | None,
    x: Tensor,
    n: Tensor,
    u_accept: Tensor,
    u_token: Tensor,
    threshold: float | None = None,
) -> Verified:
    """Apply a rule by name; shapes in the module's docstring. `threshold` is that of lossy_threshold.

    Raises:
        ConfigError: as check_threshold.
    """
    check_threshold(rule, threshold)
    if threshold is not None:
        return lossy_threshold(p, x, n, threshold, u_token)
    if rule == "match":
        return match(p, x, n, u_accept)
    if rule == "block" and q is not None:
        return block(p, q, x, n, u_accept, u_token)
    # With a one-hot q, rejection, greedy_draft and block are one and the same.
    return rejection(p, None if rule == "greedy_draft" else q, x, n, u_accept, u_token)


def greedy(best: Tensor, x: Tensor, n: Tensor) -> Verified:
    """Temperature 0, where all exact rules agree: accept while x is the target's argmax `best` [B, K+1]."""
    accepted = _leading(x == best[:, :-1], n)
    return Verified(accepted, _at(best, accepted))


def rejection(p: Tensor, q: Tensor | None, x: Tensor, n: Tensor, u_accept: Tensor, u_token: Tensor) -> Verified:
    """Accept x with min(1, p(x)/q(x)); after a refusal draw from max(p - q, 0) normalised.

    With q None (one-hot at x) this accepts with p(x) and redraws from p without x: `greedy_draft`.
    """
    p_x = _of(p[:, :-1], x)
    q_x = torch.ones_like(p_x) if q is None else _of(q, x)
    # Strict: p(x) = 0 never passes, not even at u = 0. In float64, since u is.
    accepted = _leading(u_accept[:, :-1] * q_x.double() < p_x.double(), n)
    return Verified(accepted, draw(_residual(p, q, x, accepted, n), u_token))


def match(p: Tensor, x: Tensor, n: Tensor, u_accept: Tensor) -> Verified:
    """Draw y from p at each position and go on while y = x; the first y that differs is kept.

    The tokens are the target's own draws, whatever x is.
    """
    y = draw(p, u_accept)
    accepted = _leading(y[:, :-1] == x, n)
    return Verified(accepted, _at(y, accepted))


def block(p: Tensor, q: Tensor, x: Tensor, n: Tensor, u_accept: Tensor, u_token: Tensor) -> Verified:
    """Block verification: the longest prefix whose joint test passes stands.

    a_0 = 1, a_i = min(a_(i-1) p(x_i)/q(x_i), 1); h_i = R_i / (R_i + 1 - a_i) with
    R_i = sum_v max(a_i p_(i+1)(v) - q_(i+1)(v), 0) for i < n, h_n = a_n; the largest i with
    u_i < h_i stands and the next token is drawn from max(a_i p_(i+1) - q_(i+1), 0) normalised.
    """
    rows, k = x.shape
    steps = torch.arange(1, k + 1, device=x.device)
    real = steps <= n[:, None]
    ratio = torch.where(real, _of(p[:, :-1], x).double() / _of(q, x).double(), 1.0)
    a = torch.ones(rows, k + 1, dtype=torch.float64, device=x.device)
    for i in range(1, k + 1):
        a[:, i] = (a[:, i - 1] * ratio[:, i - 1]).clamp(max=1.0)
    h = torch.zeros_like(a)
    h[:, 0] = 1.0
    for i in range(1, k + 1):
        if i < k:
            mass = (a[:, i, None] * p[:, i].double() - q[:, i].double()).clamp(min=0).sum(-1)
            denominator = mass + 1 - a[:, i]
            inner = torch.where(denominator > 0, mass / denominator, 1.0)
        else:
            inner = a[:, i]
        h[:, i] = torch.where(n == i, a[:, i], torch.where(n > i, inner, 0.0))
    passed = torch.cat([torch.ones(rows, 1, dtype=torch.bool, device=x.device), u_accept[:, :k] < h[:, 1:]], dim=1)
    accepted = (passed * torch.arange(k + 1, device=x.device)).amax(dim=1)
    weight = torch.where(accepted < n, _at(a, accepted), 1.0)
    return Verified(accepted, draw(_residual(p, q, x, accepted, n, weight), u_token))


def lossy_threshold(p: Tensor, x: Tensor, n: Tensor, threshold: float, u_token: Tensor) -> Verified:
    """Accept x where p(x) >= threshold max_v p(v); after a refusal, and after all, draw from p. Not exact.

    Whatever q is: a good proposal is taken more often than the target would have drawn it. With threshold
    towards 0 all that has any probability is accepted, with threshold towards 1 only what is likeliest.
    """
    accepted = _leading(_good_enough(p, x, threshold), n)
    row = torch.arange(x.shape[0], device=x.device)
    return Verified(accepted, draw(p[row, accepted], u_token))


def lossy_threshold_greedy(p: Tensor, best: Tensor, x: Tensor, n: Tensor, threshold: float) -> Verified:
    """The same at temperature 0: the target's argmax `best` [B, K+1] takes the place of what is refused.

    p is the softmax of the scores at temperature 1, without top-k, top-p and min-p: the warped law is one-hot
    there, and its threshold would be exact greedy decoding.
    """
    accepted = _leading(_good_enough(p, x, threshold), n)
    return Verified(accepted, _at(best, accepted))


def _good_enough(p: Tensor, x: Tensor, threshold: float) -> Tensor:
    """Where p(x) is at least `threshold` times the largest probability, [B, K]; never at p(x) = 0."""
    p_x = _of(p[:, :-1], x)
    return (p_x > 0) & (p_x >= threshold * p[:, :-1].amax(dim=-1))


def _leading(passed: Tensor, n: Tensor) -> Tensor:
    """How many proposals pass before the first that does not, [B]; padding never passes."""
    real = torch.arange(passed.shape[1], device=passed.device) < n[:, None]
    return (passed & real).long().cumprod(dim=1).sum(dim=1)


def _at(values: Tensor, position: Tensor) -> Tensor:
    """Values [B, N] at position [B]."""
    return values.gather(1, position[:, None]).squeeze(1)


def _of(probs: Tensor, x: Tensor) -> Tensor:
    """The probability of each proposed token: probs [B, K, V], x [B, K] to [B, K]."""
    return probs.gather(-1, x[..., None]).squeeze(-1)


def _residual(
    p: Tensor, q: Tensor | None, x: Tensor, accepted: Tensor, n: Tensor, weight: Tensor | None = None
) -> Tensor:
    """What the next token is drawn from, [B, V] not normalised: max(w p - q, 0), or p after full acceptance.

    A residual that sums to zero (p equals q but for rounding) falls back to p.
    """
    row = torch.arange(x.shape[0], device=x.device)
    p_next = p[row, accepted]
    if x.shape[1] == 0:
        return p_next
    slot = accepted.clamp(max=x.shape[1] - 1)
    if q is None:
        rest = p_next.scatter(1, x[row, slot][:, None], 0.0)
    else:
        scaled = p_next if weight is None else p_next * weight[:, None].float()
        rest = (scaled - q[row, slot]).clamp(min=0)
    use_p = (accepted >= n) | (rest.sum(dim=-1) <= 0)
    return torch.where(use_p[:, None], p_next, rest)
