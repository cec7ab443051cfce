"""How much of the target's law a draft has, along the target's own texts of prompts that were not trained on.

overlap = mean over positions of sum_v min(p, q): the share of proposals that `rejection` accepts at first place
(Leviathan et al. 2023, arXiv 2211.17192, section 3). Intervals go over prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel

from specq.core.errors import NonFiniteLogits
from specq.distill.loss import CHUNK, Head
from specq.distill.shards import Files
from specq.distill.shorten import last_hidden
from specq.stats.bootstrap import Resampled, mean_difference

TEMPERATURE = 0.8
"""Of the held-out texts and of both laws."""
PROMPTS = 64
NEW_TOKENS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """sum_v min(p, q) at each position [N], the text that it stands in [N], and how often both argmaxes agree."""

    values: np.ndarray
    of: np.ndarray
    agreement: float


@torch.inference_mode()
def measure(model: PreTrainedModel, held: Files, head: Head) -> Measured:
    """Read the held-out texts with a draft and hold its law against the target's states of them.

    Raises:
        NonFiniteLogits: the draft's law is not finite.
    """
    values: list[float] = []
    of: list[int] = []
    agreed = 0
    for number, entry in enumerate(held.entries):
        ids = torch.tensor([entry.ids[:-1]], device=model.device)
        draft = last_hidden(model, ids)[0, entry.start - 1 :]
        target = held.hidden(entry).to(model.device)
        for first in range(0, entry.learned, CHUNK):
            part = slice(first, first + CHUNK)
            p, q = head.law(target[part], TEMPERATURE), head.law(draft[part], TEMPERATURE)
            values += torch.minimum(p, q).sum(dim=-1).tolist()
            agreed += int((p.argmax(dim=-1) == q.argmax(dim=-1)).sum())
        of += [number] * entry.learned
    if not np.isfinite(values).all():
        raise NonFiniteLogits("the draft's logits are not finite on the held-out texts: nothing was kept of it")
    return Measured(values=np.array(values), of=np.array(of), agreement=agreed / len(values))


def interval(measured: Measured) -> Resampled:
    """The mean overlap with its interval over prompts."""
    return mean_difference(np.zeros_like(measured.values), measured.values, measured.of)


def gain(before: Measured, after: Measured) -> Resampled:
    """What training added, position by position, with its interval over prompts."""
    return mean_difference(before.values, after.values, before.of)


def as_json(found: Resampled) -> dict[str, float | None]:
    """Value and interval, rounded."""
    return {name: _rounded(getattr(found, name)) for name in ("value", "low", "high")}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def prompts_of(held: Files) -> Sequence[tuple[int, ...]]:
    """What stands before the learned tokens of each held-out text."""
    return [entry.ids[: entry.start] for entry in held.entries]
