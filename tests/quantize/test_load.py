"""A folder on packed kernels must be the model that transformers loads, and cost what it says."""

from __future__ import annotations

import json
from pathlib import Path

import packed_folders as folders
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import tiny_models as tiny
from specq.core.errors import ModelError
from specq.models.quiet import quiet
from specq.quantize import load
from specq.quantize.audited import NO_KERNEL
from specq.quantize.declared import is_quantized
from specq.quantize.kernels import INT4, INT8, KernelLinear
from specq.quantize.load import load_quantized

pytestmark = pytest.mark.usefixtures("one_thread")
IDS = torch.tensor([tiny.prompt("a quick test, a quicker test").ids])
FORMATS = {
    "w4": {"bits": 4, "group": 32},
    "w4 asymmetric": {"bits": 4, "group": 32, "symmetric": False},
    "w4 g64 bias": {"bits": 4, "group": 64, "symmetric": False, "kind": "qwen2"},
    "w4 g128": {"bits": 4, "group": 128},
    "w4 g256": {"bits": 4, "group": 256, "symmetric": False},
    "w8": {"bits": 8},
    "w8 head": {"bits": 8, "ignore": ()},
    "w8 asymmetric": {"bits": 8, "symmetric": False},
    "w8 groups": {"bits": 8, "group": 32},
    "w4 rows": {"bits": 4, "symmetric": False},
    "w3": {"bits": 3, "group": 32, "symmetric": False},
    "w2": {"bits": 2, "group": 32},
    "float32 folder": {"bits": 4, "group": 32, "symmetric": False, "dtype": torch.float32},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in made:
            made[name] = folders.write(tmp_path_factory.mktemp("q") / "m", **FORMATS[name])
        return made[name]

    return of


@pytest.fixture(autouse=True)
def hush():
    with quiet():
        yield


def by_transformers(path: Path, dtype: torch.dtype) -> transformers.PreTrainedModel:
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=dtype).eval()


@torch.inference_mode()
def logits(model: transformers.PreTrainedModel, ids: torch.Tensor = IDS) -> torch.Tensor:
    return model(input_ids=ids).logits.float()


@pytest.mark.parametrize("name", FORMATS)
@torch.inference_mode()
def test_float32_differs_from_transformers_in_a_bit(folder, name):
    peer = by_transformers(folder(name), torch.float32)
    right = logits(peer)
    mine = load_quantized(folder(name), dtype="float32")
    assert torch.equal(logits(mine.model), right)
    peers = dict(peer.named_parameters())
    for key, value in mine.model.named_parameters():
        assert torch.equal(value, peers[key]), key
    assert getattr(mine.model.config, "quantization_config", None) is None
    assert all(kernel.startswith(NO_KERNEL) for kernel in mine.kernels.values())
    assert len(mine.kernels) == 14 + (name == "w8 head")


@pytest.mark.parametrize("prefill", ["dense", "packed"])
@pytest.mark.parametrize("name", FORMATS)
def test_bfloat16_is_off_by_more_than_rounding(folder, name, prefill):
    yardstick, peer = (by_transformers(folder(name), dtype) for dtype in (torch.float32, torch.bfloat16))
    mine = load_quantized(folder(name), dtype="bfloat16", prefill=prefill)
    kernels = {module.kernel for module in mine.model.modules() if isinstance(module, KernelLinear)}
    wanted = {INT8} if name in ("w8", "w8 head") else {INT4} if name.startswith(("w4", "float32")) else set()
    assert kernels == wanted
    if not wanted:
        assert torch.equal(logits(mine.model), logits(peer))
        assert all(kernel.startswith(NO_KERNEL) for kernel in mine.kernels.values())
    for ids in (IDS, IDS[:, :1]):
        right = logits(yardstick, ids)
        off, allowed = (float((logits(model, ids) - right).norm()) for model in (mine.model, peer))
        assert off <= 1.6 * allowed, (ids.shape, off, allowed)


def test_kernels_differ_where_rows_do_not_fit(folder):
    mine = load_quantized(folder("w4 rows"), dtype="bfloat16", prefill="packed")
    kept = {name.rpartition(".")[2] for name, kernel in mine.kernels.items() if kernel.startswith(NO_KERNEL)}
    assert kept == {"down_proj"}
    assert any("2 layers: no kernel here: 4 bits in groups of 96" in note for note in mine.notes)


