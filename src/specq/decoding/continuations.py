"""Several continuations of one prompt under one model: the prompt is read once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from specq.core.errors import PromptError
from specq.core.types import Sampling
from specq.decoding.sampling import Warper
from specq.decoding.session import Session


@torch.inference_mode()
def scores(
    session: Session, prompt: Sequence[int], several: Sequence[Sequence[int]], rows: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each continuation, log-probabilities [T] float64 before any warping and the argmax ids [T] int64.

    The session is rolled back to the prompt after each; its model must allow that. `rows` tokens are fed a pass.

    Raises:
        PromptError: there is no prompt, after which the first token could be scored.
        NonFiniteLogits: the model returned NaN or infinite logits.
    """
    if not prompt:
        raise PromptError("score: the prompt is empty: give at least one token before the continuation")
    plain = Warper(Sampling(), prompt_tokens=len(prompt), eos_ids=())
    session.restart()
    first = plain.scores(prompt, session.forward(prompt, last_only=True))
    session.rollback(0)
    found = []
    for ids in several:
        # Of each pass no more is kept than what is asked of its logits.
        read = [_of(first, ids[:1])] if ids else [(np.empty(0), np.empty(0, dtype=np.int64))]
        for start in range(0, len(ids) - 1, rows):
            block = list(ids[start : min(start + rows, len(ids) - 1)])
            logits = plain.scores([*prompt, *ids[: start + len(block)]], session.forward(block))
            read.append(_of(logits, ids[start + 1 : start + 1 + len(block)]))
        session.rollback(max(0, len(ids) - 1))
        logprobs, argmax = zip(*read, strict=True)
        found.append((np.concatenate(logprobs), np.concatenate(argmax)))
    return found


def _of(logits: torch.Tensor, ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    places = torch.tensor(list(ids), device=logits.device)[:, None]
    logprobs = logits.double().log_softmax(dim=-1).gather(1, places)[:, 0]
    return logprobs.cpu().numpy(), logits.argmax(dim=-1).cpu().numpy()
