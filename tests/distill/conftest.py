"""A tiny target that the whole of a distillation can be run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import tiny_models

TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'][0] }}:{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>a:{% endif %}"
)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """A tiny tied target with a chat template and settings of its own for generation."""
    folder = tmp_path_factory.mktemp("target") / "tiny"
    model: Any = tiny_models.make("qwen2", tie_word_embeddings=True)
    # A flat law, in which what ends a text is rare: so there are texts, and each is another one.
    model.model.norm.weight.data *= 0.2
    model.get_input_embeddings().weight.data[[0, 2]] *= 0.1
    tiny_models.save(folder, model, dtype=torch.bfloat16)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "generation_config.json").write_text('{"eos_token_id": [2, 0], "top_k": 7}')
    return folder
