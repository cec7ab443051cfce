"""What a kind of server is told, and what it tells: plain, frozen, the same for every kind."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol

from specq.core.types import DraftSpec, Prompt, Rule, Sampling, TargetSpec
from specq.engines.served.request import Asked, Streamed

UNKNOWN: Final = "unknown"
Unknown = Literal["unknown"]
Exactness = Literal["exact", "exact_by_match", "lossy", "unknown"]
"""`exact`: what comes out has the target's law, by accepting and redrawing with the right chances. `exact_by_match`:
what comes out is the target's own draws, and a draft only saves passes. Only these two may be called lossless."""
TokenCounts = Literal["ids", "usage"]
"""Where the tokens of an answer are counted: their ids are streamed, or the server says how many there were."""
HOST = "127.0.0.1"
LOG = "log"
"""Where among a server's answers the text of its log stands, for one that was started here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a server is to serve: an arm, and what the engine adds.

    `weights` is the experiment's target, a folder, a GGUF file, or a name that the server knows, unless `target` puts
    other ones in its place; `draft_weights` are those of the draft's own model. A recipe is made a folder before a
    server starts. `context` is the most tokens that one request may hold, `slots` how many requests run at once.
    `prefix_cache` keeps the caches of earlier prompts. `args` goes to the server as it is, after everything else.
    `name` is what a server that runs already calls its model, None where that is not said.
    """

    weights: str
    target: TargetSpec = field(default_factory=TargetSpec)
    draft: DraftSpec | None = None
    draft_weights: str | None = None
    context: int | None = None
    slots: int = 1
    dtype: str | None = None
    threads: int | None = None
    seed: int = 0
    prefix_cache: bool = False
    args: tuple[str, ...] = ()
    name: str | None = None

    @property
    def loads(self) -> str:
        """The weights that the server is to load: the arm's own, else the experiment's target."""
        return self.target.model or self.target.source or self.weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A process to start: its arguments, and what its environment adds to this one's."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """How a server verifies a draft: the rule, what that leaves of the target's law, why, and who says so."""

    exactness: Exactness
    reason: str
    source: str
    rule: Rule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a server says that it runs; "unknown" where it does not say. `window` is in tokens."""

    model: str = UNKNOWN
    version: str = UNKNOWN
    window: int | Unknown = UNKNOWN
    slots: int | Unknown = UNKNOWN
    cache_type: str = UNKNOWN
    attention: str = UNKNOWN
    prefix_cache: bool | Unknown = UNKNOWN
    speculation: str = UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """A server's own counts and seconds, of one request or summed over `requests`; None where it does not tell.

    `prompt_tokens` has those of the cache in it. `prefill_s` ends with the first token, and `decode_s` runs from it
    to the last; `queue_s` comes before both, and `ttft_s` and `e2e_s` are as the server defines them.
    `accepted_by_position` counts the steps that accepted each position, from the first. `damaged` names what was
    there and was no number.
    """

    requests: int | None = 1
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    new_tokens: int | None = None
    queue_s: float | None = None
    load_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    ttft_s: float | None = None
    e2e_s: float | None = None
    draft_steps: int | None = None
    proposed: int | None = None
    accepted: int | None = None
    accepted_by_position: tuple[int, ...] | None = None
    restarted: bool = False
    damaged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """What a server wrote of its drafting since it started: rounds, each for all requests at once, and seconds."""

    calls: int
    seconds: float


class Kind(Protocol):
    """One module a kind of server."""

    NAME: str
    HEALTH: str
    """The path that answers 200 once the server can serve."""
    ASKS: tuple[str, ...]
    """The paths whose answers `settings` reads."""
    TOKENS: TokenCounts

    def request(self, prompt: Prompt, sampling: Sampling, *, id: str, model: str, cold: str | None = None) -> Asked:
        """The streaming request. `cold` is a nonce no other request has: nothing may come from a prefix cache."""
        ...

    def differs(self, served: Served, sampling: Sampling) -> tuple[str, ...]:
        """What the server does in its own way, a sentence each."""
        ...

    def cannot(self, served: Served, sampling: Sampling) -> tuple[str, ...]:
        """What the server cannot do for the arm, a sentence each: what was given, what is allowed, what to type."""
        ...

    def verified(self, draft: DraftSpec, sampling: Sampling, args: Sequence[str] = ()) -> Verified:
        """How the server verifies a draft that it can run."""
        ...

    def command(self, served: Served, port: int, *, environ: Mapping[str, str]) -> Command:
        """The server's command line.

        Raises:
            Unsupported: the server is not installed.
        """
        ...

    def settings(self, told: Mapping[str, Any]) -> Settings:
        """The server's settings from its answers, by path: JSON values, or text; a path that failed is left out.

        Under LOG may stand what a started server wrote.
        """
        ...

    def numbers(self, streamed: Streamed) -> Numbers:
        """The server's own numbers of one request."""
        ...


