"""Weights counted from config.json, against published checkpoints and against what transformers builds."""

from __future__ import annotations

from typing import Any

import pytest
from size_configs import GPT_OSS, JAMBA, LLAMA_8B, MIXTRAL, PUBLISHED, QWEN3_MOE

from specq.lab.size_config import text_part
from specq.lab.size_families import FAMILIES
from specq.lab.size_parameters import Count, count


def counted(config: dict[str, Any]) -> Count:
    found = count("config.json", config)
    assert found is not None
    return found


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_model_has_other_weights(name: str) -> None:
    config, published = PUBLISHED[name]
    assert counted(config).total == published


def test_a_token_reads_other_experts_than_it_should() -> None:
    mixtral = counted(MIXTRAL)
    assert (mixtral.experts, mixtral.active) == (8, 2)
    assert mixtral.expert == 32 * 8 * 3 * 4096 * 14336
    assert mixtral.active_total == 12_879_925_248
    assert counted(QWEN3_MOE).active_total == 30_532_122_624 - 48 * 120 * 3 * 2048 * 768
    assert counted(GPT_OSS).active_total == 20_914_757_184 - 24 * 28 * (3 * 2880 + 3) * 2880


def test_layers_without_experts_are_counted_with_them() -> None:
    jamba = counted(JAMBA)
    assert (jamba.total, jamba.expert) == (51_570_323_328, 16 * 16 * 3 * 4096 * 14336)
    dense = counted({**QWEN3_MOE, "mlp_only_layers": [0, 1]})
    assert counted(QWEN3_MOE).expert - dense.expert == 2 * 128 * 3 * 2048 * 768


def test_an_input_table_that_is_the_head_too_is_looked_up_alone() -> None:
    untied = counted(LLAMA_8B)
    tied = counted({**LLAMA_8B, "tie_word_embeddings": True})
    assert (untied.embedding, tied.embedding) == (128256 * 4096, 0)
    assert untied.read == tied.read == tied.total == untied.total - untied.embedding


def test_an_unknown_kind_of_model_is_counted_as_a_known_one() -> None:
    assert count("config.json", {**LLAMA_8B, "model_type": "something_new"}) is None


TINY: dict[str, Any] = {
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2}
NARROW = {**EXPERTS, "moe_intermediate_size": 32}
UNGROUPED = {"num_key_value_heads": None, "head_dim": None}
WIDE = {**UNGROUPED, "intermediate_size": None}
LATENT = {
    "kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
    "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
    "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": None, "num_key_value_heads": 4,
}  # fmt: skip
SSM = {
    "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_d_conv": 4,
    "mamba_expand": 2, "head_dim": None,
}  # fmt: skip
LINEAR = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4, "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    "shared_expert_intermediate_size": 48, **NARROW,
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    **{kind: {} for kind in FAMILIES},
    "bamba": {**SSM, "attn_layer_indices": [1]},
    "deepseek_v2": LATENT,
    "deepseek_v3": LATENT,
    "ernie4_5_moe": {
        "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 32, "moe_num_shared_experts": 1,
        "moe_layer_start_index": 1, "moe_layer_end_index": 3,
    },
    "bloom": WIDE,
    "gpt2": WIDE,
    "gpt_bigcode": WIDE,
    "gpt_neox": UNGROUPED,
    "gptj": {**WIDE, "rotary_dim": 8},
    "falcon": {**WIDE, "multi_query": True, "parallel_attn": True},
    "falcon_h1": {**SSM, "mamba_d_ssm": 128},
    "falcon_mamba": {"intermediate_size": 128, "state_size": 8, "conv_kernel": 4, "time_step_rank": 4, "expand": 2},
    "glm4_moe": {
        **{key: value for key, value in LATENT.items() if "lora" not in key and "qk_" not in key},
        "head_dim": 16, "num_key_value_heads": 2, "use_qk_norm": True,
    },
    "gpt_oss": {**EXPERTS, "sliding_window": 8},
    "granitemoe": EXPERTS,
    "granitemoehybrid": {
        **SSM, **EXPERTS, "layer_types": ["mamba", "attention"] * 2, "shared_intermediate_size": 48,
    },
    "jamba": {
        "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1,
        "num_experts": 4, "num_experts_per_tok": 2, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2,
        "mamba_dt_rank": 4, "use_mamba_kernels": False,
    },
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2, "conv_L_cache": 3},
    "lfm2_moe": {**NARROW, "layer_types": ["conv", "full_attention"] * 2, "conv_L_cache": 3, "num_dense_layers": 1},
    "llama4_text": {
        **EXPERTS, "intermediate_size_mlp": 128, "interleave_moe_layer_step": 2, "attention_chunk_size": 32,
    },
    "mamba": {"intermediate_size": 128, "state_size": 8, "conv_kernel": 4, "time_step_rank": 4, "expand": 2},
    "mamba2": {"num_heads": 8, "head_dim": 16, "state_size": 8, "n_groups": 1, "conv_kernel": 4, "expand": 2},
    "minimax_m2": EXPERTS,
    "mixtral": EXPERTS,
    "nemotron_h": {
        "mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 8, "n_groups": 1, "conv_kernel": 4,
        "hybrid_override_pattern": "M-*E", "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
        "topk_group": 1, "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 48,
    },
    "olmoe": EXPERTS,
    "opt": {**WIDE, "ffn_dim": 96, "word_embed_proj_dim": 64},
    "phi": {"head_dim": None, "num_key_value_heads": 4},
    "qwen2_moe": {**NARROW, "shared_expert_intermediate_size": 48},
    "qwen3_5_moe_text": LINEAR,
    "qwen3_5_text": {key: value for key, value in LINEAR.items() if "expert" not in key and "moe" not in key},
    "qwen3_moe": NARROW,
    "qwen3_next": LINEAR,
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_transformers_builds_a_model_with_other_weights(kind: str) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    given = {key: value for key, value in {**TINY, **CASES[kind]}.items() if value is not None}
    config = AutoConfig.for_model(kind, **given)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    built = {id(one): one.numel() for name, one in model.named_parameters() if "e_score" not in name}
    part, _ = text_part({**config.to_dict(), "model_type": kind})
    assert counted(part).total == sum(built.values())
