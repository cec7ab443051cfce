"""What the stub server says: the events of each API that it plays, and how they are put on the wire."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specq.core import clock

CHAT, TEXT, LLAMA, OLLAMA, SGLANG = (
    *("/v1/chat/completions", "/v1/completions"),
    *("/completion", "/api/generate", "/generate"),
)
WORDS = ("a", " b\u00f6", " \u20ac5", " \U0001f642", " z")
"""The tokens of an answer, over and over: letters of one, two, three and four bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """How one request is answered; a request's body asks for it under the name "stub".

    `tokens` come in events of `per_event`, at `rate` tokens/s (0: as fast as they go). `ids` and `usage` say whether
    token ids and counts are told, `done` whether the last event is. Lines end with `newline`, and `comments` stand
    between the events. The body's length is told by `framing`: chunked, length or close; `chunk_bytes` cuts it into
    chunks of so many bytes, without regard to events, each written alone.

    `fault` goes wrong in its way after `after` events: status (with `status`, `words`, `retry_after` and `location`),
    hang, cut (the connection is closed), torn (closed inside a letter), malformed (a line that is no JSON), error (an
    event that tells of one), gzip, reset (before any byte), kill (the server's whole process). Of the requests that
    have this `key`, it leaves the first `spared` alone and meets the next `times` (0: all others); what is asked
    beside requests is not counted. A fault that has a file `once` happens where that is not there, and makes it, so
    that it outlives the server. `echo` repeats the request's key wherever a server might.

    The first token is that of the place `first`, and with `vary` a place further, below that number, by the seed of the
    request. Above 0, `accepted` is how many of twice as many proposals the server says that it accepted.
    """

    tokens: int = 8
    per_event: int = 1
    rate: float = 0.0
    ids: bool = False
    usage: bool = True
    done: bool = True
    newline: str = "\n"
    comments: bool = False
    framing: str = "chunked"
    chunk_bytes: int = 0
    fault: str = ""
    after: int = 0
    spared: int = 0
    times: int = 0
    key: str = ""
    status: int = 200
    words: str = ""
    retry_after: str = ""
    location: str = ""
    echo: bool = False
    once: str = ""
    first: int = 0
    vary: int = 0
    accepted: int = 0


def token(place: int) -> str:
    """The text of the token at a place."""
    return WORDS[place % len(WORDS)]


def text_of(first: int, after: int, play: Play | None = None) -> str:
    """The text of the tokens from one place to before another."""
    return "".join(map(token, _places(first, after, play)))


def _places(first: int, after: int, play: Play | None) -> range:
    begins = 0 if play is None else play.first
    return range(begins + first, begins + after)


def met(play: Play, body: Mapping[str, Any], number: int) -> Play:
    """A play as the request of a number meets it: its seed varies where it begins, and a fault is its own or not."""
    if play.vary:
        play = replace(play, first=play.first + int(body.get("seed") or 0) % play.vary)
    late = play.times and number > play.spared + play.times
    if play.fault and (number <= play.spared or late or _has_been(play.once)):
        play = replace(play, fault="", status=200)
    if "max_tokens" in body or "n_predict" in body:
        play = replace(play, tokens=min(play.tokens, int(body.get("max_tokens") or body["n_predict"])))
    return play


def _has_been(once: str) -> bool:
    """Whether what happens once has happened; from now on it has."""
    if not once:
        return False
    try:
        Path(once).touch(exist_ok=False)
    except FileExistsError:
        return True
    return False


def told(path: str, model: str) -> dict[str, Any] | None:
    """What a server tells beside answers: that it is healthy, and which models it has; None for other paths."""
    if path == "/v1/models":
        return {"object": "list", "data": [{"id": model or "stub"}]}
    return {"status": "ok", "version": "stub"} if path in ("/health", "/version", "/api/version") else None


def event(path: str, play: Play, first: int, after: int) -> dict[str, Any]:
    """The event with the tokens from `first` to before `after`, and the time at which it is sent."""
    told = _SAYING[path](play, first, after)
    told["sent_s"] = clock.now()
    return told


