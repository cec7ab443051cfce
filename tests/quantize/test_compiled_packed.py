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
    model = tiny.make("llama", **folders.SMALL | {"num_hidden_layers": 2}).bfloat16()
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
    # Weights that changed are seen, so the bound above is no formality: the graph reads them where they are.
    fast.rollback(5)
    before = fast.forward([9]).float()
    layers[0].packed.zero_()
    fast.rollback(1)
    assert (fast.forward([9]).float() - before).norm() > 0.1 * before.norm()
