"""A model's tokenizer and chat template without transformers and torch: the tokenizers library and Jinja alone.

It counts and cuts prompts of files; what a model is run on goes through transformers (`tokenizers.py`), and a test
holds both to the same ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from specq.core.errors import ModelError
from specq.models import headers


class LightTokenizer:
    """What `tokenizers.text_of` asks of a tokenizer, and ids and places of tokens.

    Raises:
        ModelError: the folder has no tokenizer.json, or one that the tokenizers library cannot read.
    """

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        file = folder / "tokenizer.json"
        if not file.is_file():
            raise ModelError(f"{folder} has no tokenizer.json, which counting tokens needs; give another model")
        try:
            self.backend = Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises bare Exception for a broken file
            raise ModelError(f"{file} cannot be read ({str(error)[:160]}); fetch the model again") from error
        # What is cut or padded here would be counted wrong.
        self.backend.no_truncation()
        self.backend.no_padding()
        config = folder / "tokenizer_config.json"
        self._config = headers.read_json(config) if config.is_file() else {}
        self.chat_template = _template(folder, self._config)

    @cached_property
    def special_tokens(self) -> dict[str, str]:
        """The special tokens that templates write, by name: bos_token, eos_token and others."""
        found = {}
        for name, value in self._config.items():
            text = value.get("content") if isinstance(value, dict) else value
            if name.endswith("_token") and isinstance(text, str):
                found[name] = text
        return found

    @property
    def bos_token(self) -> str | None:
        """The token that begins a text, None without one."""
        return self.special_tokens.get("bos_token")

    @property
    def all_special_tokens(self) -> list[str]:
        """The texts of all named special tokens."""
        return list(self.special_tokens.values())

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, str]], *, tokenize: bool = False, **variables: Any
    ) -> str:
        """The messages as the template writes them, as text; raises whatever the template raises."""
        if tokenize:
            raise ValueError("a light tokenizer renders text; encode it with ids")
        return str(self._compiled.render(messages=messages, **self.special_tokens, **variables))

    @cached_property
    def _compiled(self) -> Any:
        """The template in the environment that transformers compiles it in (utils/chat_template_utils.py)."""
        from jinja2.exceptions import TemplateError
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def refuse(message: str) -> None:
            raise TemplateError(message)

        def as_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **how: Any) -> str:
            return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **how)

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = as_json
        environment.globals["raise_exception"] = refuse
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        return environment.from_string(self.chat_template or "")

    def ids(self, text: str, *, special: bool = False) -> list[int]:
        """The ids of a text; with `special` the tokens that the tokenizer puts around one."""
        return list(self.backend.encode(text, add_special_tokens=special).ids)

    def ids_of_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, on all cores, without special tokens around them."""
        return [found.ids for found in self.backend.encode_batch_fast(list(texts), add_special_tokens=False)]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a text begins and ends, in characters."""
        return list(self.backend.encode(text, add_special_tokens=False).offsets)


def load(model: str) -> LightTokenizer:
    """The tokenizer of a model by any name that specq knows, or of a folder with nothing but tokenizer files.

    Raises:
        ModelError: no such model, or it has no tokenizer.json.
    """
    folder = Path(model).expanduser()
    if not (folder / "tokenizer.json").is_file():
        from specq.models import refs

        folder = refs.resolve(model).folder
    return LightTokenizer(folder)


def _template(folder: Path, config: Mapping[str, Any]) -> str | None:
    """The chat template: a file of its own, or the default one of tokenizer_config.json."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = config.get("chat_template")
    if isinstance(found, list):
        named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None
