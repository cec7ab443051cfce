"""A model's own quantized twin must be what the same rounding on disk is, and copy nothing that it can share."""

from __future__ import annotations

from pathlib import Path

import packed_folders as folders
import pytest
import torch
import transformers

import tiny_models as tiny
from specq.core.errors import ConfigError, Unsupported
from specq.engines.hf import HFEngine
from specq.models.quiet import quiet
from specq.quantize import dense
from specq.quantize.audited import NO_KERNEL
from specq.quantize.dense import PackedLinear, pack
from specq.quantize.in_memory import quantize_in_memory
from specq.quantize.kernels import KernelLinear
from specq.quantize.load import load_quantized
from specq.quantize.replace import held_bytes, read_bytes

pytestmark = pytest.mark.usefixtures("one_thread")
IDS = torch.tensor([tiny.prompt("a quick test, a quicker test").ids])


@pytest.fixture(autouse=True)
def hush():
    with quiet():
        yield


def source(path: Path, **changes) -> transformers.PreTrainedModel:
    """The bfloat16 model that the folders were made from, loaded as any model is."""
    tiny.save(path / "source", tiny.make("llama", **folders.SMALL, **changes), dtype=torch.bfloat16)
    return transformers.AutoModelForCausalLM.from_pretrained(path / "source", dtype=torch.bfloat16).eval()


@torch.inference_mode()
def logits(model: transformers.PreTrainedModel, ids: torch.Tensor = IDS) -> torch.Tensor:
    return model(input_ids=ids).logits.float()


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize(("bits", "group"), [(8, None), (4, 32)])
def test_a_self_draft_is_not_the_folder_of_the_same_rounding(tmp_path, bits, group, is_packed):
    path = folders.write(tmp_path, bits=bits, group=group or 0)
    model = source(tmp_path)
    if is_packed:
        pack(model)
    before = logits(model)
    draft = quantize_in_memory(model, bits=bits, group_size=group, symmetric=True, prefill="packed")
    right = load_quantized(path, dtype="bfloat16", prefill="packed")
    for ids in (IDS[:, :1], IDS[:, :7]):
        assert torch.equal(logits(draft.model, ids), logits(right.model, ids))
    assert dict(draft.kernels) == dict(right.kernels)
    assert torch.equal(logits(model), before)
    assert not any(isinstance(module, KernelLinear) for module in model.modules())


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_a_self_draft_copies_what_it_could_share(tmp_path, head, tied):
    model = source(tmp_path, tie_word_embeddings=tied)
    draft = quantize_in_memory(model, bits=8, head=head, prefill="packed")
    mine, theirs = dict(draft.model.named_parameters()), dict(model.named_parameters())
    shared = {name for name in mine if mine[name] is theirs[name]}
    assert shared == set(mine)
    assert any("norm" in name for name in shared)
    assert draft.model.get_input_embeddings().weight is model.get_input_embeddings().weight
    top = draft.model.get_output_embeddings()
    assert isinstance(top, KernelLinear if head else torch.nn.Linear)
    assert ("lm_head" in draft.kernels) == head
    assert model.get_output_embeddings() is not top
    assert held_bytes(model) > draft.bytes_held or tied


def test_a_self_draft_of_a_float32_model_is_not_its_yardstick(tmp_path):
    path = folders.write(tmp_path, bits=8, dtype=torch.float32)
    draft = quantize_in_memory(tiny.make("llama", **folders.SMALL), bits=8)
    assert torch.equal(logits(draft.model), logits(load_quantized(path, dtype="float32").model))
    assert set(draft.kernels.values()) == {f"{NO_KERNEL}the kernels compute in bfloat16, not float32"}


