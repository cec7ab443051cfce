"""Tiny random models of real architectures, on disk with a tokenizer that the whole path can load.

Weights are drawn wider than an initialisation would, so that argmaxes are not flat and a wrong
cache shows in the logits. Everything is float32 unless told.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers import models as tokenizer_models

from specq.core.types import DraftSpec, Generation, Prompt, Sampling

PIECES = ("<unk>", "<s>", "</s>", "<pad>", *"abcdefghijklmnopqrstuvwxyz0123456789 .,;:!?-+*")
V = len(PIECES)
LAYERS = 3
CONTEXT = 192
_ROPE: dict[str, Any] = {
    "vocab_size": V,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 3,
}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", _ROPE),
    "qwen2": ("Qwen2Config", _ROPE),
    "mistral": ("MistralConfig", {**_ROPE, "sliding_window": None}),
    "window": ("MistralConfig", {**_ROPE, "sliding_window": 7}),
    "gpt2": (
        "GPT2Config",
        {
            "vocab_size": V,
            "n_embd": 32,
            "n_layer": LAYERS,
            "n_head": 4,
            "n_positions": CONTEXT,
            "tie_word_embeddings": False,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 3,
        },
    ),
    "conv": ("Lfm2Config", {**_ROPE, "layer_types": ["conv", "conv", "full_attention"]}),
    "hybrid": (
        "Qwen3NextConfig",
        {
            **_ROPE,
            "head_dim": 8,
            "num_hidden_layers": 4,
            "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
            "linear_num_value_heads": 4,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 16,
        },
    ),
}
DENSE = ("llama", "gpt2", "qwen2", "mistral")


def make(kind: str, *, seed: int = 0, noise: float = 0.0, **changes: Any) -> transformers.PreTrainedModel:
    """A random model of one kind of CONFIGS, in eval mode.

    `noise` moves every weight by that share of its spread: a draft that is right some of the time.
    """
    name, settings = CONFIGS[kind]
    config = getattr(transformers, name)(**{**settings, **changes})
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    generator = torch.Generator().manual_seed(1000 * list(CONFIGS).index(kind) + seed)
    other = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        # Norms and biases are moved too, so that a forgotten one shows.
        wide = parameter.shape[-1] ** -0.5 if parameter.dim() >= 2 else 0.2
        base = 0.0 if parameter.dim() >= 2 else parameter.data.clone()
        parameter.data.normal_(0.0, wide, generator=generator).add_(base)
        if noise:
            parameter.data.add_(torch.empty_like(parameter.data).normal_(0.0, noise * wide, generator=other))
    model.get_output_embeddings().weight.data.mul_(3.0)
    model.get_input_embeddings().weight.data.mul_(3.0)
    return model.eval().requires_grad_(False)


def tokenizer(pieces: Sequence[str] = PIECES) -> transformers.PreTrainedTokenizerFast:
    """One token a character, decoded without spaces between, so that a stop string can straddle tokens."""
    inner = Tokenizer(tokenizer_models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    inner.decoder = decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        clean_up_tokenization_spaces=False,
    )


def save(
    folder: Path,
    model: transformers.PreTrainedModel,
    *,
    dtype: torch.dtype = torch.float32,
    pieces: Sequence[str] = PIECES,
) -> Path:
    """Write model and tokenizer as a plain folder."""
    model.to(dtype).save_pretrained(folder)
    tokenizer(pieces).save_pretrained(folder)
    return folder


def prompt(text: str, *, id: str = "p") -> Prompt:
    """A prompt of one token a character."""
    return Prompt(id=id, ids=tuple(PIECES.index(c) for c in text), text=text)


def greedy(new: int, **more: Any) -> Sampling:
    """Temperature 0, exactly `new` tokens unless told otherwise."""
    return Sampling(**{"max_new_tokens": new, "ignore_eos": True, **more})


def drafts(rule: str, k: int, model: str) -> dict[str, DraftSpec]:
    """One spec of every drafter."""
    shared: dict[str, Any] = {"k": k, "rule": rule}
    return {
        "model": DraftSpec(method="model", model=model, **shared),
        "ngram": DraftSpec(method="lookup", **shared),
        "suffix": DraftSpec(method="lookup", match="suffix", **shared),
        "early_exit": DraftSpec(method="early_exit", layers=2, **shared),
    }


def counts(generation: Generation) -> list[tuple[int, int, int, int]]:
    """Context, proposed, accepted and emitted of each step: all of a step but its times."""
    return [(s.context, s.proposed, s.accepted, s.emitted) for s in generation.steps]


@torch.inference_mode()
def uncached(model: transformers.PreTrainedModel, start: Sequence[int], new: int) -> list[int]:
    """Greedy tokens from whole passes without any cache: the slowest and plainest truth."""
    ids = list(start)
    for _ in range(new):
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
        ids.append(int(logits.argmax()))
    return ids[len(start) :]
