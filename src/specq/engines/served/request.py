"""What is asked of a server, and what came of it: plain, frozen, the same for every kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specq.core.errors import UserError
from specq.core.served import Counted
from specq.engines.served.faults import Kind

# Headers that the client sets, and those that keys travel in, somewhere.
_OWN = ("host", "connection", "content-length", "transfer-encoding", "accept-encoding")
_KEYS = ("authorization", "proxy-authorization", "api-key", "x-api-key", "cookie")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request: a POST of `body` to `path`, which begins with a slash.

    Raises:
        UserError: a header carries a key or is the client's own, or a path or header would be read as something else.
    """

    id: str
    path: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in self.headers:
            if name.lower() in _KEYS:
                raise UserError(
                    f'request "{self.id}" has a header {name}: keys are not written down; put the key into an '
                    "environment variable and name that with key_env"
                )
            if name.lower() in _OWN:
                raise UserError(f'request "{self.id}" has a header {name}, which the client sets itself: take it out')
        if not self.path.startswith("/") or not all(map(_plain, (self.path, *self.headers, *self.headers.values()))):
            raise UserError(
                f'request "{self.id}": path and headers are printable ASCII, and a path begins with / and has no '
                f"space; given was {self.path!r} with headers {', '.join(map(repr, self.headers)) or 'none'}"
            )


def _plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and not (text.startswith("/") and " " in text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try that failed and was followed by another: what was wrong, and the seconds waited after it."""

    began_s: float
    ended_s: float
    error: Kind
    status: int | None
    said: str
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """What came of one request. All that ends with `_s` and is no length of time is a reading of core.clock.now().

    `asked_s` is when the client took the request up, `sent_s` when the last try's bytes went to the socket,
    `connect_s` how long its connection took to open (0.0: one that stood open). `first_byte_s` is the reply's head,
    `first_token_s` and `last_token_s` the events with the first and the last token, `end_s` the end of everything.

    `text` is the answer, `reasoning` what the model said before it, `calls` names and arguments of tool calls.
    `event_s` and `event_tokens` are when each event with output came and how many tokens it had; where the server
    does not tell that by event, an event counts as one. `tokens` is the count of the whole answer, from the source
    that `counted` names; None where nothing was answered. `token_ids` are all that were told: where `counted` is not
    "ids", some may be missing.

    `finish`, `usage` and `server` are the server's own words and numbers, as told. `error` says what went wrong,
    `said` how, in one line, in the server's words where it had some; all that came before is kept. `notes` are
    faults that took nothing away. `tries` are the earlier attempts. `events` counts every event that was read,
    `malformed` those of them that could not be, and `torn_bytes` what stood after the last whole one.
    """

    id: str
    status: int | None
    asked_s: float
    sent_s: float | None
    connect_s: float | None
    first_byte_s: float | None
    first_token_s: float | None
    last_token_s: float | None
    end_s: float
    text: str = ""
    reasoning: str = ""
    calls: str = ""
    token_ids: tuple[int, ...] | None = None
    event_s: tuple[float, ...] = ()
    event_tokens: tuple[int, ...] = ()
    tokens: int | None = None
    counted: Counted = "events"
    finish: str | None = None
    usage: Mapping[str, Any] | None = None
    server: Mapping[str, Any] = field(default_factory=dict)
    tries: tuple[Attempt, ...] = ()
    error: Kind | None = None
    said: str = ""
    notes: tuple[Kind, ...] = ()
    events: int = 0
    malformed: int = 0
    torn_bytes: int = 0

    @property
    def retries(self) -> int:
        """How often it was asked again."""
        return len(self.tries)

    @property
    def ttft_s(self) -> float | None:
        """Seconds from the request to its first token; None where either is missing."""
        return None if self.first_token_s is None or self.sent_s is None else self.first_token_s - self.sent_s

    @property
    def e2e_s(self) -> float | None:
        """Seconds from the request to its last token; None where either is missing."""
        return None if self.last_token_s is None or self.sent_s is None else self.last_token_s - self.sent_s

    @property
    def tpot_s(self) -> float | None:
        """Seconds a token after the first: (last - first) / (tokens - 1); None below two tokens."""
        if self.first_token_s is None or self.last_token_s is None or self.tokens is None or self.tokens < 2:
            return None
        return (self.last_token_s - self.first_token_s) / (self.tokens - 1)
