"""The linear layers of a model by name and shape, from config.json alone: what a quantizer packs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specq.lab import size_parameters
from specq.lab.size_config import layer_kinds, need
from specq.lab.size_families import FAMILIES, Family
from specq.lab.size_shape import heads_of
from specq.models.layers import first, size

HEAD = "lm_head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """A matrix [rows, columns] with the name that transformers gives it in a Llama; `copies` of it are experts."""

    name: str
    rows: int
    columns: int
    copies: int = 1

    @property
    def weights(self) -> int:
        """Its weights in all copies."""
        return self.rows * self.columns * self.copies

    @property
    def expert(self) -> bool:
        """Whether a token reads only some of its copies."""
        return ".experts." in self.name


def linears(place: str, config: Mapping[str, Any]) -> list[Linear]:
    """Every linear layer but routers, of a kind of model that size_parameters counts; the head where it is untied.

    A mixer that is no attention stands as one matrix of all its weights.

    Raises:
        ModelError: a size is missing or impossible.
    """
    family = FAMILIES[str(config.get("model_type"))]
    hidden = need(place, config, "the hidden size", "hidden_size", "n_embd", "d_model")
    found: list[Linear] = []
    for index, kind in enumerate(layer_kinds(place, config)):
        base = f"model.layers.{index}."
        mixed = size_parameters.mixer(place, config, family, kind) or 0
        if kind in ("attention", "sliding"):
            some = list(_attention(place, config, family, hidden, f"{base}self_attn."))
            found += some
            mixed -= sum(one.weights for one in some)
        # What is left of an attention layer are biases and norms, but for Falcon-H1, where a state stands beside it.
        if (kind not in ("attention", "sliding") or config.get("model_type") == "falcon_h1") and mixed >= hidden:
            found.append(Linear(name=f"{base}mixer", rows=mixed // hidden, columns=hidden))
        if not size_parameters.bare(config, kind):
            found += _mlp(place, config, family, index, hidden, f"{base}mlp.")
    tied = first(config, "tie_word_embeddings", "tie_embedding")
    if not (family.tied if tied is None else tied):
        rows = need(place, config, "the size of the vocabulary", "vocab_size")
        found.append(Linear(name=HEAD, rows=rows, columns=size(config, "word_embed_proj_dim") or hidden))
    return found


def _attention(place: str, config: Mapping[str, Any], family: Family, hidden: int, base: str) -> Iterator[Linear]:
    def one(name: str, rows: int, columns: int) -> Linear:
        return Linear(name=f"{base}{name}", rows=rows, columns=columns)

    if rank := size(config, "kv_lora_rank"):
        heads = need(place, config, "the number of attention heads", "num_attention_heads")
        nope, rope = size(config, "qk_nope_head_dim"), size(config, "qk_rope_head_dim")
        value, narrow = size(config, "v_head_dim"), int(config.get("q_lora_rank") or 0)
        if narrow:
            yield one("q_a_proj", narrow, hidden)
        yield one("q_b_proj" if narrow else "q_proj", heads * (nope + rope), narrow or hidden)
        yield one("kv_a_proj_with_mqa", rank + rope, hidden)
        yield one("kv_b_proj", heads * (nope + value), rank)
        yield one("o_proj", hidden, heads * value)
        return
    heads, kv_heads, head_dim = heads_of(place, config, "attention")
    queries, keys = heads * head_dim, kv_heads * head_dim
    yield one("q_proj", 2 * queries if family.gated_queries else queries, hidden)
    yield one("k_proj", keys, hidden)
    yield one("v_proj", keys, hidden)
    yield one("o_proj", hidden, queries)


def _mlp(place: str, config: Mapping[str, Any], family: Family, index: int, hidden: int, base: str) -> Iterator[Linear]:
    """The widths follow from the weights that size_parameters counts, so that both are of one mind."""
    always, routed = size_parameters.mlp(place, config, family, index)
    experts, _ = size_parameters.experts_of(config)
    matrices = family.matrices
    if routed:
        latent = int(config.get("moe_latent_size") or 0) or hidden
        many = 2 if config.get("model_type") == "nemotron_h" else 3
        each = routed // experts
        # GPT-OSS keeps a bias with each expert: 2 x width beside gate and up, and one beside down.
        biased = config.get("model_type") == "gpt_oss"
        width = (each - hidden) // (3 * hidden + 2) if biased else each // (many * latent)
        yield from _matrices(f"{base}experts.0.", many, width, latent, experts)
        if shared := (always - hidden * experts) // (matrices * hidden):
            yield from _matrices(f"{base}shared_experts.", matrices, shared, hidden)
        return
    biased = size_parameters.is_on(config, family.mlp_bias)
    width = (always - hidden) // (matrices * hidden + matrices - 1) if biased else always // (matrices * hidden)
    if width > 0:
        yield from _matrices(base, matrices, width, hidden)


def _matrices(base: str, many: int, width: int, hidden: int, copies: int = 1) -> Iterator[Linear]:
    for name in ("gate_proj", "up_proj")[3 - many :]:
        yield Linear(name=f"{base}{name}", rows=width, columns=hidden, copies=copies)
    yield Linear(name=f"{base}down_proj", rows=hidden, columns=width, copies=copies)
