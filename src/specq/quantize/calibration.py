"""Calibration texts: from a file to rows of token ids, and what of it was used."""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from specq.core import hashes, text_lines
from specq.core.errors import PromptError, nearest
from specq.models.configs import reason
from specq.models.tokenizers import FIXED_DATE
from specq.quantize.audited import CalibrationUsed
from specq.quantize.recipes import SELF, Recipe

SHORTEST = 16
"""Rows of fewer tokens are dropped: their activations are mostly those of a text's first tokens."""
KEYS = ("text", "prompt", "messages")
_EXTRA = ("id", "tags")
_ALLOWED = (
    "allowed is plain text with blank lines between texts, or JSONL with text, prompt or messages in each line, or self"
)
Text = str | tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Rows of token ids as a method sees them, one after another, never padded; `notes` say what was dropped or cut."""

    rows: tuple[tuple[int, ...], ...]
    used: CalibrationUsed
    notes: tuple[str, ...]


def load(recipe: Recipe, path: Path, tokenizer: Any, *, source: str, columns: int) -> Calibration:
    """Rows from a file of texts: dropped when too short, in the seed's order, at most `samples`, each cut to `tokens`.

    `source` is how reports name the text; `columns` the most inputs that a layer has.

    Raises:
        PromptError: the file is broken, or gives fewer tokens than `columns`.
    """
    texts = read(path)
    rows = [encode(tokenizer, text, where=f"{path}: text {n}") for n, text in enumerate(texts, start=1)]
    long_enough = [row for row in rows if len(row) >= SHORTEST]
    random.Random(recipe.seed).shuffle(long_enough)
    chosen = long_enough[: recipe.samples]
    kept = tuple(row[: recipe.tokens] for row in chosen)
    used = CalibrationUsed(
        source=source,
        sha256=hashes.of_file(path),
        rows_given=len(rows),
        rows_used=len(kept),
        rows_too_short=len(rows) - len(long_enough),
        tokens_given=sum(map(len, rows)),
        tokens_used=sum(map(len, kept)),
    )
    if used.tokens_used < columns:
        name, advice = str(path), _advice(recipe, long_enough, columns)
        if source == SELF:
            more = -(-recipe.samples * columns // max(1, used.tokens_used))
            name, advice = f"calibration = {SELF}", f"type --samples {more}, or give --calibration FILE"
        raise PromptError(
            f"{name}: {used.tokens_used} tokens of calibration text ({used.rows_used} of {used.rows_given} texts used, "
            f"{used.rows_too_short} shorter than {SHORTEST} tokens), and {columns} are needed, one for each column of "
            f"the widest layer: {advice}"
        )
    cut = sum(len(row) > recipe.tokens for row in chosen)
    notes = []
    if used.rows_too_short:
        notes.append(f"{used.rows_too_short} calibration texts were dropped: shorter than {SHORTEST} tokens")
    if cut:
        notes.append(f"{cut} calibration texts were cut to {recipe.tokens} tokens")
    if used.rows_used < recipe.samples:
        notes.append(f"{recipe.samples} calibration texts were asked for and {used.rows_used} were there")
    return Calibration(rows=kept, used=used, notes=tuple(notes))


def _advice(recipe: Recipe, rows: Sequence[Sequence[int]], columns: int) -> str:
    """What to type for enough tokens of a file's rows, in the order of the seed; other texts where no flag makes them.

    More texts first: they say more than longer ones.
    """
    lengths = [len(row) for row in rows]
    sums = list(accumulate(min(length, recipe.tokens) for length in lengths))
    if (samples := next((n for n, total in enumerate(sums, start=1) if total >= columns), None)) is not None:
        return f"type --samples {samples}"
    if sum(lengths) >= columns:
        tokens = bisect_left(range(max(lengths)), columns, key=lambda most: sum(min(one, most) for one in lengths))
        all_of_them = f"--samples {len(rows)} " if len(rows) > recipe.samples else ""
        return f"type {all_of_them}--tokens {tokens}"
    return "give --calibration a file of more or longer texts"


def read(path: Path) -> list[Text]:
    """The texts of a file: JSONL lines with `text`, `prompt` or `messages`, or plain text with blank lines between.

    Raises:
        PromptError: the file cannot be read or is empty, or a line is wrong; the message names its number.
    """
    try:
        content = text_lines.read(path)
    except OSError as error:
        why = "no such file" if isinstance(error, FileNotFoundError) else str(error.strerror)
        raise PromptError(f"{path}: {why}; give --calibration a file of texts, or self") from error
    lines = list(text_lines.numbered(content))
    if not lines:
        raise PromptError(f"{path}: the file is empty; {_ALLOWED}")
    first = lines[0][1] if lines else ""
    # Plain text may begin with a bracket; a file that calls itself JSONL may not.
    if path.suffix in (".jsonl", ".json") or first.lstrip().startswith('{"'):
        texts: list[Text] = [_text(line, f"{path}:{number}") for number, line in lines]
    else:
        texts = list(_paragraphs(content.split("\n")))
    return texts


def _paragraphs(lines: Sequence[str]) -> list[str]:
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line.rstrip("\r"))
        elif found[-1]:
            found.append([])
    return ["\n".join(part) for part in found if part]


def _text(line: str, where: str) -> Text:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise PromptError(f"{where}: not a JSON line ({error}); write one JSON object a line") from error
    if not isinstance(value, dict):
        raise PromptError(f"{where}: a {type(value).__name__}; allowed is a JSON object with text, prompt or messages")
    for key in value:
        if key not in (*KEYS, *_EXTRA):
            known = ", ".join((*KEYS, *_EXTRA))
            raise PromptError(
                f'{where}: unknown key "{key}"{nearest(key, (*KEYS, *_EXTRA)) or ";"} known keys: {known}'
            )
    given = [key for key in KEYS if key in value]
    if len(given) != 1:
        raise PromptError(
            f"{where}: {' and '.join(given) or 'none'} of text, prompt and messages; allowed is one of them"
        )
    if given[0] == "messages":
        return _messages(value["messages"], where)
    text = value[given[0]]
    if not isinstance(text, str) or not text.strip():
        raise PromptError(f"{where}: {given[0]} is empty or no text; write it as a JSON string")
    return text


def _messages(value: Any, where: str) -> tuple[dict[str, str], ...]:
    if not isinstance(value, list) or not value:
        raise PromptError(f"{where}: messages is empty or no list; allowed is a list of role and content")
    for message in value:
        whole = isinstance(message, dict) and {"role", "content"} == set(message)
        if not whole or not all(isinstance(part, str) for part in message.values()):
            raise PromptError(f"{where}: a message that is not an object of role and content, both texts")
    return tuple(value)


def encode(tokenizer: Any, text: Text, *, where: str) -> tuple[int, ...]:
    """Token ids of a text as the model's own tokenizer gives them; messages go through the chat template whole.

    A bos stands first where the tokenizer, or the template, puts one.

    Raises:
        PromptError: there is no template for messages, or it refuses them.
    """
    if isinstance(text, str):
        return tuple(tokenizer(text)["input_ids"])
    if not tokenizer.chat_template:
        # Without a template nobody knows what stands between messages: the words alone are still calibration text.
        return tuple(tokenizer("\n\n".join(message["content"] for message in text))["input_ids"])
    try:
        rendered = tokenizer.apply_chat_template(
            [dict(message) for message in text],
            tokenize=False,
            add_generation_prompt=text[-1]["role"] != "assistant",
            date_string=FIXED_DATE.strftime("%d %b %Y"),
            strftime_now=FIXED_DATE.strftime,
        )
    except Exception as error:  # a template is a stranger's code and may raise anything
        raise PromptError(f"{where}: the chat template refuses the messages: {reason(error)}; mend them") from error
    return tuple(tokenizer(rendered, add_special_tokens=False)["input_ids"])
