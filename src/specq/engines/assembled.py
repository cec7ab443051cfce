"""Audit records put together from what `decoding/audit.py` computes, alike for every engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from specq.core.records import Divergence, Sampled
from specq.core.types import Generation, Prompt, Sampling
from specq.decoding.audit import along
from specq.decoding.divergence import Distances
from specq.decoding.law import Law
from specq.decoding.sampling import Warper
from specq.decoding.session import Session

KL_DIGITS = 4
# Of two numbers whose difference is asked for: what a near lossless change moves must not be rounded away.
LOGPROB_DIGITS = 6


def sampled(
    arm: str, prompt: Prompt, repeat: int, generation: Generation, law: Law, expected: tuple[float, float] | None
) -> Sampled:
    """A sampled text under the target's law; `expected` is the mean and the variance of its steps, if there are any."""
    surprise, surprise_variance = law.surprise
    mean, variance = (None, None) if expected is None else expected
    return Sampled(
        arm=arm,
        prompt=prompt.id,
        repeat=repeat,
        positions=len(generation.ids),
        outside=law.outside,
        surprise=surprise,
        surprise_variance=surprise_variance,
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


def divergence(arm: str, prompt: Prompt, found: Distances) -> Divergence:
    """What was found at each position [T], summed up and rounded, but for the sum and the worst."""
    return Divergence(
        arm=arm,
        prompt=prompt.id,
        positions=len(found.kl),
        kl_sum=float(found.kl.sum()),
        kl_worst=float(found.kl.max(initial=0.0)),
        agreed=int(found.agree.sum()),
        prompt_tokens=len(prompt.ids),
        kl=_rounded(found.kl, KL_DIGITS),
        base_logprobs=_rounded(found.base_logprobs, LOGPROB_DIGITS),
        logprobs=_rounded(found.logprobs, LOGPROB_DIGITS),
        differ=tuple(np.flatnonzero(~found.agree).tolist()),
    )


def _rounded(values: np.ndarray, digits: int) -> tuple[float, ...]:
    return tuple(float(f"{value:.{digits}g}") for value in values)
