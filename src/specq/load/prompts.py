"""The prompts of a load run: read from a file, rendered where the server takes text or ids, in one order for all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.core.errors import ConfigError, PromptError
from specq.core.nouns import counted
from specq.core.types import Prompt
from specq.evals.items import Item
from specq.experiment.prompts import RANDOM_TOKENS
from specq.workloads import reading, rendering
from specq.workloads.request import Request

MESSAGES = ("openai",)
"""Kinds that take messages and apply their own chat template; all others take a rendered text or its ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """Prompts and the times of their rows (None where one has none); `notes` says what was dropped or replaced."""

    prompts: tuple[Prompt, ...]
    at_s: tuple[float, ...] | None
    sha256: str
    notes: tuple[str, ...]
    ordered: bool = False

    @property
    def random(self) -> str | None:
        """The id of a prompt that is made of random tokens, None where none is."""
        return next((one.id for one in self.prompts if RANDOM_TOKENS in one.tags), None)

    def at(self, number: int, seed: int) -> Prompt:
        """The prompt of a request by its number: all of them once in a shuffled order, then all again in another.

        Where they are `ordered`, as the rows of a trace are, they keep their order.
        """
        if self.ordered:
            return self.prompts[number % len(self.prompts)]
        lap, place = divmod(number, len(self.prompts))
        return self.prompts[_order(len(self.prompts), seed, lap)[place]]


def read(path: Path, how: reading.How, kinds: Sequence[str], tokenizer: str | None) -> Prompts:
    """Read prompts for servers of some kinds.

    `tokenizer` is a model whose chat template renders messages and whose ids are sent, needed for every kind that
    takes no messages where the prompts are messages.

    Raises:
        PromptError: the file cannot be read, or has no prompt. ConfigError: messages and no tokenizer.
        ModelError: no such tokenizer.
    """
    found = reading.read(path, how)
    asked = [one for one in found.requests if one.messages or one.prompt]
    if not asked:
        raise PromptError(f"{path}: times and no prompts; give prompts with --prompts FILE and the times with --trace")
    prompts = _rendered(asked, path, kinds, tokenizer)
    at_s = tuple(one.at_s for one in asked if one.at_s is not None)
    return Prompts(
        prompts=prompts,
        at_s=at_s if len(at_s) == len(asked) else None,
        sha256=_sha256(prompts),
        notes=tuple(_notes(found, len(asked))),
    )


def of_items(items: Sequence[Item], path: Path, kinds: Sequence[str], tokenizer: str | None) -> Prompts:
    """The prompts of an evaluation set; they are its author's own, and nothing in them is replaced.

    Raises:
        ConfigError: messages and no tokenizer. ModelError: no such tokenizer.
    """
    asked = [
        Request(id=one.id, line=one.line, messages=one.messages, prompt=one.prompt, tags=one.tags) for one in items
    ]
    prompts = _rendered(asked, path, kinds, tokenizer)
    return Prompts(prompts=prompts, at_s=None, sha256=_sha256(prompts), notes=())


def _rendered(asked: Sequence[Request], path: Path, kinds: Sequence[str], tokenizer: str | None) -> tuple[Prompt, ...]:
    takes_text = sorted(set(kinds) - set(MESSAGES))
    if takes_text and tokenizer is None and (chat := next((one for one in asked if one.messages), None)):
        raise ConfigError(
            f'{path}: "{chat.id}" has messages, and kind "{takes_text[0]}" takes the text that a chat template makes '
            "of them: name the model with --tokenizer MODEL, or use the chat API of the server with --kind openai"
        )
    render = None if tokenizer is None else _renderer(tokenizer)
    return tuple(_prompt(one, render) for one in asked)


def _sha256(prompts: Sequence[Prompt]) -> str:
    return hashes.of_json([[one.id, one.text, list(one.ids), list(one.messages)] for one in prompts])


def in_time(found: Prompts) -> Prompts:
    """The prompts in the order of their own times, each to be sent at its own.

    Raises:
        PromptError: one has no time.
    """
    if found.at_s is None:
        raise PromptError("the prompts have no times of their own; name a file that has with --trace FILE")
    pairs = sorted(zip(found.at_s, range(len(found.prompts)), strict=True))
    return replace(
        found,
        prompts=tuple(found.prompts[place] for _, place in pairs),
        at_s=tuple(at for at, _ in pairs),
        ordered=True,
    )


def times(path: Path, how: reading.How) -> tuple[float, ...]:
    """The arrival times of a trace, in seconds after its first.

    Raises:
        PromptError: it cannot be read, or has no times.
    """
    found = reading.read(path, how)
    at_s = tuple(one.at_s for one in found.requests if one.at_s is not None)
    if not at_s:
        raise PromptError(f"{path}: no row has a time, and a trace is made of times; docs/workloads.md names the keys")
    return at_s


@lru_cache(maxsize=8)
def _order(count: int, seed: int, lap: int) -> tuple[int, ...]:
    order = list(range(count))
    random.Random(hashes.seed_of("order", seed, lap)).shuffle(order)
    return tuple(order)


def _renderer(model: str) -> Any:
    from specq.models import light_tokenizer

    return light_tokenizer.load(model)


def _prompt(one: Request, tokenizer: Any) -> Prompt:
    # A result without the id of its call is refused by servers, and tools are a part of what a model reads.
    asked = rendering.asked(one)
    messages = () if isinstance(asked, str) else tuple(dict(message) for message in asked)
    if tokenizer is None:
        return Prompt(id=one.id, ids=(), text=one.prompt, messages=messages, tags=one.tags)
    text, special, _ = rendering.text_of(tokenizer, one)
    ids = tuple(tokenizer.ids(text, special=special))
    return Prompt(id=one.id, ids=ids, text=text, messages=messages, tags=one.tags)


def _notes(found: reading.Read, prompts: int) -> list[str]:
    notes = []
    if rows := sum(len(one.lines) for one in found.dropped):
        reasons = "; ".join(f"{len(one.lines)}: {one.reason}" for one in found.dropped)
        notes.append(f"{rows} of {found.counts.rows} rows of the prompts were dropped ({reasons})")
    if replaced := sum(found.counts.scrubbed.values()):
        notes.append(f"{replaced} personal values in the prompts were replaced by placeholders")
    if tools := sum(bool(one.tools) for one in found.requests):
        notes.append(f"tool definitions of {counted(tools, 'prompt')} are sent as text, at the head of its messages")
    if called := sum(any(m["role"] == "tool" for m in one.messages) for one in found.requests):
        notes.append(f"results of tools in {counted(called, 'prompt')} are sent as text of the user, calls as text")
    if len(found.requests) > prompts:
        notes.append(f"{len(found.requests) - prompts} rows of the prompts have no text")
    return notes
