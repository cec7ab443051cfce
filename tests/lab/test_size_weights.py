"""Bytes of weights: as stored, as an index states them, as given, by nominal bits, and of GGUF files."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from size_configs import DEEPSEEK_V3, LLAMA_3B, LLAMA_8B, MIXTRAL, folder

from specq.core.errors import ModelError
from specq.lab.size import size_models
from specq.lab.size_weights import Weights

TINY = {
    **LLAMA_8B,
    **{"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "head_dim": 16, "vocab_size": 128, "max_position_embeddings": 256},
}
_BYTES = {"BF16": 2, "F32": 4, "I32": 4, "U8": 1}


def safetensors(path: Path, tensors: Mapping[str, tuple[str, Sequence[int]]]) -> None:
    """A file of zeros."""
    header, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = _BYTES[dtype]
        for side in shape:
            size *= side
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))


def llama(**more: tuple[str, Sequence[int]]) -> dict[str, tuple[str, Sequence[int]]]:
    found: dict[str, tuple[str, Sequence[int]]] = {"model.embed_tokens.weight": ("BF16", (128, 64))}
    found |= {"lm_head.weight": ("BF16", (128, 64)), "model.norm.weight": ("BF16", (64,))}
    for layer in ("model.layers.0.", "model.layers.1."):
        shapes = {"self_attn.q_proj": (64, 64), "self_attn.k_proj": (32, 64), "self_attn.v_proj": (32, 64)}
        shapes |= {"self_attn.o_proj": (64, 64), "mlp.gate_proj": (96, 64), "mlp.up_proj": (96, 64)}
        shapes |= {"mlp.down_proj": (64, 96)}
        found |= {f"{layer}{name}.weight": ("BF16", shape) for name, shape in shapes.items()}
        norms = ("input_layernorm", "post_attention_layernorm")
        found |= {f"{layer}{name}.weight": ("BF16", (64,)) for name in norms}
    return found | more


def weights(model: Path | str, **how: Any) -> Weights:
    return size_models(str(model), **how).models[0].model.weights


COUNT = 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 96 + 2 * 64) + 2 * 128 * 64 + 64


def test_stored_floats_are_counted_by_nominal_bits(tmp_path: Path) -> None:
    model = folder(tmp_path / "floats", TINY)
    assert weights(model).origin == "nominal"
    safetensors(model / "model.safetensors", llama())
    found = weights(model)
    assert (found.origin, found.precision, found.parameters, found.bytes) == ("stored", "bf16", COUNT, 2 * COUNT)
    assert found.read() == 2 * (COUNT - 128 * 64)
    assert weights(model, weights="w4").bytes == COUNT / 2


def test_scales_and_unquantized_tensors_are_left_out_of_the_bits(tmp_path: Path) -> None:
    model = folder(tmp_path / "packed", TINY)
    packed = {name: one for name, one in llama().items() if "gate_proj" not in name}
    for layer in ("model.layers.0.", "model.layers.1."):
        packed[f"{layer}mlp.gate_proj.weight_packed"] = ("I32", (96, 8))
        packed[f"{layer}mlp.gate_proj.weight_scale"] = ("BF16", (96, 1))
    safetensors(model / "model.safetensors", packed)
    found = weights(model)
    size = 2 * (COUNT - 2 * 96 * 64) + 2 * (96 * 32 + 96 * 2)
    assert (found.bytes, found.parameters) == (size, COUNT)
    assert found.bits == 8 * size / COUNT
    assert found.precision == f"{found.bits:.2f}-bit"


def test_a_tied_table_that_is_stored_twice_is_held_twice(tmp_path: Path) -> None:
    model = folder(tmp_path / "tied", {**TINY, "tie_word_embeddings": True})
    safetensors(model / "model.safetensors", llama())
    assert weights(model).parameters == COUNT - 128 * 64
    assert weights(model).read() == weights(model).bytes


def test_parts_that_see_are_read_by_a_token_of_text(tmp_path: Path) -> None:
    model = folder(tmp_path / "sees", {"model_type": "llava", "text_config": TINY})
    safetensors(model / "model.safetensors", llama(**{"vision_tower.embeddings.weight": ("BF16", (100, 10))}))
    found = weights(model)
    assert found.bytes == 2 * COUNT + 2000
    assert found.read() == 2 * (COUNT - 128 * 64)


def test_the_bytes_of_an_index_without_its_shards_are_not_used(tmp_path: Path) -> None:
    model = folder(tmp_path / "index", LLAMA_3B)
    index = {"metadata": {"total_size": 2_000_000_000}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    (one,) = size_models(str(model)).models
    assert (one.model.weights.bytes, one.model.weights.origin) == (2_000_000_000, "stored")
    assert any("index" in note for note in one.notes)
    (model / "model-00001-of-00002.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="truncated"):
        size_models(str(model))


@pytest.mark.parametrize(
    ("how", "bits"),
    [
        ({"quant_method": "gptq", "bits": 4}, 4),
        ({"quant_method": "awq", "w_bit": 4}, 4),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 8}}}}, 8),
        ({"quant_method": "fp8"}, 8),
        # A float32 scale for each 64 weights.
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4.5),
    ],
)
def test_a_quantized_model_without_weights_is_counted_in_16_bits(
    tmp_path: Path, how: dict[str, Any], bits: float
) -> None:
    model = folder(tmp_path / "q", {**LLAMA_3B, "quantization_config": how})
    assert weights(model).bits == pytest.approx(bits + (16 - bits) * 128256 * 3072 / 3_212_749_824, abs=0.3)
    unknown = folder(tmp_path / "u", {**LLAMA_3B, "quantization_config": {"quant_method": "own"}})
    with pytest.raises(ModelError, match=r"not to how many bits.*--weights-bytes"):
        weights(unknown)


def test_layers_that_draft_are_left_out_in_silence(tmp_path: Path) -> None:
    (one,) = size_models(str(folder(tmp_path / "v3", {**DEEPSEEK_V3, "num_nextn_predict_layers": 1}))).models
    assert any(note.startswith("1 layer for drafting the next tokens: not counted") for note in one.notes)


def test_an_unknown_kind_of_model_gets_a_guess(tmp_path: Path) -> None:
    model = folder(tmp_path / "new", {**LLAMA_3B, "model_type": "something_new"})
    with pytest.raises(ModelError, match=r"something_new.*--parameters N"):
        weights(model)
    assert weights(model, parameters="3.2B").bytes == 6_400_000_000
    given = size_models(str(model), weights_bytes="2GB", bandwidth="1TB/s", flops="100T").models[0]
    assert (given.model.weights.bits, given.ridge) == (None, None)


def test_a_batch_reads_no_more_experts_than_a_token(tmp_path: Path) -> None:
    found = weights(folder(tmp_path / "moe", MIXTRAL))
    assert found.bytes == 2 * 46_702_792_704
    assert found.read(1) == pytest.approx(2 * (12_879_925_248 - 32000 * 4096))
    assert found.read(1) < found.read(4) < found.read(1000) == pytest.approx(found.read_whole)
    assert found.read_whole == found.bytes - 2 * 32000 * 4096
