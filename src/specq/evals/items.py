"""Evaluation sets: one JSON object a line, each a prompt, what is right, and what it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specq.core import text_lines
from specq.core.errors import PromptError, nearest
from specq.evals import strict_json
from specq.evals.item_values import (
    Source,
    choice_place,
    choices_of,
    ident,
    messages_of,
    prompt_of,
    reference_of,
    schema_of,
    short,
    sources_of,
    texts_of,
)

KEYS = (
    *("id", "prompt", "messages", "reference", "choices", "schema", "sources"),
    *("tags", "cluster", "critical"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item as it stands in its file.

    Either `prompt` or `messages` is filled. `reference` is a JSON value, None only beside a `schema`. `right` is the
    place from 0 of the right choice, None without choices. `cluster` is the item's id unless the file names one.
    `given` is the whole line as a JSON object. `line` counts from 1.
    """

    id: str
    line: int
    prompt: str = ""
    messages: tuple[dict[str, str], ...] = ()
    reference: Any = None
    choices: tuple[str, ...] = ()
    right: int | None = None
    schema: dict[str, Any] | None = None
    sources: tuple[Source, ...] = ()
    tags: tuple[str, ...] = ()
    cluster: str = ""
    critical: bool = False
    given: dict[str, Any] = field(default_factory=dict)

    @property
    def asked(self) -> str | tuple[dict[str, str], ...]:
        """What the model is asked: the text as it stands, or the messages."""
        return self.prompt or self.messages

    @property
    def texts(self) -> tuple[str, ...]:
        """The reference as texts, of which any is right; () where it is a number or an object."""
        if self.right is not None:
            return (self.choices[self.right],)
        if isinstance(self.reference, str):
            return (self.reference,)
        return tuple(self.reference) if isinstance(self.reference, list) else ()

    @property
    def kind(self) -> str:
        """What the reference is: "choice", "text", "texts", "number", "object" or, beside a schema, "none"."""
        if self.right is not None:
            return "choice"
        if self.reference is None:
            return "none"
        words = {"str": "text", "list": "texts", "dict": "object"}
        return words.get(type(self.reference).__name__, "number")


def load(path: Path) -> tuple[Item, ...]:
    """The items of an evaluation set, in file order; the whole file is checked.

    Raises:
        PromptError: the file cannot be read or holds no items, or a line is wrong; the message names file and line,
            what was given and what is allowed.
    """
    found: dict[str, Item] = {}
    for number, line in text_lines.numbered(_text(path)):
        try:
            item = read_line(line, number)
        except ValueError as error:
            raise PromptError(f"{path}:{number}: {error}") from error
        if item.id in found:
            where = found[item.id].line
            raise PromptError(f'{path}:{number}: id "{short(item.id)}" stands in line {where} too; ids are unique')
        found[item.id] = item
    if not found:
        raise PromptError(f"{path}: no items in it; write one JSON object a line with id, prompt and reference")
    return tuple(found.values())


def _text(path: Path) -> str:
    try:
        return text_lines.read(path)
    except FileNotFoundError as error:
        raise PromptError(f"{path}: no such file; name a JSONL file of items") from error
    except (OSError, ValueError) as error:
        raise PromptError(f"{path}: cannot be read ({error}); name a JSONL file of items") from error


def read_line(line: str, number: int = 1) -> Item:
    """The item of one line of a set.

    Raises:
        ValueError: in one sentence, what was given and what is allowed.
    """
    try:
        value = strict_json.read(line)
    except ValueError as error:
        raise ValueError(f"not a JSON line ({error}); write one JSON object a line") from error
    if not isinstance(value, dict):
        raise ValueError(f"{short(value)}: allowed is a JSON object with id, prompt or messages, and reference")
    for key in value:
        if key not in KEYS:
            raise ValueError(f'unknown key "{short(key)}"{nearest(key, KEYS) or ";"} known keys: {", ".join(KEYS)}')
    if ("messages" in value) == ("prompt" in value):
        both = "both messages and prompt" if "messages" in value else "neither messages nor prompt"
        raise ValueError(f"{both}; allowed is one of the two")
    name = ident(value.get("id"), "id")
    choices = choices_of(value["choices"]) if "choices" in value else ()
    schema = schema_of(value["schema"]) if "schema" in value else None
    if "reference" not in value and (schema is None or choices):
        raise ValueError("no reference; write what is right, or a schema for the metric json_schema")
    reference = value.get("reference")
    critical = value.get("critical", False)
    if not isinstance(critical, bool):
        raise ValueError(f"critical = {short(critical)}: allowed is true or false")
    return Item(
        id=name,
        line=number,
        prompt=prompt_of(value["prompt"]) if "prompt" in value else "",
        messages=messages_of(value["messages"]) if "messages" in value else (),
        reference=reference_of(reference) if "reference" in value else None,
        choices=choices,
        right=choice_place(reference, choices) if choices and "reference" in value else None,
        schema=schema,
        sources=sources_of(value["sources"]) if "sources" in value else (),
        tags=texts_of(value["tags"], "tags") if "tags" in value else (),
        cluster=ident(value["cluster"], "cluster") if "cluster" in value else name,
        critical=critical,
        given=value,
    )