class Values:
    """The numbers of an object that a server told; `damaged` gathers what was there and was no number."""

    def __init__(self, told: Any) -> None:
        self._told: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
        self.damaged: list[str] = []

    def number(self, key: str, scale: float = 1.0) -> float | None:
        """A finite number of 0 or more, times `scale`; None where it is null or absent, or damaged."""
        value = self._told.get(key)
        if value is None:
            return None
        if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
            self.damaged.append(key)
            return None
        return float(value) * scale

    def count(self, key: str) -> int | None:
        """As `number`, a whole one."""
        value = self.number(key)
        if value is not None and not value.is_integer():
            self.damaged.append(key)
            return None
        return None if value is None else int(value)

    def inside(self, key: str) -> Values:
        """The numbers of an object inside this one; what is damaged there counts here."""
        inner = Values(self._told.get(key))
        inner.damaged = self.damaged
        return inner

    def __contains__(self, key: str) -> bool:
        return self._told.get(key) is not None


def of_usage(usage: Any) -> Numbers:
    """The counts of a `usage` object as the OpenAI API has it.

    Source: https://platform.openai.com/docs/api-reference/completions/object.
    """
    values = Values(usage)
    return Numbers(
        prompt_tokens=values.count("prompt_tokens"),
        new_tokens=values.count("completion_tokens"),
        cached_tokens=values.inside("prompt_tokens_details").count("cached_tokens"),
        damaged=tuple(values.damaged),
    )


def or_else(numbers: Numbers, other: Numbers) -> Numbers:
    """The numbers, with those of another source where the first does not tell."""
    names = ("prompt_tokens", "cached_tokens", "new_tokens")
    filled = {name: getattr(other, name) for name in names if getattr(numbers, name) is None}
    return replace(numbers, **filled, damaged=(*numbers.damaged, *other.damaged))


def positions(histogram: Sequence[int]) -> tuple[int, ...]:
    """Steps that accepted each position, from steps that accepted 0, 1, 2, ... proposals."""
    return tuple(sum(histogram[place:]) for place in range(1, len(histogram)))


def clashes(name: str, args: Sequence[str], owned: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each argument that specq sets itself: `owned` says for each what to write instead."""
    found = []
    for arg in args:
        flag = arg.partition("=")[0]
        # vLLM and SGLang read --a_b as --a-b.
        bare = flag[:2] + flag[2:].replace("_", "-") if flag.startswith("--") else flag
        if bare in owned:
            found.append(f'[engine] args has {flag}, which specq sets for kind = "{name}": {owned[bare]}')
    return tuple(found)


def found_in(told: Mapping[str, Any], pattern: re.Pattern[str]) -> str:
    """What the first group of a pattern first matched in a server's log; "unknown" where it matched nothing."""
    log = told.get(LOG)
    match = pattern.search(log) if isinstance(log, str) else None
    return UNKNOWN if match is None else match[1]


def first_of(told: Any, *keys: str) -> Any:
    """The value under the first of some keys that a server told, None where it told none of them."""
    return next((told[key] for key in keys if isinstance(told, Mapping) and told.get(key) is not None), None)


def whole(value: Any) -> int | Unknown:
    """A count that a server told as a number or as text; "unknown" for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value if type(value) is int and value >= 0 else UNKNOWN


def word(value: Any) -> str:
    """A setting that a server told; "unknown" for nothing."""
    return value if isinstance(value, str) and value else UNKNOWN
