"""Audit records put together from what `decoding/audit.py` computes, alike for every engine."""

from __future__ import annotations

import numpy as np

from specq.core.records import Divergence, Sampled
from specq.core.types import Generation, Prompt
from specq.decoding.audit import Law


def sampled(
    arm: str, prompt: Prompt, repeat: int, generation: Generation, law: Law, expected: tuple[float, float]
) -> Sampled:
    """A sampled text under the target's law; `expected` is the mean and the variance of its steps."""
    inside = law.p > 0
    mean, variance = expected
    return Sampled(
        arm=arm,
        prompt=prompt.id,
        repeat=repeat,
        positions=len(generation.ids),
        outside=int((~inside).sum()),
        surprise=float((-np.log(law.p[inside]) - law.entropy[inside]).sum()),
        surprise_variance=float(law.variance[inside].sum()),
        steps=len(generation.steps),
        steps_mean=mean,
        steps_variance=variance,
    )


def divergence(arm: str, prompt: Prompt, kl: np.ndarray, agreed: int) -> Divergence:
    """KL in nats at each position [T] float64, summed up, and how often both argmaxes agree."""
    return Divergence(
        arm=arm,
        prompt=prompt.id,
        positions=len(kl),
        kl_sum=float(kl.sum()),
        kl_worst=float(kl.max(initial=0.0)),
        agreed=agreed,
    )
