"""Tiny models to quantize, texts to calibrate them on, and what a quantized folder holds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

import tiny_models
from specq.core import hashes
from specq.models import headers, refs
from specq.quantize import layers, llmcompressor, recipes
from specq.quantize.made import Made

WIDE = {"hidden_size": 64, "intermediate_size": 96}
"""Columns of 64 and 96: groups of 32 divide both."""
TEMPLATE = (
    "{% for message in messages %}{{ message['role'][0] }}:{{ message['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)
MOE: dict[str, Any] = {
    "vocab_size": tiny_models.V,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "tie_word_embeddings": False,
}


def sentence(seed: int, length: int) -> str:
    """A text of `length` tokens of the tiny tokenizer."""
    rng = random.Random(seed)
    return "".join(rng.choice("abcdefghij klmnop qrstuvwxyz ") for _ in range(length))


def rows(*lengths: int) -> list[list[int]]:
    """Token ids of ragged rows."""
    tokenizer = tiny_models.tokenizer()
    return [tokenizer(sentence(i, length))["input_ids"] for i, length in enumerate(lengths)]


def write_texts(path: Path, lines: list[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def save_mixture(folder: Path, kind: str, **more: Any) -> Path:
    """A tiny mixture of experts of a config class."""
    torch.manual_seed(0)
    config = getattr(transformers, kind)(**{**MOE, **more})
    return tiny_models.save(folder, transformers.AutoModelForCausalLM.from_config(config))


def quantize(source: Path, out: Path, texts: list[list[int]], **recipe: Any) -> Made:
    """One call of the module, without the checks before it."""
    chosen = recipes.make(recipe)
    resolved = refs.resolve(str(source))
    found = layers.linear_layers(source)
    given = texts if chosen.facts.calibrates else []
    return llmcompressor.quantize(resolved, chosen, given, out, lambda *_: None, layers=found)


def weight_hashes(folder: Path) -> list[str]:
    """sha256 of each weight file."""
    return [hashes.of_file(path) for path in headers.weight_files(folder)]


def packed(folder: Path) -> set[str]:
    """The modules whose weights are packed."""
    return {name.rsplit(".", 1)[0] for name in headers.tensors(folder) if name.endswith(".weight_packed")}


@torch.inference_mode()
def logits(model: Any, ids: list[int]) -> torch.Tensor:
    return model(input_ids=torch.tensor([ids])).logits[0].float()


def changed(source: Path, target: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
    """A copy of a model folder with its tensors changed."""
    import shutil

    from safetensors.torch import load_file, save_file

    shutil.copytree(source, target)
    tensors = load_file(target / headers.SINGLE)
    change(tensors)
    save_file(tensors, target / headers.SINGLE, metadata={"format": "pt"})
    return target
