"""The law of the accepted length, in closed form and on paper-sized inputs.

Given text y that the target wrote, the accepted length of a step that starts before position t is
a random variable whose law depends only on p(y), q(y) and the draft's argmax along the text. These
functions are the readable yardstick: tests hold the rules and the loop to them, and the audit of a
sampled run compares the steps taken with the steps expected.

For rejection, greedy_draft and match P(N >= j) is the product of r over the first j positions, with
r = min(1, q/p), 1{y = argmax q}, q. For block verification P(N >= j) is a_j over the product of
p/q, with a_j = min(a_(j-1) p/q, 1). The telescoping that makes this exact: the probability to accept
y_1..y_n and then to emit y_(n+1) from the residual, over p(y), is prod r_i (1 - r_(n+1)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from specq.core.types import EXACT_RULES, Rule

LEAST_P = 1e-9
"""Stands for the probability of a token that the text has and that rounding put outside a truncated law."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A sampled text under one model: p(token), entropy and variance of -log p, and argmax hits, [T] each.

    `hit` is 1 or 0, or 0.5 where the two best logits are so close that rounding may swap them. `gap` is how many
    logits the token lies below the best one, 0 for the best; `confidence` the probability of the likeliest token.
    """

    p: np.ndarray
    entropy: np.ndarray
    variance: np.ndarray
    hit: np.ndarray
    gap: np.ndarray
    confidence: np.ndarray

    @property
    def outside(self) -> int:
        """How many tokens truncation leaves no probability; they are in no sum."""
        return int((self.p <= 0).sum())

    @property
    def surprise(self) -> tuple[float, float]:
        """The sum of -log p - entropy over the other tokens, and its variance; the mean is 0 for text of this law."""
        inside = self.p > 0
        total = (-np.log(self.p[inside]) - self.entropy[inside]).sum()
        return float(total), float(self.variance[inside].sum())


def survival(rule: Rule, p: np.ndarray, q: np.ndarray, hit: np.ndarray, start: int, k: int) -> np.ndarray:
    """P(N >= j | text) for j = 0..k of a step whose first proposal stands at position `start`.

    Args:
        rule: the verification rule, an exact one.
        p: the target's probability of each token of the text after warping, [T], all above 0.
        q: the draft's probability of each token after warping, [T].
        hit: whether the token is the draft's argmax (what it would propose when it does not sample), [T].
        start: the first position that the step proposes for.
        k: how many tokens it proposes; must not run past the text.

    Returns:
        [k + 1] float64, falling from 1.

    Raises:
        ValueError: the rule is lossy. Its text is not the target's, and how far it was accepted does not follow
            from the probabilities of the text alone.
    """
    if rule not in EXACT_RULES:
        raise ValueError(
            f'rule = "{rule}": a lossy rule has no law given the text, allowed are {", ".join(EXACT_RULES)}'
        )
    out = np.ones(k + 1)
    gain = 0.0
    for j in range(1, k + 1):
        t = start + j - 1
        if rule == "rejection":
            out[j] = out[j - 1] * min(1.0, q[t] / p[t])
        elif rule == "greedy_draft":
            out[j] = out[j - 1] * float(hit[t])
        elif rule == "match":
            out[j] = out[j - 1] * q[t]
        else:
            # a_j over the product of p/q is the smaller of the same for j - 1 and the product of q/p.
            # In logarithms: products of tiny numbers would end as 0 / 0.
            gain += math.log(q[t]) - math.log(p[t]) if q[t] > 0 else -math.inf
            out[j] = min(out[j - 1], math.exp(min(gain, 0.0)))
    return out


def steps(
    rule: Rule,
    p: np.ndarray,
    q: np.ndarray,
    hit: np.ndarray,
    k: int,
    copies: tuple[np.ndarray, np.ndarray] | None = None,
    stops: np.ndarray | None = None,
) -> tuple[float, float]:
    """Mean and variance of the number of steps that emit positions 1..T-1 of the text.

    Position 0 came from the prefill. Backwards over the recursion
    C(t) = 1 + C(t + N + 1): a step at t proposes min(k, T - t - 1) tokens, so that it never emits
    more than is left, and the text's own end needs no special case. Where a lookup goes before the
    draft, `copies` says how many tokens it would propose at each position and how many of them the
    text goes on with, both [T]; a step where it proposes any is the lookup's, whatever the rule. `stops` [T] is True
    where the draft ends its proposals with the text's token, for its own probability of it is too low.
    """
    total = len(p)
    mean = np.zeros(total + 1)
    square = np.zeros(total + 1)
    for t in range(total - 1, 0, -1):
        reach = min(k, total - t - 1)
        if copies is not None and copies[0][t] > 0:
            reach = min(reach, int(copies[0][t]))
            tail = (np.arange(reach + 1) <= copies[1][t]).astype(float)
        else:
            if stops is not None and stops[t : t + reach].any():
                reach = int(np.argmax(stops[t : t + reach])) + 1
            tail = survival(rule, p, q, hit, t, reach)
        mass = tail - np.append(tail[1:], 0.0)
        following = np.arange(t + 1, t + reach + 2)
        mean[t] = 1 + mass @ mean[following]
        square[t] = 1 + 2 * (mass @ mean[following]) + mass @ square[following]
    return (float(mean[1]), max(0.0, float(square[1] - mean[1] ** 2))) if total > 1 else (0.0, 0.0)