def test_bytes_are_those_of_one_copy_where_two_are_held(folder, monkeypatch):
    packed = load_quantized(folder("w4 g128"), dtype="bfloat16", prefill="packed")
    monkeypatch.setattr("specq.quantize.kernels._other_is_faster", lambda layers, rows: rows >= 8)
    dense = load_quantized(folder("w4 g128"), dtype="bfloat16", prefill="dense")
    weights = sum(m.in_features * m.out_features for m in packed.model.modules() if isinstance(m, KernelLinear))
    rest = sum(p.numel() * 2 for p in packed.model.parameters())
    buffers = sum(b.numel() * b.element_size() for n, b in packed.model.named_buffers() if "inv_freq" in n)
    assert packed.bytes_held == rest + buffers + weights // 2 + weights // 128 * 4
    assert dense.bytes_held == packed.bytes_held + 2 * weights
    assert set(dense.dense_from.values()) == {8}
    assert set(packed.dense_from.values()) == {None}
    assert all(m.dense is None for m in packed.model.modules() if isinstance(m, KernelLinear))


def test_a_twin_is_kept_where_it_is_never_faster(folder, monkeypatch):
    monkeypatch.setattr("specq.quantize.kernels._other_is_faster", lambda layers, rows: False)
    dense = load_quantized(folder("w4"), dtype="bfloat16", prefill="dense")
    packed = load_quantized(folder("w4"), dtype="bfloat16", prefill="packed")
    assert dense.bytes_held == packed.bytes_held


def test_columns_in_activation_order_run_on_the_kernel(folder, tmp_path):
    tensors = load_file(folder("w4") / "model.safetensors")
    name = "model.layers.0.mlp.up_proj"
    order = (torch.arange(64) // 32).flip(0)
    right = by_transformers(folder("w4"), torch.float32)
    scales = tensors[f"{name}.weight_scale"].float()
    tensors[f"{name}.weight_scale"] = tensors[f"{name}.weight_scale"].flip(1).contiguous()
    for other in [one.removesuffix(".weight_packed") for one in tensors if one.endswith(".weight_packed")]:
        columns = int(tensors[f"{other}.weight_shape"][1])
        tensors[f"{other}.weight_g_idx"] = (torch.arange(columns) // 32).int()
    tensors[f"{name}.weight_g_idx"] = order.int()
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder("w4") / "config.json").read_text())
    config["quantization_config"]["config_groups"]["group_0"]["weights"]["actorder"] = "group"
    (tmp_path / "config.json").write_text(json.dumps(config))
    # Turned scales with turned groups are the weights as they were.
    assert scales.shape == (96, 2)
    mine = load_quantized(tmp_path, dtype="float32")
    assert torch.equal(logits(mine.model), logits(right))
    mine = load_quantized(tmp_path, dtype="bfloat16")
    assert mine.kernels[name] == f"{NO_KERNEL}columns are grouped in activation order"
    assert sum(kernel == INT4 for kernel in mine.kernels.values()) == 13


def test_a_head_that_was_quantized_is_tied_again(tmp_path):
    path = folders.write(tmp_path, bits=8, ignore=(), tie_word_embeddings=True)
    head = load_quantized(path, dtype="float32").model.get_output_embeddings().weight
    tensors = load_file(path / "model.safetensors")
    embedding, scale = tensors["model.embed_tokens.weight"].float(), tensors["lm_head.weight_scale"].float()
    assert not torch.equal(head, embedding)
    # A scale is rounded to bfloat16 and the largest value is cut to 127 steps, so more than half a step can go.
    assert bool(((head - embedding).abs() <= 1.2 * scale).all())


def test_a_kernel_that_disagrees_is_used(folder, monkeypatch):
    monkeypatch.setattr("specq.quantize.replace._agrees", lambda fast, plain: False)
    mine = load_quantized(folder("w4"), dtype="bfloat16")
    assert set(mine.kernels.values()) == {f"{NO_KERNEL}torch's kernel gives other numbers than the dequantized layer"}
    assert torch.equal(logits(mine.model), logits(by_transformers(folder("w4"), torch.bfloat16)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kv_cache_scheme": {"num_bits": 8}}, "key-value cache"),
        ({"transform_config": {"config_groups": {}, "x": 1}}, "transforms its activations"),
        ({"config_groups": {"g": {"input_activations": {"num_bits": 8}}}}, "activations are quantized too"),
        ({"config_groups": {"g": {}, "h": {"format": "float-quantized"}}}, "float-quantized, pack-quantized"),
        ({"config_groups": {}}, "no config_groups"),
        ({"quant_method": "fp8"}, "quant_method fp8"),
    ],
)
def test_what_packed_weights_do_not_say_is_dropped(change, why):
    settings = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": {}}}
    assert load._not_packed(settings) is None
    assert why in load._not_packed(settings | change)


