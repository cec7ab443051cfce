"""Requests to a stub server in the same event loop, and answers without one, for the tests of the client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from specq.engines.served.client import Client
from specq.engines.served.faults import Retry
from specq.engines.served.key import Key
from specq.engines.served.reading import Received
from specq.engines.served.request import Asked, Streamed
from specq.engines.served.stub import Stub
from specq.engines.served.stub_events import CHAT
from specq.engines.served.wire import Reply

AT_ONCE = Retry(first_s=0.0)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
T = TypeVar("T")


def asked(path: str = CHAT, *, id: str = "r1", stream: bool = True, **play: Any) -> Asked:
    """A request that tells the stub how to answer it: the fields of a Play."""
    return Asked(id=id, path=path, body=json.dumps({"stream": stream, "stub": play}).encode())


def with_stub(
    work: Callable[[Stub, Client], Awaitable[T]],
    *,
    run: Callable[[Coroutine[Any, Any, T]], T] = asyncio.run,
    **how: Any,
) -> T:
    """What some work on a stub and a client of it gives; `how` is for the client, `run` runs both."""

    async def both() -> T:
        async with Stub() as stub, Client(stub.url, **({"retry": AT_ONCE} | how)) as client:
            return await work(stub, client)

    return run(both())


def streamed(path: str = CHAT, *, how: dict[str, Any] | None = None, **play: Any) -> Streamed:
    """What comes of one request."""
    return with_stub(lambda stub, client: client.stream(asked(path, **play)), **(how or {}))


def answer(events: Sequence[Any], *, done: bool = True, key: Key | None = None) -> Streamed:
    """What events of JSON say that came at 1 s, 2 s, ... after a request at 0 s."""
    reply = Reply(0.0)
    reply.framing.feed(HEAD, 0.5)
    for number, event in enumerate(events, 1):
        reply.framing.feed(f"data: {json.dumps(event)}\n\n".encode(), float(number))
    if done:
        reply.framing.feed(b"data: [DONE]\n\n", float(len(events)))
    reply.framing.end()
    end_s = reply.framing.last_s or 0.0
    return Received(id="r", key=key or Key(None), asked_s=0.0, end_s=end_s, reply=reply, fault=None).read()


def chat(text: str = "", *, finish: str | None = None, usage: int | None = None, **more: Any) -> dict[str, Any]:
    """An event of a chat; `more` are fields of its choice."""
    told: dict[str, Any] = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish, **more}]}
    return told if usage is None else told | {"usage": {"completion_tokens": usage}}
