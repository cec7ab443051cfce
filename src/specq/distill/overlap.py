"""How much of the target's law a draft has, along the target's own texts of prompts that were not trained on.

overlap = mean over positions of sum_v min(p, q): the share of proposals that `rejection` accepts at first place
(Leviathan et al. 2023, arXiv 2211.17192, section 3). Intervals go over prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    """sum_v min(p, q) at each position [N], the text that it stands in [N], and how often both argmaxes agree.

    Where the draft keeps some ids alone, `kept` is the same with q given that the token is one of them, and `lost` the
    mass that p has on the others, both [N]; kept is at most 1 - lost. None: it has all ids.
    """

    values: np.ndarray
    of: np.ndarray
    agreement: float
    kept: np.ndarray | None = None
    lost: np.ndarray | None = None


@torch.inference_mode()
def measure(model: PreTrainedModel, held: Files, head: Head, ids: Sequence[int] | None = None) -> Measured:
    """Read the held-out texts with a draft and hold its law against the target's states of them.

    `ids` are those that the draft proposes from, None: all.

    Raises:
        NonFiniteLogits: the draft's law is not finite.
    """
    values: list[float] = []
    kept: list[float] = []
    lost: list[float] = []
    of: list[int] = []
    places = None if ids is None else torch.tensor(ids, device=model.device)
    agreed = 0
    for number, entry in enumerate(held.entries):
        text = torch.tensor([entry.ids[:-1]], device=model.device)
        draft = last_hidden(model, text)[0, entry.start - 1 :]
        target = held.hidden(entry).to(model.device)
        for first in range(0, entry.learned, CHUNK):
            part = slice(first, first + CHUNK)
            p, q = head.law(target[part], TEMPERATURE), head.law(draft[part], TEMPERATURE)
            values += torch.minimum(p, q).sum(dim=-1).tolist()
            agreed += int((p.argmax(dim=-1) == q.argmax(dim=-1)).sum())
            if places is not None:
                p, q = p.index_select(-1, places), q.index_select(-1, places)
                kept += torch.minimum(p, q / q.sum(dim=-1, keepdim=True)).sum(dim=-1).tolist()
                lost += (1 - p.sum(dim=-1)).clamp(min=0).tolist()
        of += [number] * entry.learned
    if not np.isfinite(values).all():
        raise NonFiniteLogits("the draft's logits are not finite on the held-out texts: nothing was kept of it")
    found = Measured(values=np.array(values), of=np.array(of), agreement=agreed / len(values))
    return found if ids is None else replace(found, kept=np.array(kept), lost=np.array(lost))


def interval(measured: Measured) -> Resampled:
    """The mean overlap with its interval over prompts."""
    return mean(measured.values, measured.of)


def mean(values: np.ndarray, of: np.ndarray) -> Resampled:
    """The mean of a number at each position [N], with its interval over the texts that these stand in [N]."""
    return mean_difference(np.zeros_like(values), values, of)


def gain(before: Measured, after: Measured) -> Resampled:
    """What training added, position by position, with its interval over prompts."""
    return mean_difference(before.values, after.values, before.of)


def as_json(found: Resampled) -> dict[str, float | None]:
    """Value and interval, rounded."""
    return {name: _rounded(getattr(found, name)) for name in ("value", "low", "high")}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
