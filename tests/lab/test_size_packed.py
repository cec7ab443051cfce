"""Known bytes of quantized models that have nothing but a config.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from size_configs import GPT_OSS, LLAMA_8B, folder

from specq.lab.size import size_models


@pytest.mark.parametrize(
    ("how", "bits"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4 + 32 / 64),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            4 + 8 / 64 + 32 / 64 / 256,
        ),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 128 / 128),
    ],
)
def test_scales_of_blocks_are_left_out(tmp_path: Path, how: dict[str, Any], bits: float) -> None:
    found = size_models(str(folder(tmp_path, {**LLAMA_8B, "quantization_config": how}))).models[0]
    tables = 2 * 128_256 * 4096
    assert found.model.weights.parameters == 8_030_261_248
    inside = 8 * (found.model.weights.bytes - 2 * tables) / (8_030_261_248 - tables)
    assert inside == pytest.approx(bits, rel=1e-3)
    assert any(
        "224 linear layers" in note and "embedding and head, norms and routers in bf16" in note for note in found.notes
    )


def test_an_mlx_table_and_head_are_counted_in_16_bits(tmp_path: Path) -> None:
    how: dict[str, Any] = {"group_size": 64, "bits": 4}
    found = size_models(str(folder(tmp_path, {**LLAMA_8B, "quantization": how}))).models[0].model.weights
    assert found.bits == pytest.approx(4.5, rel=1e-3)
    head = {**how, "lm_head": {"group_size": 64, "bits": 8}, "model.embed_tokens": False}
    mixed = size_models(str(folder(tmp_path, {**LLAMA_8B, "quantization": head}))).models[0].model.weights
    table = 128_256 * 4096
    assert mixed.bytes - found.bytes == table * (8.5 - 4.5) / 8 + table * (16 - 4.5) / 8


def test_the_published_bytes_of_gpt_oss_are_others(tmp_path: Path) -> None:
    how = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    found = size_models(str(folder(tmp_path, {**GPT_OSS, "quantization_config": how}))).models[0].model.weights
    experts = 24 * 32 * (3 * 2880 * 2880 * 17 // 32 + 2 * 3 * 2880)
    assert found.bytes == experts + 2 * (20_914_757_184 - 24 * 32 * (3 * 2880 * 2880 + 3 * 2880))
