"""What config.json does not say of a model's layers, by model_type: matrices, norms and biases.

Taken from the layers of transformers 5.17 (models/*/modeling_*.py); a test counts the same models there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

# Always, never, or where a key of config.json says so: its name, and what it is where it is not there.
Flag = bool | tuple[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The layers of a model_type.

    `matrices` of an MLP are 3 with a gate and 2 without; `norms` are as long as the hidden size, so many a layer;
    `shifted` norms have a bias beside their weight. `head_norms` are over queries and keys: of one head's length, of
    all heads' together, or none. `tied` is what holds where config.json does not say. `positions` are the rows of a
    learned table beyond the window, None without such a table. `gated_queries`: the query matrix is twice as tall.
    """

    matrices: int = 3
    norms: int = 2
    shifted: bool = False
    qkv_bias: Flag = False
    out_bias: Flag = False
    mlp_bias: Flag = False
    head_bias: bool = False
    head_norms: Literal["", "one", "all"] = ""
    tied: bool = False
    positions: int | None = None
    gated_queries: bool = False


_PLAIN = Family()
_BIASED = ("attention_bias", False)
_LLAMA = Family(qkv_bias=_BIASED, out_bias=_BIASED, mlp_bias=("mlp_bias", False))
_ATTENTION = replace(_LLAMA, mlp_bias=False)
_GPT2 = Family(matrices=2, shifted=True, qkv_bias=True, out_bias=True, mlp_bias=True, tied=True, positions=0)
_ALL_NORMS = replace(_ATTENTION, head_norms="all")
_ONE_NORM = replace(_ATTENTION, head_norms="one")
_NEXT = replace(_ONE_NORM, gated_queries=True)
_USE_BIAS = ("use_bias", False)
_ERNIE = Family(qkv_bias=_USE_BIAS, out_bias=_USE_BIAS, mlp_bias=_USE_BIAS, tied=True)
_CONV = Family(head_norms="one", tied=True)

FAMILIES: dict[str, Family] = {
    "arcee": replace(_LLAMA, matrices=2),
    "bamba": _LLAMA,
    "bloom": replace(_GPT2, positions=None),
    "cohere": replace(_ATTENTION, norms=1, tied=True),
    "cohere2": replace(_ATTENTION, norms=1, tied=True),
    "deepseek_v2": _PLAIN,
    "deepseek_v3": _PLAIN,
    "ernie4_5": _ERNIE,
    "ernie4_5_moe": _ERNIE,
    "exaone4": Family(head_norms="one"),
    "falcon": Family(
        matrices=2,
        shifted=True,
        qkv_bias=("bias", False),
        out_bias=("bias", False),
        mlp_bias=("bias", False),
        tied=True,
    ),
    "falcon_h1": _LLAMA,
    "falcon_mamba": Family(norms=1, tied=True),
    "gemma": replace(_ATTENTION, tied=True),
    "gemma2": replace(_ATTENTION, norms=4, tied=True),
    "gemma3_text": replace(_ONE_NORM, norms=4, tied=True),
    "glm": Family(qkv_bias=("attention_bias", True)),
    "glm4": Family(qkv_bias=("attention_bias", True), norms=4),
    "glm4_moe": Family(qkv_bias=_BIASED),
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "gpt_neox": Family(
        matrices=2, shifted=True, qkv_bias=("attention_bias", True), out_bias=("attention_bias", True), mlp_bias=True
    ),
    "gpt_oss": Family(qkv_bias=("attention_bias", True), out_bias=("attention_bias", True)),
    "gptj": Family(matrices=2, norms=1, shifted=True, mlp_bias=True, head_bias=True),
    "granite": _LLAMA,
    "granitemoe": _ATTENTION,
    "granitemoehybrid": _ATTENTION,
    "hunyuan_v1_dense": _ONE_NORM,
    "jamba": _PLAIN,
    "lfm2": _CONV,
    "lfm2_moe": _CONV,
    "llama": _LLAMA,
    "llama4_text": _ATTENTION,
    "mamba": Family(norms=1, tied=True),
    "mamba2": Family(norms=1),
    "minimax_m2": Family(head_norms="all"),
    "ministral": _PLAIN,
    "ministral3": _PLAIN,
    "mistral": _PLAIN,
    "mixtral": _PLAIN,
    "nemotron": replace(_LLAMA, matrices=2, shifted=True),
    "nemotron_h": Family(matrices=2, norms=1, mlp_bias=("mlp_bias", False)),
    "olmo": replace(_ATTENTION, norms=0),
    "olmo2": _ALL_NORMS,
    "olmo3": _ALL_NORMS,
    "olmoe": _ALL_NORMS,
    "opt": replace(
        _GPT2,
        qkv_bias=("enable_bias", True),
        out_bias=("enable_bias", True),
        mlp_bias=("enable_bias", True),
        positions=2,
    ),
    "phi": Family(matrices=2, norms=1, shifted=True, qkv_bias=True, out_bias=True, mlp_bias=True, head_bias=True),
    "phi3": _PLAIN,
    "qwen2": Family(qkv_bias=True),
    "qwen2_moe": Family(qkv_bias=("qkv_bias", True)),
    "qwen3": _ONE_NORM,
    "qwen3_5_moe_text": _NEXT,
    "qwen3_5_text": _NEXT,
    "qwen3_moe": _ONE_NORM,
    "qwen3_next": _NEXT,
    "seed_oss": Family(
        qkv_bias=("attention_bias", True), out_bias=("attention_out_bias", False), mlp_bias=("mlp_bias", False)
    ),
    "smollm3": replace(_LLAMA, tied=True),
    "stablelm": Family(shifted=True, qkv_bias=("use_qkv_bias", False)),
    "starcoder2": Family(
        matrices=2,
        shifted=True,
        qkv_bias=("use_bias", True),
        out_bias=("use_bias", True),
        mlp_bias=("use_bias", True),
        tied=True,
    ),
}
