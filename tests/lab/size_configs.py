"""Configs of models that many people run, cut to what sizing reads, and folders that hold nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def folder(path: Path, config: Mapping[str, Any]) -> Path:
    """A folder with nothing but a config.json."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(dict(config)), encoding="utf-8")
    return path


def _config(model_type: str, hidden: int, layers: int, vocab: int, mlp: int = 0, **more: Any) -> dict[str, Any]:
    found = {"model_type": model_type, "hidden_size": hidden, "num_hidden_layers": layers, "vocab_size": vocab}
    return {**found, **({"intermediate_size": mlp} if mlp else {}), **more}


def _grouped(heads: int, kv_heads: int, head_dim: int, window: int, **more: Any) -> dict[str, Any]:
    found = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim}
    return {**found, "max_position_embeddings": window, **more}


LLAMA_3B = _config(
    "llama", 3072, 28, 128256, 8192, **_grouped(24, 8, 128, 131072), tie_word_embeddings=True, torch_dtype="bfloat16"
)
LLAMA_8B = _config("llama", 4096, 32, 128256, 14336, **_grouped(32, 8, 128, 131072), tie_word_embeddings=False)
LLAMA_70B = _config("llama", 8192, 80, 128256, 28672, **_grouped(64, 8, 128, 131072), tie_word_embeddings=False)
MISTRAL_7B = _config("mistral", 4096, 32, 32000, 14336, **_grouped(32, 8, 128, 32768), sliding_window=4096)
GEMMA3_TEXT = _config("gemma3_text", 2560, 34, 262208, 10240, sliding_window=1024, sliding_window_pattern=6)
GEMMA3 = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "vision_config": {"depth": 1}}
GEMMA3 |= {"text_config": {key: value for key, value in GEMMA3_TEXT.items() if key != "vocab_size"}}
DEEPSEEK_V3 = _config(
    "deepseek_v3", 7168, 61, 129280, 18432, **_grouped(128, 128, 0, 163840), kv_lora_rank=512, q_lora_rank=1536,
    qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=256, num_experts_per_tok=8,
    n_shared_experts=1, moe_intermediate_size=2048, first_k_dense_replace=3, moe_layer_freq=1,
)  # fmt: skip
DEEPSEEK_V3["head_dim"] = None
MIXTRAL = _config(
    "mixtral", 4096, 32, 32000, 14336, **_grouped(32, 8, 128, 32768), num_local_experts=8, num_experts_per_tok=2,
    sliding_window=None,
)  # fmt: skip
QWEN3_MOE = _config(
    "qwen3_moe", 2048, 48, 151936, 6144, **_grouped(32, 4, 128, 40960), num_experts=128, num_experts_per_tok=8,
    moe_intermediate_size=768, decoder_sparse_step=1, mlp_only_layers=[],
)  # fmt: skip
GPT_OSS = _config(
    "gpt_oss", 2880, 24, 201088, 2880, **_grouped(64, 8, 64, 131072), num_local_experts=32, num_experts_per_tok=4,
    attention_bias=True, sliding_window=128, layer_types=["sliding_attention", "full_attention"] * 12,
)  # fmt: skip
MAMBA = _config("mamba", 768, 24, 50280, 1536, state_size=16, conv_kernel=4, time_step_rank=48, expand=2)
JAMBA = _config(
    "jamba", 4096, 32, 65536, 14336, **_grouped(32, 8, 128, 262144), attn_layer_period=8, attn_layer_offset=4,
    expert_layer_period=2, expert_layer_offset=1, num_experts=16, num_experts_per_tok=2, mamba_d_state=16,
    mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=256,
)  # fmt: skip
LFM2 = _config(
    "lfm2", 2048, 16, 65536, 12288, num_attention_heads=32, num_key_value_heads=8, conv_L_cache=3,
    max_position_embeddings=128000, block_auto_adjust_ff_dim=True, block_multiple_of=256, block_ffn_dim_multiplier=1.0,
    full_attn_idxs=[2, 5, 8, 10, 12, 14],
)  # fmt: skip
XLSTM = {"model_type": "xlstm", "num_hidden_layers": 4, "hidden_size": 64, "vocab_size": 100}
"""All of its layers keep a state whose size is not counted here."""
# Weights of the published checkpoints; of DeepSeek-V3 without its layer for further tokens and its routers' biases.
PUBLISHED: dict[str, tuple[dict[str, Any], int]] = {
    "Llama-3.2-3B": (LLAMA_3B, 3_212_749_824),
    "Llama-3.1-8B": (LLAMA_8B, 8_030_261_248),
    "Llama-3.1-70B": (LLAMA_70B, 70_553_706_496),
    "Mistral-7B": (MISTRAL_7B, 7_241_732_096),
    "Mixtral-8x7B": (MIXTRAL, 46_702_792_704),
    "Qwen2.5-7B": (_config("qwen2", 3584, 28, 152064, 18944, **_grouped(28, 4, 128, 32768)), 7_615_616_512),
    "Qwen3-8B": (_config("qwen3", 4096, 36, 151936, 12288, **_grouped(32, 8, 128, 40960)), 8_190_735_360),
    "Qwen3-30B-A3B": (QWEN3_MOE, 30_532_122_624),
    "gemma-2-9b": (_config("gemma2", 3584, 42, 256000, 14336, **_grouped(16, 8, 256, 8192)), 9_241_705_984),
    "Phi-3-mini": (_config("phi3", 3072, 32, 32064, 8192, num_attention_heads=32), 3_821_079_552),
    "phi-2": (_config("phi", 2560, 32, 51200, 10240, num_attention_heads=32), 2_779_683_840),
    "gpt2": (
        {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024},
        124_439_808,
    ),
    "pythia-160m": (_config("gpt_neox", 768, 12, 50304, 3072, num_attention_heads=12), 162_322_944),
    "opt-125m": (
        _config("opt", 768, 12, 50272, ffn_dim=3072, num_attention_heads=12, max_position_embeddings=2048),
        125_239_296,
    ),
    "bloom-560m": (_config("bloom", 1024, 24, 250880, n_head=16), 559_214_592),
    "falcon-7b": (
        _config("falcon", 4544, 32, 65024, num_attention_heads=71, multi_query=True, parallel_attn=True),
        6_921_720_704,
    ),
    "starcoder2-3b": (_config("starcoder2", 3072, 30, 49152, 12288, **_grouped(24, 2, 128, 16384)), 3_030_371_328),
    "OLMo-2-7B": (_config("olmo2", 4096, 32, 100352, 11008, **_grouped(32, 32, 128, 4096)), 7_298_617_344),
    "DeepSeek-V3": (DEEPSEEK_V3, 671_026_404_352),
    "gpt-oss-20b": (GPT_OSS, 20_914_757_184),
    "mamba-130m": (MAMBA, 129_135_360),
    "LFM2-1.2B": (LFM2, 1_170_340_608),
}
