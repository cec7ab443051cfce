"""Tiny models on disk: a config, random weights and a word-level tokenizer; nothing is downloaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

WORDS = ("<unk>", "<eos>", "user", "assistant", "say", "one", "two", "three")
HIDDEN, HEADS, KV_HEADS, INNER = 8, 2, 1, 16
TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}assistant"

MakeModel = Callable[..., Path]


def maker(tmp_path: Path) -> MakeModel:
    """A function that writes a tiny Llama folder under tmp_path and returns it."""

    def make(
        name: str = "target",
        *,
        layers: int = 3,
        context: int = 64,
        words: Sequence[str] = WORDS,
        template: str | None = TEMPLATE,
        generation: dict[str, float] | None = None,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        config = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "num_hidden_layers": layers,
            "hidden_size": HIDDEN,
            "intermediate_size": INNER,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HIDDEN // HEADS,
            "vocab_size": len(words),
            "max_position_embeddings": context,
            "eos_token_id": 1,
            "tie_word_embeddings": True,
        }
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 1, **(generation or {})}))
        save_file(_weights(layers, len(words)), folder / "model.safetensors", metadata={"format": "pt"})
        tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        tokenizer.save(str(folder / "tokenizer.json"))
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "eos_token": "<eos>"}
        if template is not None:
            settings["chat_template"] = template
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        return folder

    return make


def _weights(layers: int, vocab: int) -> dict[str, np.ndarray]:
    rows = KV_HEADS * HIDDEN // HEADS
    shapes = {"model.embed_tokens.weight": (vocab, HIDDEN), "model.norm.weight": (HIDDEN,)}
    for i in range(layers):
        at = f"model.layers.{i}."
        shapes |= {at + "input_layernorm.weight": (HIDDEN,), at + "post_attention_layernorm.weight": (HIDDEN,)}
        shapes |= {f"{at}self_attn.{x}_proj.weight": (HIDDEN, HIDDEN) for x in "qo"}
        shapes |= {f"{at}self_attn.{x}_proj.weight": (rows, HIDDEN) for x in "kv"}
        shapes |= {f"{at}mlp.{x}_proj.weight": (INNER, HIDDEN) for x in ("gate", "up")}
        shapes[at + "mlp.down_proj.weight"] = (HIDDEN, INNER)
    return {name: np.ones(shape, dtype=np.float32) for name, shape in shapes.items()}
