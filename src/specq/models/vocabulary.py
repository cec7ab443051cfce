"""What the tokenizer files say, without loading a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specq.core.errors import ModelError
from specq.models import headers


def chat_template(folder: Path) -> str | None:
    """The chat template of a model folder (the one named "default" where there are several), or None.

    Raises:
        ModelError: a tokenizer file is not readable.
    """
    alone = folder / "chat_template.jinja"
    if alone.is_file():
        try:
            return alone.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ModelError(f"{alone} is not UTF-8 text") from error
    for name in ("tokenizer_config.json", "chat_template.json"):
        if not (folder / name).is_file():
            continue
        given = headers.read_json(folder / name).get("chat_template")
        if isinstance(given, str):
            return given
        if isinstance(given, list):
            named = {str(item.get("name")): item.get("template") for item in given if isinstance(item, dict)}
            return named.get("default")
    return None


def adds_bos(folder: Path) -> bool | None:
    """Whether encoding puts a bos first, as far as the files say; None where they do not.

    The post-processor of tokenizer.json decides; `add_bos_token` counts where there is none.

    Raises:
        ModelError: a tokenizer file is not readable.
    """
    if (folder / "tokenizer.json").is_file():
        processor = headers.read_json(folder / "tokenizer.json").get("post_processor")
        if (found := _template_start(processor)) is not None:
            return found
    if (folder / "tokenizer_config.json").is_file():
        stated = headers.read_json(folder / "tokenizer_config.json").get("add_bos_token")
        if isinstance(stated, bool):
            return stated
    return False if (folder / "tokenizer.json").is_file() else None


def _template_start(processor: Any) -> bool | None:
    if not isinstance(processor, dict):
        return None
    if processor.get("type") == "TemplateProcessing":
        single = processor.get("single") or []
        return bool(single) and "SpecialToken" in single[0]
    for part in processor.get("processors") or ():
        if (found := _template_start(part)) is not None:
            return found
    return None
