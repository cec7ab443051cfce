"""Packed weights must give the same numbers, or not be used: the same bits in bfloat16, float32 within its rounding."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor, nn

import tiny_models as tiny
from specq.engines.hf import HFEngine
from specq.quantize import dense as packing

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(
        not (packing._packs(torch.bfloat16) or packing._packs(torch.float32)),
        reason="this torch has no oneDNN, so nothing is packed",
    ),
]
NARROW = packing._packs(torch.bfloat16)
DTYPE, OTHER = (torch.bfloat16, torch.float32) if NARROW else (torch.float32, torch.bfloat16)
PROMPT = tiny.prompt("abc abc, abd abc")


def same(found: Tensor, right: Tensor) -> bool:
    """Bit for bit, or as close as sums in another order are."""
    if NARROW:
        return torch.equal(found, right)
    return torch.allclose(found, right, rtol=1e-4, atol=1e-5)


def linear(inputs: int, outputs: int, *, bias: bool, dtype: torch.dtype = DTYPE) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=bias)
    generator = torch.Generator().manual_seed(inputs * 1000 + outputs)
    layer.weight.data.normal_(0, inputs**-0.5, generator=generator)
    if bias:
        layer.bias.data.normal_(generator=generator)
    return layer.to(dtype).eval().requires_grad_(False)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(64, 64), (33, 17), (1, 5), (7, 1), (130, 259)])
@torch.inference_mode()
def test_a_packed_layer_gives_other_numbers(shape, bias):
    plain = linear(*shape, bias=bias)
    packed = packing.PackedLinear(plain)
    generator = torch.Generator().manual_seed(1)
    for size in [(1,), (2,), (9,), (64,), (1, 1), (1, 6), (3, 4)]:
        x = torch.randn(*size, shape[0], generator=generator).to(DTYPE)
        assert same(packed(x), plain(x))
    assert torch.equal(packed.dense_weight, plain.weight)
    assert (packed.dtype, packed.weight_bytes) == (DTYPE, plain.weight.nbytes)


@pytest.mark.parametrize("off", [1.0, 3e-5, float("nan")])
def test_a_layer_whose_packed_output_differs_is_used(monkeypatch, off):
    class Off(packing.PackedLinear):
        def forward(self, x):
            out = super().forward(x)
            scale = max(off, 0.05) if NARROW else off
            return out * (1 + scale * (x.shape[1] == 5)) if self.out_features == 24 else out

    monkeypatch.setattr(packing, "PackedLinear", Off)
    model = nn.Sequential(linear(16, 32, bias=True), linear(32, 24, bias=False), linear(24, 8, bias=False))
    wrong = model[1]
    assert packing.pack(model) == 2
    assert model[1] is wrong
    assert isinstance(model[0], Off)
    assert isinstance(model[2], Off)


@pytest.mark.parametrize("dtype", [OTHER, torch.float16])
def test_another_dtype_is_packed(dtype):
    model = nn.Sequential(linear(16, 32, bias=True, dtype=dtype))
    kept = model[0]
    assert packing.pack(model) == 0
    assert model[0] is kept


def test_a_subclass_of_linear_loses_what_it_does():
    class Scaled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    model = nn.Sequential(Scaled(16, 32).to(DTYPE).requires_grad_(False))
    assert packing.pack(model) == 0


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
@torch.inference_mode()
def test_a_packed_model_gives_other_logits(tmp_path, kind, tied):
    folder = tiny.save(tmp_path / "m", tiny.make(kind, tie_word_embeddings=tied), dtype=DTYPE)
    models = [HFEngine(device="cpu", packed=packed).open(str(folder)) for packed in (False, True)]
    layers = [sum(isinstance(m, packing.PackedLinear) for m in t.model.modules()) for t in models]
    assert layers == [0, 7 * tiny.LAYERS + 1]
    for ids in (PROMPT.ids, PROMPT.ids[:1], PROMPT.ids[:5]):
        x = torch.tensor([ids])
        plain, packed = (t.model(input_ids=x).logits for t in models)
        assert same(packed, plain)
    spec = tiny.drafts("rejection", 4, "self")
    for draft in (None, spec["ngram"], spec["early_exit"]):
        a, b = (t.decoder(draft).generate([PROMPT], tiny.greedy(24))[0] for t in models)
        assert (a.ids, tiny.counts(a)) == (b.ids, tiny.counts(b))
    assert models[0].vocabulary == models[1].vocabulary == tiny.V


@pytest.mark.parametrize(("bfloat16", "mkl", "count"), [(True, True, 0), (False, False, 0), (False, True, 1)])
def test_float32_is_touched_where_bfloat16_or_float32_is_fast_as_it_is(monkeypatch, bfloat16, mkl, count):
    monkeypatch.setattr(packing, "_has_bfloat16", lambda: bfloat16)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: mkl)
    model = nn.Sequential(linear(16, 32, bias=True, dtype=torch.float32))
    assert packing.repacks("float32", "cpu") == bool(count)
    assert packing.pack(model) == count


def test_one_wrong_row_of_a_wide_layer_hides_in_the_norm_of_all(monkeypatch):
    """The twin in float32: a share of the norm would let it through, however far off that row is."""
    monkeypatch.setattr(packing, "_packs", lambda dtype: True)
    layer = linear(16, 8192, bias=False, dtype=torch.float32)

    class Off(packing.PackedLinear):
        def forward(self, x):
            out = super().forward(x)
            out[..., 5] += 5e-5 * out.abs().max()
            return out

    x = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert (Off(layer)(x) - layer(x)).norm() < packing.FLOAT32_ERROR * layer(x).norm()
    assert isinstance(packing.blocked(layer), packing.PackedLinear)
    monkeypatch.setattr(packing, "PackedLinear", Off)
    assert packing.blocked(layer) is layer


@pytest.mark.parametrize("tied", [False, True])
def test_a_replaced_weight_stays_in_memory(tied):
    embedding = nn.Embedding(32, 16, dtype=DTYPE).requires_grad_(False)
    model = nn.Sequential(linear(16, 32, bias=False), embedding)
    if tied:
        model[0].weight = embedding.weight
    old = weakref.ref(model[0].weight)
    assert packing.pack(model) == 1
    gc.collect()
    assert (old() is not None) == tied
