"""What processors without bfloat16 kernels get: no packing, no crash, and a word."""

from __future__ import annotations

import pytest
import torch

import tiny_models as tiny
from specq.quantize import dense


@pytest.fixture
def old_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(dense, "_has_bfloat16", lambda: False)


@pytest.mark.usefixtures("old_processor")
def test_packing_raises_without_bfloat16_kernels() -> None:
    model = tiny.make("llama").bfloat16()
    assert dense.pack(model) == 0
    assert not any(isinstance(module, dense.PackedLinear) for module in model.modules())


def test_a_slow_dtype_is_not_told(old_processor: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "AVX-512" in dense.lacks_kernels(torch.bfloat16, "cpu")
    assert dense.lacks_kernels(torch.float32, "cpu") == ""
    assert dense.lacks_kernels(torch.bfloat16, "cuda") == ""
    monkeypatch.setattr(dense, "_has_bfloat16", lambda: True)
    assert dense.lacks_kernels(torch.bfloat16, "cpu") == ""


@pytest.mark.usefixtures("old_processor")
def test_a_run_keeps_it_to_itself(folder_of) -> None:
    from specq.engines.hf import HFEngine

    with HFEngine(dtype="bfloat16", device="cpu").open(str(folder_of("llama"))) as target:
        assert any("bfloat16 matrix kernels" in note for note in target.loaded.notes)
