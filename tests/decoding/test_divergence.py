"""The KL of two models along a text, where logits leave tokens no probability."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specq.core.errors import NonFiniteLogits
from specq.decoding import audit

TEXT = (1, 0, 2)
BASE = torch.tensor([[2.0, 1.0, 0.0, 0.5], [0.0, 3.0, 1.0, 0.5], [1.0, 0.0, 2.0, 0.5]])
OTHER = torch.tensor([[1.0, 1.0, 0.0, 0.5], [0.0, 2.0, 3.0, 0.5], [1.0, 1.0, 2.0, 0.5]])


class Scripted:
    """Logits by position, whatever is fed."""

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits

    def restart(self) -> None:
        self.at = -1

    def forward(self, ids, *, last_only=False):
        rows = 1 if last_only else len(ids)
        self.at += rows
        return self.logits[self.at + 1 - rows : self.at + 1]

    def rollback(self, tokens) -> None:
        assert tokens == 0


def without(logits, token, rows=slice(None)):
    found = logits.clone()
    found[rows, token] = -torch.inf
    return found


def test_a_token_that_both_models_forbid_makes_the_divergence_zero():
    kl, agreed = audit.divergence(Scripted(without(BASE, 3)), Scripted(without(OTHER, 3)), (7,), TEXT)
    p, q = (logits[:, :3].double().log_softmax(-1) for logits in (BASE, OTHER))
    assert kl == pytest.approx((p.exp() * (p - q)).sum(-1).numpy())
    assert kl.min() > 0
    assert agreed == 2


def test_a_token_that_one_model_forbids_makes_the_divergence_zero():
    with pytest.raises(NonFiniteLogits, match="the KL at token 1 of 3 is inf"):
        audit.divergence(Scripted(BASE), Scripted(without(OTHER, 3, 1)), (7,), TEXT)
    # What the base never says costs it nothing.
    kl, _ = audit.divergence(Scripted(without(BASE, 3)), Scripted(OTHER), (7,), TEXT)
    assert np.isfinite(kl).all()
    assert kl.min() > 0


def test_a_base_that_is_kept_as_logits_gives_another_divergence():
    beside = audit.divergence(Scripted(BASE), Scripted(OTHER), (7,), TEXT)
    kept = audit.divergence(BASE.numpy(), Scripted(OTHER), (7,), TEXT)
    assert np.array_equal(kept[0], beside[0])
    assert kept[1] == beside[1]
    with pytest.raises(ValueError, match="longer"):
        audit.divergence(BASE.numpy()[:2], Scripted(OTHER), (7,), TEXT)