@pytest.mark.parametrize("place", ["gate", "router_gate", "router.layer", "gate.wg", "shared_expert_gate"])
def test_a_self_draft_rounds_what_chooses_experts(place):
    model = tiny.make("llama", **folders.SMALL).to(torch.bfloat16)
    inside = model.model.layers[0].mlp
    *above, last = place.split(".")
    for name in above:
        inside.add_module(name, torch.nn.Module())
        inside = inside.get_submodule(name)
    inside.add_module(last, torch.nn.Linear(64, 16, bias=False).to(torch.bfloat16))
    draft = quantize_in_memory(model, bits=8, prefill="packed")
    assert len(draft.kernels) == 14
    assert f"model.layers.0.mlp.{place}" not in draft.kernels


def test_an_impossible_self_draft_is_made(tmp_path):
    model = tiny.make("llama", **folders.SMALL).to(torch.bfloat16)
    with pytest.raises(ConfigError, match="takes 8 or 4"):
        quantize_in_memory(model, bits=3)
    with pytest.raises(ConfigError, match=r"group_size = 64 does not divide 96 columns of 2 layers"):
        quantize_in_memory(model, bits=4, group_size=64)
    with pytest.raises(Unsupported, match="quantized already"):
        quantize_in_memory(load_quantized(folders.write(tmp_path, bits=4, group=32)).model, bits=8)


def test_a_self_draft_rounds_otherwise_than_llmcompressor(tmp_path):
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import QuantizationModifier

    model = source(tmp_path)
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32}
    recipe = QuantizationModifier(
        config_groups={"group_0": {"targets": ["Linear"], "weights": weights}}, ignore=["lm_head"]
    )
    oneshot(model=model, recipe=recipe, output_dir=str(tmp_path / "out"))
    theirs = load_quantized(tmp_path / "out", dtype="bfloat16", prefill="packed")
    mine = quantize_in_memory(source(tmp_path), bits=4, group_size=32, symmetric=True, prefill="packed")
    assert mine.kernels == theirs.kernels
    for name in mine.kernels:
        a, b = mine.model.get_submodule(name), theirs.model.get_submodule(name)
        assert torch.equal(a.packed, b.packed), name
        assert torch.equal(a.scales, b.scales), name


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_packed_twins_are_missed_when_counting(kind):
    model = tiny.make(kind, **folders.SMALL, tie_word_embeddings=False).to(torch.bfloat16)
    before = held_bytes(model)
    if not pack(model):
        pytest.skip("oneDNN has no bfloat16 kernels for this processor, so nothing is packed")
    assert isinstance(model.lm_head, PackedLinear)
    assert held_bytes(model) == before


@pytest.mark.parametrize("tied", [True, False])
def test_a_decode_step_reads_dense_twins_or_the_input_embedding(tmp_path, monkeypatch, tied):
    """A tied head is the embedding's own weights, which a step reads whole unless the head has packed ones."""
    monkeypatch.setattr("specq.quantize.kernels._other_is_faster", lambda layers, rows: rows >= 4)
    model = source(tmp_path, tie_word_embeddings=tied)
    table = model.get_input_embeddings().weight.nbytes
    packed = quantize_in_memory(model, bits=4, prefill="packed").model
    dense = quantize_in_memory(model, bits=4, prefill="dense").model
    assert held_bytes(dense) > held_bytes(packed)
    assert read_bytes(dense) == read_bytes(packed)
    assert read_bytes(packed) == held_bytes(packed) - (0 if tied else table)


@pytest.mark.parametrize("packed", [True, False])
def test_layers_without_a_kernel_are_laid_out_though_the_engine_packs_nothing(tmp_path, packed):
    if not dense.repacks("float32", "cpu"):
        pytest.skip("nothing is packed in float32 here")
    folder = tiny.save(tmp_path / "m", tiny.make("llama"))
    engine = HFEngine(device="cpu", dtype="float32", packed=packed)
    target = engine.open(str(folder)).model
    draft = quantize_in_memory(target, bits=8).model
    stored = engine.open(str(folders.write(tmp_path / "q", bits=4, group=32))).model
    for model in (target, draft, stored):
        assert any(isinstance(module, PackedLinear) for module in model.modules()) == packed
