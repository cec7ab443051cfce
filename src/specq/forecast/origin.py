"""Whether the target wrote a text at these settings, from its own prompt log-probabilities.

Above temperature 0 the sum of -log p - entropy over a text of the law has the mean 0 and a known variance
(`decoding.law`). Of a law of which the file has the likeliest tokens, entropy and variance lie between bounds; so does
the sum, over the positions where they are narrow. Which positions those are follows from the likeliest tokens alone and
never from the token that was drawn, so that the mean of the sum stays 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specq.core.types import Sampling
from specq.forecast import warped
from specq.forecast.imported import VOCABULARY, Position
from specq.report.audit import Z_LIMIT

# Nats that the bounds of a position may lie apart.
_WIDTH = 0.25
# The least standard deviation, in nats, that a refusal divides by: one rare token must not refuse a text of sure ones.
_RARE = 2.0
# What rounded log-probabilities may add up to, in nats a position.
_ROUNDING = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Surprise:
    """Bounds of a sum of -log p - entropy, and of its variance, over `positions` of `tokens`."""

    least: float = 0.0
    greatest: float = 0.0
    least_variance: float = 0.0
    greatest_variance: float = 0.0
    positions: int = 0
    tokens: int = 0

    def __add__(self, other: Surprise) -> Surprise:
        return Surprise(
            least=self.least + other.least,
            greatest=self.greatest + other.greatest,
            least_variance=self.least_variance + other.least_variance,
            greatest_variance=self.greatest_variance + other.greatest_variance,
            positions=self.positions + other.positions,
            tokens=self.tokens + other.tokens,
        )

    @property
    def least_z(self) -> float:
        """The z that is nearest to 0, with its sign, of those that the bounds allow."""
        nearest = max(self.least, 0.0) or min(self.greatest, 0.0)
        beyond = max(0.0, abs(nearest) - _ROUNDING * self.positions)
        return math.copysign(beyond / max(_RARE, math.sqrt(self.greatest_variance)), nearest)

    @property
    def greatest_z(self) -> float:
        """The size of the z that is farthest from 0."""
        beyond = max(0.0, max(abs(self.least), abs(self.greatest)) - _ROUNDING * self.positions)
        return beyond / max(1e-9, math.sqrt(self.least_variance))

    @property
    def refused(self) -> bool:
        """Whether the law does not write such a text, whatever the file leaves open; half of it must be seen."""
        return self._seen and abs(self.least_z) > Z_LIMIT

    @property
    def checked(self) -> bool:
        """Whether the law may well have written the text, whatever the file leaves open; half of it must be seen."""
        return self._seen and self.greatest_z <= Z_LIMIT

    @property
    def _seen(self) -> bool:
        return self.positions > 0 and 2 * self.positions >= self.tokens


def surprise(positions: Sequence[Position], sampling: Sampling) -> Surprise:
    """The sum over the positions whose law is bounded narrowly; those of no other law are left out.

    With w the weights before they are made to sum to 1, -log p - entropy is E[log w] - log w, without that sum.
    Temperature above 0; no own token may be outside the law.
    """
    total = Surprise(tokens=len(positions))
    # A row that lists its own token beside the likeliest n may tell one more of them: n is what all rows have.
    count = min((len(one.head) for one in positions), default=0)
    for one in positions:
        if (law := _law(one.head[:count], sampling)) is not None:
            power, shift, mean, variance = law
            own = power * (one.own - shift)
            total += Surprise(
                least=mean[0] - own,
                greatest=mean[1] - own,
                least_variance=variance[0],
                greatest_variance=variance[1],
                positions=1,
            )
    return total


def _law(
    head: tuple[float, ...], sampling: Sampling
) -> tuple[float, float, tuple[float, float], tuple[float, float]] | None:
    """The power and the shift of the weights, and bounds of mean and variance of their logarithms; None: too wide."""
    if not head:
        return None
    # The least of the likeliest stands for the own token, so that it tells no more of the law than they do.
    position = Position(own=head[-1], rank=None, head=head, inside=True, hit=(0.0, 1.0))
    law = warped.kept(position, sampling)
    truncated = sampling.top_k > 0 or sampling.top_p < 1 or sampling.min_p > 0
    count, rest = len(law.logs), law.rest
    if truncated:
        count = sum(total <= law.total[0] * (1 + 1e-12) for total in law.sums) - 1
        if law.total[1] > law.total[0] or abs(law.sums[count] - law.total[0]) > 1e-9 * law.total[0]:
            return None
        rest = (0.0, 0.0)
    logs = [log for log in law.logs[:count] if log > -math.inf]
    weights = [math.exp(log) for log in logs]
    inside, first = sum(weights), sum(weight * log for weight, log in zip(weights, logs, strict=True))
    means = [first / inside] * 2
    cap, thin = logs[-1], 0.0
    if rest[1] > 0:
        # A tail of a given weight has the least mean logarithm where it is spread over all tokens that there may be.
        thin = math.log(rest[1] / VOCABULARY)
        if inside * (thin + 1) - first + rest[1] > 0:
            return None
        means = [
            (first + rest[1] * thin) / (inside + rest[1]),
            max((first + tail * cap) / (inside + tail) for tail in rest),
        ]
    if means[1] - means[0] > _WIDTH:
        return None
    own_mean, middle = first / inside, (means[0] + means[1]) / 2
    least = sum(weight * (log - own_mean) ** 2 for weight, log in zip(weights, logs, strict=True)) / (inside + rest[1])
    spread = sum(weight * (log - middle) ** 2 for weight, log in zip(weights, logs, strict=True))
    if rest[1] > 0:
        # w (log w - m)^2 grows as a tail is spread where w is below a third of e^m, and is small elsewhere.
        spread += rest[1] * ((thin - middle) ** 2 + max(1.0, (cap - middle) ** 2))
    return law.power, law.shift, (means[0], means[1]), (least, spread / (inside + rest[0]))
