"""Packed layers inside a compiled pass must give what they give outside it, on both sides of their crossover."""

from __future__ import annotations

import packed_folders as folders
import pytest
import torch

import tiny_models as tiny
from specq.decoding.compiled import CompiledSession
from specq.decoding.session import Session
from specq.quantize.in_memory import quantize_in_memory
from specq.quantize.kernels import KernelLinear

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("bits", [4, 8])
@torch.inference_mode()
def test_a_compiled_pass_runs_other_weights_than_the_kernel(monkeypatch, bits):
    """With the real compiler: one row is the kernel's, four rows are the dense twin's."""
    monkeypatch.setattr("specq.quantize.kernels._other_is_faster", lambda layers, rows: rows >= 4)
    model = tiny.make("llama", **folders.SMALL | {"num_hidden_layers": 1}).bfloat16()
    made = quantize_in_memory(model, bits=bits)
    layers = [m for m in made.model.modules() if isinstance(m, KernelLinear)]
    assert layers
    assert all(layer.many == 4 for layer in layers)
    eager, fast = Session(made.model, keep="nothing"), CompiledSession(made.model, (1, 4))
    for session in (eager, fast):
        session.forward([4, 5, 6, 7, 8], last_only=True)
    for ids in ([9], [10, 11, 12, 13]):
        right, found = eager.forward(ids).float(), fast.forward(ids).float()
        assert (found - right).norm() <= 0.03 * right.norm()
    # Each reads its own weights, where they are: without its integers the kernel's pass changes, the twin's does not.
    fast.rollback(5)
    before = fast.forward([9]).float(), fast.forward([10, 11, 12, 13]).float()
    for layer in layers:
        layer.packed.zero_()
    fast.rollback(4)
    assert torch.equal(fast.forward([10, 11, 12, 13]).float(), before[1])
    fast.rollback(5)
    assert (fast.forward([9]).float() - before[0]).norm() > 0.1 * before[0].norm()