def test_quantized_activations_run_on_the_weight_kernel(tmp_path):
    path = folders.write(tmp_path, bits=8)
    tensors = load_file(path / "model.safetensors")
    for name in [name for name in tensors if name.endswith("weight_packed")]:
        layer = name.removesuffix(".weight_packed")
        from specq.quantize.packed import unpack

        _, columns = tensors.pop(f"{layer}.weight_shape").tolist()
        tensors[f"{layer}.weight"] = unpack(tensors.pop(name), 8, columns)
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((path / "config.json").read_text())
    quantization = config["quantization_config"]
    quantization["format"] = "int-quantized"
    activations = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
    quantization["config_groups"]["group_0"] |= {"format": "int-quantized", "input_activations": activations}
    (path / "config.json").write_text(json.dumps(config))
    mine = load_quantized(path, dtype="float32")
    assert torch.equal(logits(mine.model), logits(by_transformers(path, torch.float32)))
    assert set(mine.kernels.values()) == {f"{NO_KERNEL}int-quantized"}
    assert len(mine.kernels) == 14


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}, "gptq"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}, "awq"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "bitsandbytes"),
        ({"quantization_config": {"quant_method": "wonder", "bits": 4}}, "wonder"),
        ({"quantization": {"bits": 4, "group_size": 64}, "quantization_config": {"bits": 4}}, "MLX folder"),
        ({"quantization_config": {"bits": 4}}, "names no quant_method"),
    ],
)
def test_a_format_that_nobody_reads_is_loaded(folder, tmp_path, change, said):
    for path in folder("w4").iterdir():
        (tmp_path / path.name).symlink_to(path)
    config = json.loads((folder("w4") / "config.json").read_text()) | change
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert is_quantized(tmp_path)
    with pytest.raises(ModelError, match=said):
        load_quantized(tmp_path)


def test_missing_weights_are_made_up(folder, tmp_path):
    for path in folder("w4").iterdir():
        (tmp_path / path.name).symlink_to(path)
    tensors = load_file(folder("w4") / "model.safetensors")
    tensors.pop("model.norm.weight")
    (tmp_path / "model.safetensors").unlink()
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks 1 .*model\.norm\.weight"):
        load_quantized(tmp_path)


def test_a_head_is_rounded_unasked(folder):
    kept = load_quantized(folder("w4"), dtype="bfloat16", prefill="packed")
    assert "lm_head" not in kept.kernels
    asked = load_quantized(folder("w4"), dtype="bfloat16", prefill="packed", head="quantize")
    assert asked.kernels["lm_head"] == INT8
    assert asked.bytes_held < kept.bytes_held
    already = load_quantized(folder("w8 head"), dtype="bfloat16", prefill="packed", head="quantize")
    assert already.kernels["lm_head"] == INT8


def test_block_floats_break_in_float32(tmp_path):
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import QuantizationModifier

    shape = {**folders.SMALL, "num_hidden_layers": 1}
    source = tiny.save(tmp_path / "m", tiny.make("llama", **shape), dtype=torch.bfloat16)
    recipe = QuantizationModifier(targets="Linear", scheme="MXFP4A16", ignore=["lm_head"])
    oneshot(model=by_transformers(source, torch.bfloat16), recipe=recipe, output_dir=str(tmp_path / "out"))
    right = logits(by_transformers(tmp_path / "out", torch.bfloat16))
    mine = load_quantized(tmp_path / "out", dtype="float32")
    assert {p.dtype for p in mine.model.parameters() if p.dim() == 2 and p.is_floating_point()} == {torch.float32}
    assert float((logits(mine.model) - right).norm() / right.norm()) < 0.05
    assert set(mine.kernels.values()) == {f"{NO_KERNEL}mxfp4-pack-quantized"}
