"""What lies in a model folder beside its weights and config.json: taken over byte for byte, never written anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from specq.models import kept

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
    kept.FILE,
)
_FOLDERS = ("additional_chat_templates",)


def files(folder: Path) -> Iterator[Path]:
    """The files that `take_over` copies from a model folder, in the same order each time."""
    for pattern in _FILES:
        yield from (path for path in sorted(folder.glob(pattern)) if path.is_file())
    for name in _FOLDERS:
        yield from (path for path in sorted((folder / name).rglob("*")) if path.is_file())


def take_over(source: Path, out: Path) -> None:
    """Copy tokenizer, chat templates and generation_config.json of a model folder into `out`.

    A library that saves them from memory would write what was set on the way, such as truncation.
    """
    for path in files(source):
        place = out / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
