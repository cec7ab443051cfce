"""Packed weights must give the same bits, or not be used."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tiny_models as tiny
from specq.engines.hf import HFEngine
from specq.quantize import dense as packing

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(
        not packing._available(),
        reason="oneDNN has no bfloat16 kernels for this processor, so nothing is packed",
    ),
]
PROMPT = tiny.prompt("abc abc, abd abc")


def linear(inputs: int, outputs: int, *, bias: bool, dtype: torch.dtype = torch.bfloat16) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=bias)
    generator = torch.Generator().manual_seed(inputs * 1000 + outputs)
    layer.weight.data.normal_(0, inputs**-0.5, generator=generator)
    if bias:
        layer.bias.data.normal_(generator=generator)
    return layer.to(dtype).eval().requires_grad_(False)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(64, 64), (33, 17), (1, 5), (7, 1), (130, 259)])
@torch.inference_mode()
def test_a_packed_layer_differs_in_a_bit(shape, bias):
    plain = linear(*shape, bias=bias)
    packed = packing.PackedLinear(plain)
    generator = torch.Generator().manual_seed(1)
    for size in [(1,), (2,), (9,), (64,), (1, 1), (1, 6), (3, 4)]:
        x = torch.randn(*size, shape[0], generator=generator).bfloat16()
        assert torch.equal(plain(x), packed(x))


def test_a_layer_whose_packed_output_differs_is_used(monkeypatch):
    class Off(packing.PackedLinear):
        def forward(self, x):
            out = super().forward(x)
            return out + (x.shape[1] == 5) if self.out_features == 24 else out

    monkeypatch.setattr(packing, "PackedLinear", Off)
    model = nn.Sequential(linear(16, 32, bias=True), linear(32, 24, bias=False), linear(24, 8, bias=False))
    wrong = model[1]
    assert packing.pack(model) == 2
    assert model[1] is wrong
    assert isinstance(model[0], Off)
    assert isinstance(model[2], Off)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_another_dtype_is_packed(dtype):
    model = nn.Sequential(linear(16, 32, bias=True, dtype=dtype))
    kept = model[0]
    assert packing.pack(model) == 0
    assert model[0] is kept


def test_a_subclass_of_linear_loses_what_it_does():
    class Scaled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    model = nn.Sequential(Scaled(16, 32).bfloat16().requires_grad_(False))
    assert packing.pack(model) == 0


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
@torch.inference_mode()
def test_a_packed_model_gives_other_logits(tmp_path, kind, tied):
    folder = tiny.save(tmp_path / "m", tiny.make(kind, tie_word_embeddings=tied), dtype=torch.bfloat16)
    models = [HFEngine(device="cpu", packed=packed).open(str(folder)) for packed in (False, True)]
    layers = [sum(isinstance(m, packing.PackedLinear) for m in t.model.modules()) for t in models]
    assert layers == [0, 7 * tiny.LAYERS + 1]
    for ids in (PROMPT.ids, PROMPT.ids[:1], PROMPT.ids[:5]):
        x = torch.tensor([ids])
        assert torch.equal(*(t.model(input_ids=x).logits for t in models))
    spec = tiny.drafts("rejection", 4, "self")
    for draft in (None, spec["ngram"], spec["early_exit"]):
        a, b = (t.decoder(draft).generate([PROMPT], tiny.greedy(24))[0] for t in models)
        assert (a.ids, tiny.counts(a)) == (b.ids, tiny.counts(b))
    assert models[0].vocabulary == models[1].vocabulary == tiny.V


def test_float32_is_touched(target_of):
    assert not any(isinstance(m, packing.PackedLinear) for m in target_of("llama").model.modules())
