"""Prompt files: one JSON object a line, in specq's own format or Spec-Bench's.

specq's own: `id`, then `messages` (a list of role and content) or `prompt` (text that goes to
the model as it stands), and `tags` (a list; reports split by each of them).
Spec-Bench's: `question_id`, `category` and `turns`, of which the first turn is taken.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specq.core import text_lines
from specq.core.errors import PromptError, nearest
from specq.evals.item_values import ROLES

RANDOM_TOKENS = "random-tokens"
"""The tag of prompts that are no text: no draft is measured on them."""
OWN_KEYS = ("id", "messages", "prompt", "tags")
_SPEC_BENCH_KEYS = ("question_id", "category", "turns", "reference")
_MESSAGE_KEYS = ("role", "content")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One request as it stands in the file: messages, or a text when there are none.

    `dropped_turns` counts the later turns of a Spec-Bench question, which are not asked.
    """

    id: str
    messages: tuple[dict[str, str], ...] = ()
    prompt: str = ""
    tags: tuple[str, ...] = ()
    dropped_turns: int = 0


def load(path: Path, limit: int | None = None) -> tuple[Item, ...]:
    """The first `limit` items of a prompts file, in file order; all of them by default.

    The whole file is checked, whatever the limit. A file whose kinds are interleaved keeps
    every kind in any prefix; nothing is reordered here.

    Raises:
        PromptError: the file cannot be read, holds no items, or a line is wrong; the message
            names file and line.
    """
    items: dict[str, tuple[int, Item]] = {}
    for number, line in text_lines.numbered(_text(path)):
        item = parsed(line, where=f"{path}:{number}")
        if item.id in items:
            raise PromptError(f'{path}:{number}: id "{item.id}" stands in line {items[item.id][0]} too; ids are unique')
        items[item.id] = (number, item)
    if not items:
        raise PromptError(f"{path}: no prompts in it; write one JSON object a line with id and messages or prompt")
    return tuple(item for _, item in items.values())[:limit]


def _text(path: Path) -> str:
    try:
        return text_lines.read(path)
    except FileNotFoundError as error:
        raise PromptError(f"{path}: no such file; set workload.prompts to a JSONL file of prompts") from error
    except (OSError, ValueError) as error:
        raise PromptError(f"{path}: cannot be read ({error}); set workload.prompts to a JSONL file") from error


def parsed(line: str, *, where: str) -> Item:
    """The item of one line.

    Raises:
        PromptError: the line is wrong; the message begins with `where`.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # JSON readers keep the last of two values in silence, and the first may be the one that was meant.
        found = dict(pairs)
        if len(found) < len(pairs):
            key = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
            raise PromptError(f'{where}: key "{key}" stands twice in one object; keep one')
        return found

    try:
        value = json.loads(line, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise PromptError(f"{where}: not a JSON line ({error}); write one JSON object a line") from error
    if not isinstance(value, dict):
        raise PromptError(f"{where}: a {type(value).__name__}; allowed is a JSON object with id and messages or prompt")
    spec_bench = "question_id" in value
    known = _SPEC_BENCH_KEYS if spec_bench else OWN_KEYS
    for key in value:
        if key not in known:
            raise PromptError(
                f'{where}: unknown key "{key}"{nearest(key, known) or ";"} known keys: {", ".join(known)}'
            )
    item = _of_spec_bench(value, where) if spec_bench else _of_own(value, where)
    for text in (item.id, item.prompt, *item.tags, *(message["content"] for message in item.messages)):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise PromptError(
                f"{where}: half of a surrogate pair, which is no text; write the whole character"
            ) from error
    return item


def _of_own(value: dict[str, Any], where: str) -> Item:
    ident = _id(value, "id", where)
    if ("messages" in value) == ("prompt" in value):
        both = "both messages and prompt" if "messages" in value else "neither messages nor prompt"
        raise PromptError(f"{where}: {both}; allowed is one of the two")
    tags = _texts(value.get("tags", []), "tags", where)
    if "prompt" in value:
        return Item(id=ident, prompt=_filled(value["prompt"], "prompt", where), tags=tags)
    messages = value["messages"]
    if not isinstance(messages, list) or not messages:
        raise PromptError(f"{where}: messages is empty or no list; allowed is a list of role and content")
    return Item(id=ident, messages=tuple(_message(message, where) for message in messages), tags=tags)


def _of_spec_bench(value: dict[str, Any], where: str) -> Item:
    turns = _texts(value.get("turns"), "turns", where)
    content = _filled(turns[0] if turns else "", "turns", where)
    category = value.get("category")
    return Item(
        id=_id(value, "question_id", where),
        messages=({"role": "user", "content": content},),
        tags=_texts([] if category is None else [category], "category", where),
        dropped_turns=len(turns) - 1,
    )


def _message(message: Any, where: str) -> dict[str, str]:
    if not isinstance(message, dict):
        raise PromptError(f"{where}: a message that is no object; allowed is an object with role and content")
    for key in message:
        if key not in _MESSAGE_KEYS:
            raise PromptError(
                f'{where}: unknown message key "{key}"{nearest(key, _MESSAGE_KEYS) or ";"} known keys: role, content'
            )
    role = message.get("role")
    if role not in ROLES:
        raise PromptError(f"{where}: role {json.dumps(role)}: allowed is {', '.join(ROLES)}")
    # An empty system message is how a template's own system text is switched off.
    content = message.get("content")
    return {"role": role, "content": "" if (role, content) == ("system", "") else _filled(content, "content", where)}


def _id(value: dict[str, Any], key: str, where: str) -> str:
    ident = value.get(key)
    if isinstance(ident, bool) or not isinstance(ident, str | int) or ident == "":
        raise PromptError(f"{where}: {key} = {json.dumps(ident)}: allowed is a text or a whole number, one a prompt")
    return str(ident)


def _filled(text: Any, key: str, where: str) -> str:
    if not isinstance(text, str):
        raise PromptError(f"{where}: {key} is missing or no text; write it as a JSON string")
    if not text.strip():
        raise PromptError(f"{where}: empty prompt: {key} holds no characters; write one or take the line out")
    return text


def _texts(value: Any, key: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise PromptError(f"{where}: {key} = {json.dumps(value)}: allowed is a list of texts")
    return tuple(value)
