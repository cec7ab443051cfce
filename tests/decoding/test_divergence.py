"""The KL of two models along a text, where logits leave tokens no probability."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specq.core.errors import NonFiniteLogits
from specq.core.types import Prompt
from specq.decoding.divergence import divergence
from specq.engines import assembled

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


def by_numpy(base, other):
    p, q = (logits.numpy().astype(np.float64) for logits in (base, other))
    p, q = (logits - np.log(np.exp(logits).sum(-1, keepdims=True)) for logits in (p, q))
    return (np.exp(p) * (p - q)).sum(-1), p[np.arange(3), TEXT], q[np.arange(3), TEXT]


def test_a_position_has_another_kl_or_another_token_s_probability():
    found = divergence(Scripted(BASE), Scripted(OTHER), (7,), TEXT)
    kl, base_logprobs, logprobs = by_numpy(BASE, OTHER)
    assert found.kl == pytest.approx(kl, rel=1e-9)
    assert found.base_logprobs == pytest.approx(base_logprobs, rel=1e-9)
    assert found.logprobs == pytest.approx(logprobs, rel=1e-9)
    assert found.agree.tolist() == [True, False, True]


def test_padding_that_only_one_model_has_counts_as_tokens():
    found = divergence(Scripted(BASE), Scripted(OTHER), (7,), TEXT)
    more = torch.full((3, 2), 9.0)
    for base, other in ((torch.cat([BASE, more], 1), OTHER), (BASE, torch.cat([OTHER, more], 1))):
        wide = divergence(Scripted(base), Scripted(other), (7,), TEXT)
        assert wide.kl.tolist() == found.kl.tolist()
        assert wide.logprobs.tolist() == found.logprobs.tolist()
        assert wide.agree.tolist() == found.agree.tolist()


def test_a_record_rounds_away_what_a_near_lossless_change_moves():
    near = BASE + torch.tensor([3e-5, 0.0, 0.0, 0.0])
    found = divergence(Scripted(BASE), Scripted(near), (7,), TEXT)
    prompt = Prompt(id="p", ids=(7, 7), text="")
    made = assembled.divergence("w", prompt, found)
    assert (made.prompt_tokens, made.positions, made.agreed, made.differ) == (2, 3, 3, ())
    moved = np.array(made.logprobs) - np.array(made.base_logprobs)
    assert moved == pytest.approx(found.logprobs - found.base_logprobs, abs=1e-5)
    assert abs(moved).max() > 1e-5
    assert made.kl == pytest.approx(found.kl, rel=1e-3)
    assert made.kl_sum == found.kl.sum()
    other = assembled.divergence("w", prompt, divergence(Scripted(BASE), Scripted(OTHER), (7,), TEXT))
    assert (other.agreed, other.differ) == (2, (1,))
    assert all(value == float(f"{value:.4g}") for value in other.kl)


def test_a_text_s_token_without_probability_is_scored():
    with pytest.raises(NonFiniteLogits, match="base's log-probability at token 1 of 3 is -inf"):
        divergence(Scripted(without(BASE, 0, 1)), Scripted(without(OTHER, 0, 1)), (7,), TEXT)


def test_a_token_that_both_models_forbid_makes_the_divergence_zero():
    found = divergence(Scripted(without(BASE, 3)), Scripted(without(OTHER, 3)), (7,), TEXT)
    p, q = (logits[:, :3].double().log_softmax(-1) for logits in (BASE, OTHER))
    assert found.kl == pytest.approx((p.exp() * (p - q)).sum(-1).numpy())
    assert found.kl.min() > 0
    assert found.agree.sum() == 2


def test_a_token_that_one_model_forbids_makes_the_divergence_zero():
    with pytest.raises(NonFiniteLogits, match="the KL at token 1 of 3 is inf"):
        divergence(Scripted(BASE), Scripted(without(OTHER, 3, 1)), (7,), TEXT)
    # What the base never says costs it nothing.
    found = divergence(Scripted(without(BASE, 3)), Scripted(OTHER), (7,), TEXT)
    assert np.isfinite(found.kl).all()
    assert found.kl.min() > 0


def test_a_base_that_is_kept_as_logits_gives_another_divergence():
    beside = divergence(Scripted(BASE), Scripted(OTHER), (7,), TEXT)
    kept = divergence(BASE.numpy(), Scripted(OTHER), (7,), TEXT)
    for name in ("kl", "base_logprobs", "logprobs", "agree"):
        assert np.array_equal(getattr(kept, name), getattr(beside, name))
    with pytest.raises(ValueError, match="longer"):
        divergence(BASE.numpy()[:2], Scripted(OTHER), (7,), TEXT)
