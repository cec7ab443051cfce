"""How many weights a model has, counted from config.json alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from specq.lab import size_mixers
from specq.lab.size_config import layer_kinds, layer_names, need
from specq.lab.size_families import FAMILIES, Family, Flag
from specq.lab.size_shape import heads_of
from specq.models.layers import first, size


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A model's weights in numbers.

    `embedding` is the input table where a token reads one row of it (0 where it is the head too). `expert` counts the
    weights of all experts in all layers, of which a token reads `active` of `experts`; both are 1 without experts.
    """

    total: int
    embedding: int
    expert: int = 0
    experts: int = 1
    active: int = 1

    @property
    def active_total(self) -> int:
        """Weights that one token uses, the input table included."""
        return self.total - self.expert + round(self.expert * self.active / self.experts)

    @property
    def read(self) -> int:
        """Weights that a step over one token reads: the active ones without the table that is looked up."""
        return self.active_total - self.embedding


def experts_of(config: Mapping[str, Any]) -> tuple[int, int]:
    """How many experts a layer with experts has, and how many a token uses; 1 and 1 without any."""
    experts = first(config, "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
    active = first(config, "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts")
    if not isinstance(experts, int) or not isinstance(active, int) or not 0 < active <= experts:
        return 1, 1
    return experts, active


def count(place: str, config: Mapping[str, Any]) -> Count | None:
    """The weights of a model, its part that sees or hears left out; None where its model_type is not known here.

    Raises:
        ModelError: a size is missing or impossible.
    """
    family = FAMILIES.get(str(config.get("model_type")))
    if family is None:
        return None
    hidden = need(place, config, "the hidden size", "hidden_size", "n_embd", "d_model")
    vocab = need(place, config, "the size of the vocabulary", "vocab_size")
    table = vocab * (size(config, "word_embed_proj_dim") or hidden)
    kinds = layer_kinds(place, config)
    norm = hidden * (2 if family.shifted else 1)
    total = expert = 0
    for index, one in enumerate(kinds):
        mixed = mixer(place, config, family, one)
        if mixed is None:
            return None
        total += mixed + _norms(config, family) * norm
        if bare(config, one):
            continue
        shared, routed = mlp(place, config, family, index)
        total += shared + routed
        expert += routed
    tied = first(config, "tie_word_embeddings", "tie_embedding")
    untied = not (family.tied if tied is None else tied)
    total += table * (1 + untied) + (vocab if family.head_bias else 0) + (norm if family.norms else 0)
    total += _extras(place, config, family, hidden, norm)
    experts, active = experts_of(config)
    return Count(
        total=total, embedding=table if untied else 0, expert=expert,
        experts=experts if expert else 1, active=active if expert else 1,
    )  # fmt: skip


# State-space models have no MLP beside their mixer.
_BARE = ("mamba", "mamba2", "falcon_mamba")


def bare(config: Mapping[str, Any], kind: str) -> bool:
    """Whether a layer of this kind has no MLP."""
    return config.get("model_type") in _BARE or (config.get("model_type") == "nemotron_h" and kind != "none")


def _norms(config: Mapping[str, Any], family: Family) -> int:
    kind = config.get("model_type")
    if kind == "stablelm" and config.get("use_parallel_residual"):
        return 1
    if kind == "falcon":
        if config.get("new_decoder_architecture"):
            return 1 if first(config, "num_ln_in_parallel_attn") == 1 else 2
        return 1 if first(config, "parallel_attn") in (None, True) else 2
    return family.norms


def is_on(config: Mapping[str, Any], flag: Flag) -> bool:
    """Whether a part of a family is there."""
    if isinstance(flag, bool):
        return flag
    value = config.get(flag[0])
    return flag[1] if value is None else bool(value)


def mixer(place: str, config: Mapping[str, Any], family: Family, kind: str) -> int | None:
    """Weights of what mixes tokens in one layer: attention, a state, or both."""
    both = config.get("model_type") == "falcon_h1"
    attention = _attention(place, config, family) if kind in ("attention", "sliding") else 0
    if kind in ("linear", "recurrent", "conv") or both:
        mixer = size_mixers.mixer(config)
        return None if mixer is None or mixer.weights is None else attention + mixer.weights
    return attention


def _attention(place: str, config: Mapping[str, Any], family: Family) -> int:
    hidden = need(place, config, "the hidden size", "hidden_size", "n_embd", "d_model")
    if size(config, "kv_lora_rank"):
        return _latent(place, config, hidden)
    heads, kv_heads, head_dim = heads_of(place, config, "attention")
    queries, keys = heads * head_dim, kv_heads * head_dim
    tall = 2 * queries if family.gated_queries else queries
    found = hidden * (tall + 2 * keys) + queries * hidden
    found += tall + 2 * keys if is_on(config, family.qkv_bias) else 0
    found += hidden if is_on(config, family.out_bias) else 0
    normed = family.head_norms
    if config.get("model_type") == "cohere" and config.get("use_qk_norm"):
        normed = "all"
    if config.get("model_type") == "glm4_moe" and config.get("use_qk_norm"):
        normed = "one"
    found += {"": 0, "one": 2 * head_dim, "all": queries + keys}[normed]
    return found + (heads if config.get("model_type") == "gpt_oss" else 0)  # its sinks


def _latent(place: str, config: Mapping[str, Any], hidden: int) -> int:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""
    heads = need(place, config, "the number of attention heads", "num_attention_heads")
    rank = need(place, config, "the rank of the latent", "kv_lora_rank")
    nope = need(place, config, "the plain part of its keys", "qk_nope_head_dim")
    rope = need(place, config, "the rotary part of its keys", "qk_rope_head_dim")
    value = need(place, config, "the size of its values", "v_head_dim")
    biased = bool(config.get("attention_bias"))
    narrow = int(config.get("q_lora_rank") or 0)
    queries = heads * (nope + rope)
    found = hidden * narrow + narrow + narrow * queries if narrow else hidden * queries
    found += hidden * (rank + rope) + rank + rank * heads * (nope + value) + heads * value * hidden
    return found + ((narrow + rank + rope + hidden) if biased else 0)


def mlp(place: str, config: Mapping[str, Any], family: Family, index: int) -> tuple[int, int]:
    """Weights of one layer's MLP: what every token uses, and those of all its experts."""
    hidden = need(place, config, "the hidden size", "hidden_size", "n_embd", "d_model")
    experts, _ = experts_of(config)
    biased = is_on(config, family.mlp_bias)

    def dense(width: int) -> int:
        inner = (family.matrices - 1) * width
        return family.matrices * hidden * width + (inner + hidden if biased else 0)

    kind = str(config.get("model_type"))
    if kind == "nemotron_h" and layer_names(config)[index] == "moe":
        return _plain_experts(config, hidden, experts)
    if kind == "nemotron_h" or experts == 1 or not _ROUTED.get(kind, lambda config, index: True)(config, index):
        shared = size(config, "shared_intermediate_size") if kind == "granitemoehybrid" else 0
        alone = size(config, "intermediate_size_mlp") if kind == "llama4_text" else 0
        return dense(shared or alone or _width(place, config)), 0
    width = size(config, "moe_intermediate_size") or _width(place, config)
    routed = experts * 3 * hidden * width
    always = hidden * experts
    if kind == "gpt_oss":
        routed += experts * (2 * width + hidden)
        always += experts
    if alone := int(first(config, "shared_expert_intermediate_size") or 0):
        always += 3 * hidden * alone + hidden  # and its gate
    more = first(config, "n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
    if isinstance(more, int) and more > 0:
        always += 3 * hidden * width * more
    if kind == "llama4_text":
        always += 3 * hidden * width
    if kind == "granitemoehybrid":
        always += 3 * hidden * size(config, "shared_intermediate_size")
    return always, routed


def _plain_experts(config: Mapping[str, Any], hidden: int, experts: int) -> tuple[int, int]:
    """Experts without a gate, which may work in a narrower space (transformers, NemotronHMoE)."""
    latent = int(config.get("moe_latent_size") or 0)
    routed = experts * 2 * (latent or hidden) * size(config, "moe_intermediate_size")
    always = experts * hidden + 2 * hidden * size(config, "moe_shared_expert_intermediate_size")
    return always + 2 * hidden * latent, routed


def _width(place: str, config: Mapping[str, Any]) -> int:
    """How wide an MLP is."""
    kind = str(config.get("model_type"))
    keys = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "block_ff_dim")
    if kind in ("gpt2", "gptj", "gpt_bigcode", "bloom", "falcon") and not size(config, *keys):
        return 4 * need(place, config, "the hidden size", "hidden_size", "n_embd", "d_model")
    if kind == "lfm2":
        return _adjusted(config, size(config, "block_ff_dim") or need(place, config, "the MLP's width", *keys))
    return need(place, config, "the MLP's width", *keys)


def _adjusted(config: Mapping[str, Any], width: int) -> int:
    """LFM2 states its MLP wider than it is (transformers, Lfm2MLP)."""
    if config.get("block_auto_adjust_ff_dim") is False:
        return width
    of = int(config.get("block_multiple_of") or 256)
    width = int(float(first(config, "block_ffn_dim_multiplier") or 1.0) * int(2 * width / 3))
    return of * -(-width // of)


def _every(config: Mapping[str, Any], index: int) -> bool:
    step = int(config.get("decoder_sparse_step") or 1)
    return index not in (config.get("mlp_only_layers") or ()) and (index + 1) % step == 0


def _after_first(config: Mapping[str, Any], index: int) -> bool:
    dense = int(first(config, "first_k_dense_replace", "num_dense_layers") or 0)
    return index >= dense and index % int(config.get("moe_layer_freq") or 1) == 0


def _interleaved(config: Mapping[str, Any], index: int) -> bool:
    return (index + 1) % int(config.get("interleave_moe_layer_step") or 1) == 0


def _periodic(config: Mapping[str, Any], index: int) -> bool:
    return index % int(config.get("expert_layer_period") or 1) == int(config.get("expert_layer_offset") or 0)


def _between(config: Mapping[str, Any], index: int) -> bool:
    start, end = int(config.get("moe_layer_start_index") or 0), int(config.get("moe_layer_end_index") or -1)
    interval = int(config.get("moe_layer_interval") or 1)
    return (index + 1) % interval == 0 and start <= index and (end == -1 or index <= end)


# Which layers have experts; all of them where a model_type is not named.
_ROUTED: dict[str, Callable[[Mapping[str, Any], int], bool]] = {
    "qwen2_moe": _every,
    "qwen3_moe": _every,
    "qwen3_next": _every,
    "deepseek_v2": _after_first,
    "deepseek_v3": _after_first,
    "glm4_moe": _after_first,
    "lfm2_moe": _after_first,
    "llama4_text": _interleaved,
    "jamba": _periodic,
    "ernie4_5_moe": _between,
}


def _extras(place: str, config: Mapping[str, Any], family: Family, hidden: int, norm: int) -> int:
    """Tables of positions, and what single models have once."""
    kind, found = config.get("model_type"), 0
    if family.positions is not None:
        rows = need(place, config, "the window", "n_positions", "max_position_embeddings")
        found += (rows + family.positions) * hidden
    if kind == "bloom":
        found += norm  # over the embedding
    if kind == "opt":
        projected = size(config, "word_embed_proj_dim") or hidden
        found += 2 * projected * hidden if projected != hidden else 0
        found -= norm if config.get("do_layer_norm_before") is False else 0
    return found
