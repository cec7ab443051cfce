"""Replay of texts whose probabilities are known between bounds: the least and the greatest that steps can cost.

The recursion of `replay`, C(u) = cost + sum over n of P(N = n) C(u - 1 - n), takes P from how far steps get. By parts
it is cost + C(u - 1) + sum over j of S_j (C(u - 1 - j) - C(u - j)), with S_j = P(N >= j). Each S_j grows with each q/p,
q and hit, under every exact rule, so their ends bound it: L_j <= S_j <= H_j. The steps themselves need not fall as S_j
grows: under `block` a draft that gets further may stop at a worse place, since what is accepted from there on depends
on how the step began. So the ends of the probabilities are no bounds of the steps. These are:

    least(u) = cost + least(u - 1) + sum over j of min over S_j in [L_j, H_j] of S_j (least(u - 1 - j) - least(u - j))

and `greatest` with max. For any true S the P are weights of sum 1, so C(u) is at least cost + sum P(N = n)
least(u - 1 - n), if C is at least `least` for fewer tokens; this sum by parts, with S anywhere between the bounds, is
at least what is written above. Such weights make a mean, too: `least` is no less than cost + the smallest least(u - 1 -
n). Where `least` grows with u, as it does under the other rules, all S_j stand at H_j, so that the bound is the
recursion at one end, and is reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specq.core.types import EXACT_RULES, Rule
from specq.forecast import replay

Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """A text of T tokens for replay; each pair holds the least and the greatest of every token, [T] each.

    `ratio` is log q - log p, `q` the draft's probability, `hit` whether the token is the draft's likeliest. A token
    that is never accepted has minus infinity, 0 and 0. Token 0 came from the prefill. `room` is the least and the
    greatest that the room of `replay.Traced` can be.
    """

    ratio: Pair
    q: Pair
    hit: Pair
    room: tuple[int, int] = (0, 0)

    def __len__(self) -> int:
        return len(self.q[0])


def survival(text: Between, k: int) -> Pair:
    """Bounds of P(N >= j | text), j = 0 .. k, of a step at each position, [rules, T, k + 1], as `replay.survival`."""
    return _survival(text, 0, k), _survival(text, 1, k)


def _survival(text: Between, end: int, k: int) -> np.ndarray:
    ratio = text.ratio[end]
    shares: dict[Rule, np.ndarray] = {
        "rejection": np.exp(np.minimum(ratio, 0.0)),
        "greedy_draft": text.hit[end],
        "match": text.q[end],
    }
    return replay.reached(ratio, shares, k)


def summed(texts: Sequence[Between], cost: np.ndarray) -> Pair:
    """Bounds of the expected sum of a cost over the steps that emit each text after its first token.

    Args:
        texts: of any lengths.
        cost: [K + 1]: what a step with 0 .. K proposals costs.

    Returns:
        The least and the greatest, [texts, rules, K] each, for k = 1 .. K.
    """
    most = len(cost) - 1
    longest = max((len(text) for text in texts), default=0)
    # Aligned at their ends, by the tokens left: u = T - t.
    ends = np.zeros((2, len(texts), len(EXACT_RULES), longest + 1, most + 1))
    for place, text in enumerate(texts):
        for end, one in enumerate(survival(text, most)):
            ends[end, place, :, 1 : len(text) + 1] = one[:, ::-1]
    # What runs past the text's end is never accepted, but proposed as far as there is room.
    ends *= np.arange(most + 1) < np.arange(longest + 1)[:, None]
    room = np.array([text.room for text in texts], dtype=int).reshape(len(texts), 2)
    cheapest, dearest = _within(cost)
    ks, within = np.arange(1, most + 1), np.tri(most, dtype=bool)
    # Row 0 is the least, row 1 the greatest; column `most + u` holds what u tokens left cost.
    found = np.zeros((2, len(texts), len(EXACT_RULES), most, most + longest + 1))
    less = np.zeros_like(found)
    for left in range(1, longest):
        at = most + left
        change = np.where(within, less[..., slice(at - 1, at - 1 - most, -1)], 0.0)
        low, high = (ends[end, :, :, left, None, 1:] for end in (0, 1))
        chosen = np.stack([np.where(change[0] < 0, high, low), np.where(change[1] < 0, low, high)])
        mean = found[..., at - 1] + (change * chosen).sum(axis=-1)
        # C(u - 1 - n) for n = 0 .. k; what a step cannot reach repeats what it can.
        taken = np.minimum(np.arange(most + 1), np.minimum(ks, left - 1)[:, None])
        reached = found[..., ks[:, None] - 1, at - 1 - taken]
        mean[0] = np.maximum(mean[0], reached[0].min(axis=-1))
        mean[1] = np.minimum(mean[1], reached[1].max(axis=-1))
        fewest, made = (np.minimum(ks, left - 1 + room[:, end, None]) for end in (0, 1))
        paid = np.stack([cheapest[fewest, made], dearest[fewest, made]])
        found[..., at] = paid[:, :, None] + mean
        less[..., at] = found[..., at - 1] - found[..., at]
    # Token 0 came from the prefill: the steps begin with T - 1 tokens left.
    last = np.array([most + max(0, len(text) - 1) for text in texts], dtype=int)
    each = found[:, np.arange(len(texts)), :, :, last]
    return each[:, 0], each[:, 1]


def _within(cost: np.ndarray) -> Pair:
    """The least and the greatest cost of a step that makes at least i and at most j proposals, [K + 1, K + 1] each."""
    size = len(cost)
    from_to = [[cost[i : max(i, j) + 1] for j in range(size)] for i in range(size)]
    least, greatest = ([[float(end(some)) for some in row] for row in from_to] for end in (np.min, np.max))
    return np.array(least), np.array(greatest)