def _chat(play: Play, first: int, after: int) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text_of(first, after, play)}, "finish_reason": None}
    return {"object": "chat.completion.chunk", "model": "stub", "choices": [_with_ids(choice, play, first, after)]}


def _text(play: Play, first: int, after: int) -> dict[str, Any]:
    choice = {"index": 0, "text": text_of(first, after, play), "finish_reason": None}
    return {"object": "text_completion", "model": "stub", "choices": [_with_ids(choice, play, first, after)]}


def _with_ids(choice: dict[str, Any], play: Play, first: int, after: int) -> dict[str, Any]:
    return choice | ({"token_ids": list(_places(first, after, play))} if play.ids else {})


def _llama(play: Play, first: int, after: int) -> dict[str, Any]:
    said: dict[str, Any] = {"content": text_of(first, after, play), "stop": False}
    if play.ids:
        said["tokens"] = list(_places(first, after, play))
    return said | ({"tokens_predicted": after} if play.usage else {})


def _ollama(play: Play, first: int, after: int) -> dict[str, Any]:
    return {"model": "stub", "response": text_of(first, after), "done": False}


def _sglang(play: Play, first: int, after: int) -> dict[str, Any]:
    meta = {"finish_reason": None} | ({"completion_tokens": after} if play.usage else {})
    return {"text": text_of(0, after), "meta_info": meta} | ({"output_ids": list(range(after))} if play.ids else {})


_SAYING: Mapping[str, Callable[[Play, int, int], dict[str, Any]]] = {
    CHAT: _chat,
    TEXT: _text,
    LLAMA: _llama,
    OLLAMA: _ollama,
    SGLANG: _sglang,
}
PATHS = tuple(_SAYING)


def opening(path: str) -> list[dict[str, Any]]:
    """The events before the first token: a chat begins with the role."""
    choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    return [{"model": "stub", "choices": [choice]}] if path == CHAT else []


def closing(path: str, play: Play, key: str) -> list[dict[str, Any]]:
    """The events after the last token: the end, and the server's own counts and times."""
    n = play.tokens
    if path == LLAMA:
        timings = {"prompt_n": 5, "prompt_ms": 1.5, "predicted_n": n, "predicted_ms": 2.5}
        last = {"content": "", "stop": True, "stop_type": "limit", "timings": timings, "note": key}
        return [last | ({"tokens_predicted": n} if play.usage else {})]
    if path == OLLAMA:
        last = {"model": "stub", "response": "", "done": True, "done_reason": "length", "context": [1, 2], "note": key}
        return [last | ({"eval_count": n, "eval_duration": 2_500_000} if play.usage else {})]
    if path == SGLANG:
        meta = {"finish_reason": {"type": "length", "length": n}, "e2e_latency": 0.25, "note": key}
        told = event(path, play, n, n)
        return [told | {"meta_info": told["meta_info"] | meta}]
    choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
    if path == CHAT:
        choice["delta"] = {}
    else:
        choice["text"] = ""
    ends: list[dict[str, Any]] = [{"model": "stub", "choices": [choice]}]
    if play.usage:
        usage = {"prompt_tokens": 5, "completion_tokens": n, "total_tokens": n + 5, "note": key}
        counted: dict[str, Any] = {"model": "stub", "choices": [], "usage": usage}
        if play.accepted:
            # As vLLM tells it with --enable-per-request-metrics.
            spec = {"num_draft_tokens": 2 * play.accepted, "num_accepted_draft_tokens": play.accepted}
            counted["metrics"] = {"speculative_decoding": spec | {"num_spec_steps": play.accepted}}
        ends.append(counted)
    return ends


def on_wire(path: str, play: Play, told: Mapping[str, Any]) -> bytes:
    """An event as its API writes it."""
    data = json.dumps(told, ensure_ascii=False)
    if path == OLLAMA:
        return f"{data}\n".encode()
    line = play.newline
    comment = f": still here{line}{line}" if play.comments else ""
    return f"{comment}data: {data}{line}{line}".encode()


def done(path: str, play: Play) -> bytes:
    """What stands after the last event."""
    if path in (OLLAMA, LLAMA) or not play.done:
        return b""
    return f"data: [DONE]{play.newline}{play.newline}".encode()
