"""What a prompt is counted in: the tokens of a model, words or characters; its text and the ids of its lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from specq.core.errors import ConfigError, nearest
from specq.lab import prefix_parts
from specq.lab.prefix_parts import Parts, Tokens
from specq.workloads import rendering
from specq.workloads.counting import CHARACTERS, UNITS, WORDS
from specq.workloads.request import Request

# Blanks behind a word belong to it, so that prompts that differ in blanks differ.
_WORD = re.compile(r"\S+\s*|\s+")
_AT_ONCE = 4096
_CHECKED = 64


class Encoding:
    """Texts and ids of prompts; without a model ids are numbers of words, or characters.

    `unit` is what is counted, `notes` how many prompts each note on the rendering was made of.

    Raises:
        ConfigError: no such unit, or one beside a model. ModelError: no such model.
    """

    def __init__(self, model: str | None = None, unit: str = WORDS) -> None:
        if unit not in UNITS:
            raise ConfigError(f"unit {unit}{nearest(unit, UNITS) or ';'} allowed: {', '.join(UNITS)}")
        self.notes: Counter[str] = Counter()
        self._words: dict[str, int] = {}
        self._unit = unit
        self._tokenizer: Any = None
        if model is not None:
            from specq.models import light_tokenizer

            self._tokenizer = light_tokenizer.load(model)
        self.unit = unit if model is None else f"tokens of {model}"

    @property
    def by_model(self) -> bool:
        """Whether it is a model's tokens that are counted."""
        return self._tokenizer is not None

    def text(self, one: Request) -> str:
        """A prompt as the model sees it, or in the plain form."""
        if self._tokenizer is None:
            return rendering.plain(one)
        text, _, notes = rendering.text_of(self._tokenizer, one)
        self.notes.update(notes)
        return text

    def ids_of_all(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of some texts, each for itself."""
        if self._tokenizer is not None:
            return [
                np.array(ids, dtype=np.uint32)
                for at in range(0, len(texts), _AT_ONCE)
                for ids in self._tokenizer.ids_of_all(texts[at : at + _AT_ONCE])
            ]
        if self._unit == CHARACTERS:
            return [np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32) for text in texts]
        words = self._words
        return [
            np.array([words.setdefault(word, len(words)) for word in _WORD.findall(text)], dtype=np.uint32)
            for text in texts
        ]

    def whole(self, texts: Sequence[str]) -> list[bytes]:
        """The ids of whole prompts: slower than of their lines, and true of every tokenizer."""
        return [found.tobytes() for found in self.ids_of_all(texts)]


def parts_of(requests: Sequence[Request], encoding: Encoding) -> Parts:
    """The lines of all prompts."""

    def rendered() -> Iterator[tuple[str, int]]:
        for one in requests:
            text = encoding.text(one)
            yield text, prefix_parts.head_end(text, one)

    return prefix_parts.split(rendered())


def prompts_of(
    requests: Sequence[Request], parts: Parts, tokens: Tokens, encoding: Encoding
) -> tuple[list[bytes], bool]:
    """The ids of all prompts, and whether they are those of their lines put together.

    Most tokenizers end a token where a line ends. Where some prompts show that this one does not, all are encoded
    whole. Words and characters are those of lines by definition.
    """
    made = [tokens.of(numbers) for numbers in parts.prompts]
    if not encoding.by_model:
        return made, True
    checked = np.unique(np.linspace(0, len(requests) - 1, min(_CHECKED, len(requests))).astype(int)).tolist()
    notes = Counter(encoding.notes)
    true = encoding.whole([encoding.text(requests[place]) for place in checked])
    apart = any(made[place] != one for place, one in zip(checked, true, strict=True))
    if apart:
        made = encoding.whole([encoding.text(one) for one in requests])
    encoding.notes = notes
    return made, not apart
