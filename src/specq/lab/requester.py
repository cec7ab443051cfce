"""What the lab asks requests of: one small protocol, kept by the reference engine and by servers alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from specq.core.types import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one request. Seconds are those since it was sent, at `sent_s` of core.clock.now().

    `stamps_s` are the times at which tokens came and `stamp_tokens` how many came then; both are empty for an answer
    that was not streamed, whose `ttft_s` is None. `cached_tokens` are those of the prompt that were not read anew, None
    where the server does not tell. `told` holds the server's own seconds by name.
    """

    sent_s: float
    ttft_s: float | None
    e2e_s: float
    stamps_s: tuple[float, ...] = ()
    stamp_tokens: tuple[int, ...] = ()
    prompt_tokens: int
    cached_tokens: int | None
    output_tokens: int
    told: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPrompt:
    """A prompt of the user's as the model sees it: `text` with its template around it, and what it was made of.

    `special` says whether the tokenizer's special tokens come around the text, which a template writes itself.
    """

    text: str
    tokens: int
    tags: tuple[str, ...] = ()
    special: bool = True
    messages: tuple[dict[str, str], ...] = ()


class Requester(Protocol):
    """Asks one engine. `slots` is how many requests it runs at once, None where nothing limits or tells that.

    Every call raises RunFailed where a request fails, and Unsupported where the engine cannot do what is asked.
    """

    name: str
    kind: str
    slots: int | None

    def prompt(self, id: str, text: str, *, special: bool = True, messages: Sequence[Mapping[str, str]] = ()) -> Prompt:
        """A text as the engine takes it, as it is; with ids where a tokenizer is known.

        `special`: the tokenizer's special tokens come around it. `messages` are what servers of chats get in place of
        the text; without any it is one message of the user's.
        """
        ...

    def ask(self, prompt: Prompt, max_tokens: int, *, cached: bool = False, streamed: bool = True) -> Answer:
        """One request that goes on to `max_tokens` tokens where the engine can be told to.

        Without `cached` nothing of it may come from a prefix cache. With it the engine reuses what it holds.
        """
        ...

    def ask_together(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Answer]:
        """Several requests at once, read cold."""
        ...

    def describe(self) -> dict[str, Any]:
        """What answers, as JSON values: model, settings, device, as far as it tells."""
        ...
