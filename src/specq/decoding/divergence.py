"""How far one model's next-token laws lie from another's along a text that both read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specq.core.errors import NonFiniteLogits
from specq.core.types import Sampling
from specq.decoding.audit import SCORE_ROWS, along
from specq.decoding.sampling import Warper
from specq.decoding.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """A base and another model at each of a text's T positions, before any warping.

    kl [T] float64 is KL(base || other) in nats; base_logprobs and logprobs [T] float64 are of the text's own token
    under the base and under the other; agree [T] bool says where both name the same likeliest token.
    """

    kl: np.ndarray
    base_logprobs: np.ndarray
    logprobs: np.ndarray
    agree: np.ndarray


@torch.inference_mode()
def divergence(
    base: Session | np.ndarray, other: Session, prompt: Sequence[int], ids: Sequence[int], rows: int = SCORE_ROWS
) -> Distances:
    """Two models along the same text of T tokens, which both are fed `rows` tokens a pass.

    A base that is not in memory is given by its logits [T, V] float32. Of models with unlike numbers of rows, whose
    last ones are padding, the rows that both have are compared.

    Raises:
        NonFiniteLogits: one of them returned NaN or infinite logits, or the other gives a token of the base none
            of its probability.
    """
    plain = Warper(Sampling(), prompt_tokens=len(prompt), eos_ids=())
    kl, base_logprobs, logprobs = (np.empty(len(ids)) for _ in range(3))
    agree = np.empty(len(ids), dtype=bool)
    read: Iterator[Tensor] = (
        (torch.from_numpy(np.array(row))[None] for row in base)
        if isinstance(base, np.ndarray)
        else along(base, plain, prompt, ids, rows)
    )
    for t, (mine, second) in enumerate(zip(read, along(other, plain, prompt, ids, rows), strict=True)):
        shared = min(mine.shape[-1], second.shape[-1])
        first, own = mine[..., :shared].to(second.device), second[..., :shared]
        p, q = first[0].double().log_softmax(dim=-1), own[0].double().log_softmax(dim=-1)
        # A token without probability adds nothing, and 0 times infinity would be NaN.
        inside = p != -torch.inf
        kl[t] = float((p[inside].exp() * (p[inside] - q[inside])).sum())
        base_logprobs[t], logprobs[t] = float(p[ids[t]]), float(q[ids[t]])
        agree[t] = bool(first.argmax() == own.argmax())
    _refuse("the KL", kl)
    _refuse("the base's log-probability", base_logprobs)
    _refuse("the log-probability", logprobs)
    return Distances(kl=np.maximum(kl, 0.0), base_logprobs=base_logprobs, logprobs=logprobs, agree=agree)


def _refuse(what: str, values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values)))
        raise NonFiniteLogits(
            f"{what} at token {at} of {len(values)} is {values[at]}: a model returned logits that are not finite, or "
            "none of the probability that the other or the text gives a token: try dtype float32, or check the weights"
        )
