"""What a workload file holds, as one kind of row, and why some of its rows are not taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, str]


class Unusable(Exception):
    """A row that holds no prompt that can be taken; the message is the reason, the same words for the same fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One prompt as a reader takes it from a row, before ids, times and scrubbing.

    `messages` or `prompt` is given, never both. `tools` is the JSON text of tool definitions, which chat templates put
    before all messages. `at` is the row's time as it is written. `later_turns` counts what the row asks after this
    prompt and what is left out, `answered` says that the row ended with its answer. `foreign` says what of it specq's
    own format cannot hold, "" where it holds all. Token counts are those of the row's own usage.
    """

    id: str | None = None
    messages: tuple[Message, ...] = ()
    prompt: str = ""
    tools: str = ""
    tags: tuple[str, ...] = ()
    user: str = ""
    at: Any = None
    at_key: str = ""
    later_turns: int = 0
    answered: bool = False
    foreign: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt of a workload.

    `line` is its line, or its place in a list, from 1. `at_s` is seconds after the file's earliest request, None
    without a time. The other fields are as in Asked; texts have personal data replaced unless it was kept.
    """

    id: str
    line: int
    messages: tuple[Message, ...] = ()
    prompt: str = ""
    tools: str = ""
    tags: tuple[str, ...] = ()
    user: str = ""
    at_s: float | None = None
    foreign: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None

    def texts(self) -> tuple[str, ...]:
        """Everything that a model reads of it, in order."""
        said = tuple(message["content"] for message in self.messages)
        return (*((self.tools,) if self.tools else ()), *said, *((self.prompt,) if self.prompt else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Rows that were not taken for one reason: their lines, or places in a list, from 1."""

    reason: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What reading left out or changed, beside whole rows.

    `scrubbed` counts replaced values by kind, and `values` how many different ones there were; `kept` says that nothing
    was looked for. `answers` are rows whose
    last message was the answer and is no part of the prompt.
    """

    rows: int = 0
    later_turns: int = 0
    answers: int = 0
    renamed: int = 0
    kept: bool = False
    scrubbed: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
