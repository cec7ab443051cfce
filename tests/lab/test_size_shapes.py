"""Models whose cache is not layers times heads times context: windows, latents, states, shared and absent layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from size_configs import DEEPSEEK_V3, GEMMA3, GPT_OSS, JAMBA, LFM2, LLAMA_3B, MAMBA, MISTRAL_7B, XLSTM, folder

from specq.lab import size_shape
from specq.lab.size import size_models
from specq.lab.size_config import context, text_part
from specq.lab.size_shape import Shape


def shape(config: dict[str, Any]) -> Shape:
    part, _ = text_part(config)
    return size_shape.from_config("m", "m/config.json", part)


def elements(config: dict[str, Any], tokens: int) -> int:
    return shape(config).cache_bytes(tokens, "fp16") // 2


def test_windowed_layers_grow_beyond_their_window() -> None:
    row = 2 * 8 * 128
    assert elements(MISTRAL_7B, 4096) == 32 * row * 4096
    assert elements(MISTRAL_7B, 32768) == 32 * row * 4096
    # Every second layer of 24 sees 128 tokens.
    assert elements(GPT_OSS, 32768) == 2 * 8 * 64 * 12 * (32768 + 128)


def test_one_layer_in_six_of_gemma_3_is_not_the_one_that_sees_all() -> None:
    assert elements(GEMMA3, 32768) == 2 * 4 * 256 * (5 * 32768 + 29 * 1024)
    assert shape(GEMMA3).windows == {1024: 29}


def test_latent_attention_is_counted_as_full_heads() -> None:
    deepseek = shape(DEEPSEEK_V3)
    assert deepseek.cache_bytes(1, "fp16") == 61 * (512 + 64) * 2 == 70_272
    assert deepseek.cache_bytes(1, "fp16", ungrouped=True) == 61 * 128 * (192 + 128) * 2
    assert deepseek.grouped == "latent attention"
    assert any("transformers" in note for note in deepseek.notes)


def test_layers_without_attention_get_a_cache() -> None:
    jamba = shape(JAMBA)
    assert (len(jamba.cache), jamba.state_layers) == (4, 28)
    assert jamba.cache_bytes(1000, "fp16") == 4 * 2 * 8 * 128 * 2 * 1000
    assert jamba.state_bytes == 4 * 28 * (8192 * 16 + 8192 * 4)
    assert "4 of 32 layers have attention and keep a cache" in jamba.notes
    lfm2 = shape(LFM2)
    assert (len(lfm2.cache), lfm2.state_bytes) == (6, 4 * 10 * 2048 * 3)


def test_a_state_space_model_gets_a_cache_or_no_state() -> None:
    mamba = shape(MAMBA)
    assert (mamba.cache, mamba.heads, mamba.context) == ((), 0, None)
    assert mamba.sequence_bytes(10, "fp16") == mamba.sequence_bytes(10**6, "fp16") == 4 * 24 * 1536 * (16 + 4)


def test_a_state_of_unknown_size_passes_in_silence() -> None:
    unknown = shape(XLSTM)
    assert unknown.state_elements is None
    assert any("not counted" in note and "xlstm" in note for note in unknown.notes)


def test_a_parallel_state_beside_attention_is_forgotten() -> None:
    falcon = {
        **LLAMA_3B,
        **{"model_type": "falcon_h1", "mamba_n_heads": 24, "mamba_d_head": 64, "mamba_d_state": 128},
        **{"mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_d_ssm": 1536},
    }
    both = shape(falcon)
    assert (len(both.cache), both.state_layers) == (28, 28)
    assert both.state_bytes == 4 * 28 * (24 * 64 * 128 + (1536 + 2 * 128) * 4)


HYBRIDS = {
    "hybrid_override_pattern": ({"hybrid_override_pattern": "M-*M-*-M"}, 2),
    "layers_block_type": ({"layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"], "model_type": "zamba2"}, 4),
    "linear_attn_config": ({"linear_attn_config": {"full_attn_layers": [4, 8], "kda_layers": [1, 2, 3, 5, 6, 7]}}, 2),
    "attn_type_list": ({"attn_type_list": [0, 0, 0, 1, 0, 0, 0, 1]}, 2),
    "full_attention_interval": ({"full_attention_interval": 4}, 2),
    "layer_types": ({"layer_types": ["linear_attention", "full_attention"] * 4}, 4),
}


@pytest.mark.parametrize("name", HYBRIDS)
def test_a_pattern_of_layers_is_not_understood(name: str) -> None:
    more, attending = HYBRIDS[name]
    config = {**LLAMA_3B, "num_hidden_layers": 8, "model_type": "other", **more}
    assert len(shape(config).cache) == attending


def test_layers_that_share_a_cache_are_counted_again() -> None:
    assert len(shape({**LLAMA_3B, "num_kv_shared_layers": 10}).cache) == 18
    blocks = [{"attention": {"n_heads_in_group": 8}}, {"attention": {"no_op": True}}] * 14
    nas = shape({**LLAMA_3B, "model_type": "nemotron-nas", "block_configs": blocks, "num_key_value_heads": None})
    assert len(nas.cache) == 14
    assert nas.cache[0].kept == 2 * 3 * 128


def test_a_wide_layer_is_taken_for_a_narrow_one() -> None:
    config = {
        **LLAMA_3B,
        **{"num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 64},
        **{"global_head_dim": 256, "num_global_key_value_heads": 2},
    }
    assert elements(config, 1000) == 2 * (2 * 8 * 128 * 64 + 2 * 2 * 256 * 1000)


def test_one_shared_kv_head_is_counted_as_many() -> None:
    falcon = {"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "vocab_size": 65024}
    falcon |= {"num_attention_heads": 71, "multi_query": True}
    assert shape(falcon).cache_bytes(1, "fp16") == 32 * 2 * 64 * 2


def test_missing_kv_heads_pass_in_silence() -> None:
    plain = {key: value for key, value in LLAMA_3B.items() if key != "num_key_value_heads"}
    assert shape(plain).kv_heads == 24
    assert any("num_key_value_heads" in note for note in shape(plain).notes)


def test_the_text_part_of_a_model_that_sees_is_not_found(tmp_path: Path) -> None:
    one = size_models(str(folder(tmp_path / "g", GEMMA3))).models[0]
    assert one.model.weights.parameters == 3_880_263_168
    assert any("sees or hears" in note for note in one.notes)
    nested = {"model_type": "omni", "thinker_config": {"model_type": "thinker", "text_config": LLAMA_3B}}
    assert shape(nested).cache_bytes(1, "fp16") == 114_688


def test_a_window_that_yarn_stretches_is_taken_as_stated() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    assert context({"max_position_embeddings": 32768, "rope_scaling": scaling}) == 131_072
    assert context({"max_position_embeddings": 131072, "rope_scaling": scaling}) == 131_072
    llama = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}
    assert context({"max_position_embeddings": 131072, "rope_scaling": llama}) == 131_072


def test_a_head_that_blocks_do_not_divide_passes_in_silence(tmp_path: Path) -> None:
    phi = {**LLAMA_3B, "head_dim": 80}
    notes = size_models(str(folder(tmp_path / "phi", phi))).models[0].notes
    assert any("q8_0 packs 32 values" in note and "80" in note for note in notes)
    assert not any("packs" in note for note in size_models(str(folder(tmp_path / "fine", LLAMA_3B))).models[0].notes)
