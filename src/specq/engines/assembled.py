"""Audit records put together from what `decoding/audit.py` computes, alike for every engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from specq.core.records import Divergence, Sampled
from specq.core.types import Generation, Prompt, Sampling
from specq.decoding.audit import Law, along
from specq.decoding.sampling import Warper
from specq.decoding.session import Session


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


@torch.inference_mode()
def logits(session: Session, prompt: Prompt, ids: Sequence[int], rows: int) -> Iterator[np.ndarray]:
    """Logits [V] float32 before each new token, unwarped; the text is fed `rows` tokens a pass."""
    plain = Warper(Sampling(), prompt_tokens=len(prompt.ids), eos_ids=())
    for scores in along(session, plain, prompt.ids, ids, rows):
        yield scores[0].cpu().numpy()


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
