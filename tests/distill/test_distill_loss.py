from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from specq.distill.loss import Head, gradient
from specq.distill.recipe import LOSSES, Loss

N, H, V = 11, 8, 37


def slow(hidden: Tensor, target: Tensor, head: Head, loss: Loss, temperature: float) -> tuple[float, Tensor]:
    """The loss as its formula stands, in float64, and its gradient by autograd."""
    x = hidden.double().clone().requires_grad_(True)
    bias = 0 if head.bias is None else head.bias.double()
    z, of = ((h @ head.weight.double().T + bias) / temperature for h in (x, target.double()))
    p = of.exp() / of.exp().sum(dim=-1, keepdim=True)
    q = z.exp() / z.exp().sum(dim=-1, keepdim=True)
    each = (p * (p.log() - q.log())).sum(dim=-1) if loss == "kl" else 1 - torch.minimum(p, q).sum(dim=-1)
    each.mean().backward()
    assert x.grad is not None
    return float(each.mean().detach()), x.grad


def drawn(dtype: torch.dtype, *, bias: bool) -> tuple[Tensor, Tensor, Head]:
    torch.manual_seed(0)
    hidden, target = torch.randn(N, H).to(dtype), torch.randn(N, H).to(dtype)
    head = Head(weight=torch.randn(V, H).to(dtype), bias=torch.randn(V).to(dtype) if bias else None)
    return hidden, target, head


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("temperature", "bias", "chunk"), [(1.0, False, 64), (0.7, True, 4), (1.6, False, 1)])
def test_the_gradient_is_that_of_another_loss(
    one_thread: None, loss: Loss, temperature: float, bias: bool, chunk: int
) -> None:
    hidden, target, head = drawn(torch.float32, bias=bias)
    how: dict[str, Any] = {"loss": loss, "temperature": temperature, "chunk": chunk}
    value, slope = gradient(hidden, target, head, **how)
    expected, expected_slope = slow(hidden, target, head, loss, temperature)
    assert value == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(slope.double(), expected_slope, rtol=1e-4, atol=1e-7)
    none, same = gradient(hidden, target, head, **how, value=False)
    assert none is None
    assert torch.equal(slope, same)


@pytest.mark.parametrize("loss", LOSSES)
def test_rounding_to_bfloat16_turns_the_gradient(one_thread: None, loss: Loss) -> None:
    hidden, target, head = drawn(torch.bfloat16, bias=False)
    _, slope = gradient(hidden, target, head, loss=loss, temperature=1.0)
    _, expected = slow(hidden, target, head, loss, 1.0)
    assert slope.dtype == torch.bfloat16
    cosine = torch.nn.functional.cosine_similarity(slope.double().flatten(), expected.flatten(), dim=0)
    assert float(cosine) > 0.999
    assert float(slope.double().norm() / expected.norm()) == pytest.approx(1, abs=0.02)


def test_the_target_itself_has_a_loss(one_thread: None) -> None:
    hidden, _, head = drawn(torch.float32, bias=True)
    for loss in LOSSES:
        value, slope = gradient(hidden, hidden, head, loss=loss, temperature=1.0)
        assert value == pytest.approx(0, abs=1e-6)
        assert float(slope.abs().max()) < 1e-7


@pytest.mark.parametrize("loss", LOSSES)
def test_draft_and_target_change_places(one_thread: None, loss: Loss) -> None:
    hidden, target, head = drawn(torch.float32, bias=False)
    _, slope = gradient(hidden, target, head, loss=loss, temperature=1.0)
    moved, _ = gradient(hidden - 0.1 * slope / slope.norm(), target, head, loss=loss, temperature=1.0)
    before, _ = gradient(hidden, target, head, loss=loss, temperature=1.0)
    assert moved is not None
    assert before is not None
    assert moved < before
    assert loss == "overlap" or before != pytest.approx(gradient(target, hidden, head, loss=loss, temperature=1.0)[0])
