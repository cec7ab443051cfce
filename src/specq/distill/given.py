"""Texts and prompts that the user gives, as token ids; and that none of them stands on both sides."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specq.core import text_lines
from specq.core.errors import PromptError
from specq.experiment import prompts as prompt_files
from specq.models import tokenizers
from specq.quantize import calibration

SHORTEST = 16
"""Given texts of fewer tokens are dropped."""
LONGEST = 512
"""Given texts are cut to so many tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenText:
    """A text that is read as it stands; what is learned begins at `start`."""

    ids: tuple[int, ...]
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A file's prompts, which the target answers, and its texts, which it reads; `notes` say what was dropped."""

    prompts: tuple[tuple[int, ...], ...]
    texts: tuple[GivenText, ...]
    notes: tuple[str, ...]


def texts(path: Path, tokenizer: Any, *, context: int | None) -> Given:
    """A file of texts: JSONL with `prompt`, `messages` or `text` a line, or plain text with blank lines between.

    Prompts, and messages that end with a user's, are answered by the target; all else is read as it stands.

    Raises:
        PromptError: the file cannot be read, or a line is wrong; names file and line.
    """
    if not path.is_file():
        raise PromptError(f"{path}: no such file; give --texts a file of prompts or texts, or self")
    values = calibration.read(path)
    kinds = _kinds(path, len(values))
    asked: list[tuple[int, ...]] = []
    read: list[GivenText] = []
    short = cut = long = filled = 0
    for number, (value, kind) in enumerate(zip(values, kinds, strict=True), start=1):
        where = f"{path}: text {number}"
        if kind == "prompt" or (kind == "messages" and value[-1]["role"] != "assistant"):  # type: ignore[index]
            ids = _rendered(tokenizer, value, where)
            if context is not None and len(ids) + 2 > context:
                long += 1
            else:
                asked.append(ids)
            continue
        ids = calibration.encode(tokenizer, value, where=where)
        start = _start(tokenizer, value, ids)
        # Of two limits the lower one cuts: a text is told once.
        most = min(start + LONGEST, context or start + LONGEST)
        cut += len(ids) > most == start + LONGEST
        filled += len(ids) > most < start + LONGEST
        ids = ids[:most]
        if len(ids) - start < SHORTEST:
            short += 1
        else:
            read.append(GivenText(ids=ids, start=start))
    notes = [
        f"{count} of {len(values)} {what}"
        for count, what in (
            (short, f"texts were dropped: fewer than {SHORTEST} tokens to learn"),
            (long, "prompts were dropped: they fill the target's context"),
            (cut, f"texts were cut to {LONGEST} tokens"),
            (filled, f"texts were cut to the target's context of {context} tokens"),
            (
                len(read),
                "texts were read as they stand and are not the target's own: what it says of them is "
                "learned, and nothing is measured on them",
            ),
        )
        if count
    ]
    if not asked and not read:
        raise PromptError(f"{path}: nothing is left of its {len(values)} texts ({'; '.join(notes)}); give longer ones")
    return Given(prompts=tuple(asked), texts=tuple(read), notes=tuple(notes))


def _kinds(path: Path, count: int) -> list[str]:
    """Under which key each text stands; "text" for all of a plain file. The file was checked."""
    lines = [line for _, line in text_lines.numbered(text_lines.read(path))]
    if path.suffix in (".jsonl", ".json") or lines[0].lstrip().startswith('{"'):
        return [next(key for key in calibration.KEYS if key in json.loads(line)) for line in lines]
    return ["text"] * count


def _rendered(tokenizer: Any, value: calibration.Text, where: str) -> tuple[int, ...]:
    try:
        return tokenizers.render(tokenizer, value if isinstance(value, str) else list(value)).ids
    except PromptError as error:
        raise PromptError(f"{where}: {error}") from error


def _start(tokenizer: Any, value: calibration.Text, ids: tuple[int, ...]) -> int:
    """Where an assistant's last message begins; 1 where that cannot be told, and of a text."""
    if isinstance(value, str) or len(value) < 2 or not tokenizer.chat_template:
        return 1
    before = tokenizers.render(tokenizer, list(value[:-1])).ids
    return len(before) if ids[: len(before)] == before else 1


def held_out(
    path: Path, tokenizer: Any, limit: int, *, context: int | None, new_tokens: int
) -> tuple[tuple[int, ...], ...]:
    """The first `limit` prompts of a prompts file as token ids.

    Raises:
        PromptError: the file or a line is wrong, or a prompt does not fit the context.
    """
    found = []
    for item in prompt_files.load(path, limit):
        ids = _rendered(tokenizer, item.messages or item.prompt, f"{path}: prompt {item.id!r}")
        if context is not None and len(ids) + new_tokens > context:
            raise PromptError(
                f"{path}: prompt {item.id!r} has {len(ids)} tokens, and with {new_tokens} new ones it does not fit the "
                f"target's context of {context}: shorten it"
            )
        found.append(ids)
    return tuple(found)


def check_apart(given: Given, held: Iterable[Sequence[int]], texts_name: str, prompts_name: str) -> None:
    """Refuse held-out prompts that are trained on: what is measured on them would flatter.

    Raises:
        PromptError: says how many, and the first.
    """
    trained = [*given.prompts, *(text.ids for text in given.texts)]
    both = [number for number, ids in enumerate(held, start=1) if any(row[: len(ids)] == tuple(ids) for row in trained)]
    if both:
        raise PromptError(
            f"--prompts {prompts_name}: {len(both)} of its prompts stand in --texts {texts_name} too (the first is "
            f"prompt {both[0]}); what is measured on texts that were trained on flatters: take them out of one file"
        )
