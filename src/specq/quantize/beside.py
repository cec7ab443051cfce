"""What lies in a model folder beside its weights and config.json: taken over byte for byte, never written anew."""

from __future__ import annotations

import shutil
from pathlib import Path

_FILES = (
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
    "*.tiktoken",
    "chat_template*",
    "generation_config.json",
)
_FOLDERS = ("additional_chat_templates",)


def take_over(source: Path, out: Path) -> None:
    """Copy tokenizer, chat templates and generation_config.json of a model folder into `out`.

    A library that saves them from memory would write what was set on the way, such as truncation.
    """
    for pattern in _FILES:
        for path in sorted(source.glob(pattern)):
            if path.is_file():
                shutil.copyfile(path, out / path.name)
    for name in _FOLDERS:
        if (source / name).is_dir():
            shutil.copytree(source / name, out / name)
