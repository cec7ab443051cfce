"""A stub of a model server: tokens at a set rate, and every misbehaviour that a client must survive.

It has no model. `Stub` runs in the event loop of the caller, `started` in a process of its own, which ends with the
one that started it; `python -m specq.engines.served.stub` prints its address and serves until its stdin is closed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from specq.core import clock
from specq.engines.served import stub_events
from specq.engines.served.stub_events import PATHS, Play

HOST = "127.0.0.1"
OF_ITSELF = "/stub"
"""Where the stub tells how many answers it gave at once."""
_MANY = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One request as the stub read it; header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Stub:
    """The server, in the running event loop; an async context manager. `heard` are the requests so far.

    `plays` is the Play of a request that brings none, by its fields. A `model` is the only one that it knows.
    """

    def __init__(
        self,
        host: str = HOST,
        port: int = 0,
        *,
        tls: ssl.SSLContext | None = None,
        plays: Mapping[str, Any] | None = None,
        model: str = "",
    ) -> None:
        self._host, self._port, self._tls = host, port, tls
        self._plays, self._model = dict(plays or {}), model
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._met: Counter[str] = Counter()
        self.heard: list[Heard] = []
        self.connections = 0
        self._now = self._most = 0

    @property
    def url(self) -> str:
        """Its address."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self._port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._connected, self._host, self._port, ssl=self._tls, backlog=_MANY, limit=2**20
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            # A client that has gone, or a connection that was closed on purpose, ends it.
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._serve(reader, writer):
                    pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection stands open for another."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")[:-2]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        path = first.split(" ")[1]
        self.heard.append(Heard(path=path, headers=headers, body=body))
        if (told := stub_events.told(path, self._model)) is not None:
            _say(writer, json.dumps(told).encode())
            return True
        if path == OF_ITSELF:
            _say(writer, json.dumps({"most_at_once": self._most}).encode())
            return True
        if path not in PATHS:
            _refuse(writer, Play(status=404, words=json.dumps({"detail": f"Not Found: {path}"})), "")
            return True
        play = self._met_by(body)
        key = headers.get("authorization", "") if play.echo else ""
        if play.fault == "reset":
            _reset(writer)
            return False
        if play.fault == "status":
            _refuse(writer, play, key)
            return True
        if not body.get("stream", True):
            _say_whole(writer, play, key)
            return True
        self._now += 1
        self._most = max(self._most, self._now)
        try:
            return await self._stream(writer, path, play, key)
        finally:
            self._now -= 1

    def _met_by(self, body: Mapping[str, Any]) -> Play:
        """How a request is answered; its fault hangs on how many requests came before it, control calls left out."""
        if self._model and body.get("model") not in (None, self._model):
            words = f"The model `{body['model']}` does not exist."
            return Play(fault="status", status=404, words=json.dumps({"error": {"message": words}}))
        play = Play(**body.get("stub", self._plays))
        self._met[play.key] += 1
        return stub_events.met(play, body, self._met[play.key])

    async def _stream(self, writer: asyncio.StreamWriter, path: str, play: Play, key: str) -> bool:
        told = "application/x-ndjson" if path == stub_events.OLLAMA else "text/event-stream; charset=utf-8"
        headers = [f"Content-Type: {told}"]
        if play.fault == "gzip":
            headers.append("Content-Encoding: gzip")
        out = _Body(writer, play, headers)
        for one in stub_events.opening(path):
            await out.add(stub_events.on_wire(path, play, one))
        start_s = clock.now()
        for events, first in enumerate(range(0, play.tokens, play.per_event)):
            if play.rate:
                await asyncio.sleep(start_s + first / play.rate - clock.now())
            if events == play.after and play.fault and not await _misbehave(out, path, play, key):
                return False
            after = min(first + play.per_event, play.tokens)
            told_now = stub_events.event(path, play, first, after)
            if play.echo:
                told_now["note"] = key
            await out.add(stub_events.on_wire(path, play, told_now))
        for one in stub_events.closing(path, play, key):
            await out.add(stub_events.on_wire(path, play, one))
        await out.add(stub_events.done(path, play))
        await out.end()
        return play.framing != "close"


class _Body:
    """A reply's body, in the framing that is asked for; the head goes out with the first of it."""

    def __init__(self, writer: asyncio.StreamWriter, play: Play, headers: Sequence[str]) -> None:
        self.writer, self._play, self._headers = writer, play, list(headers)
        self._held = b""
        if play.framing != "length":
            told = "Transfer-Encoding: chunked" if play.framing == "chunked" else "Connection: close"
            writer.write(_head(200, [*headers, told]))

    async def add(self, data: bytes) -> None:
        """Write some of it; where its length is told, it is held until the end."""
        if self._play.framing == "length":
            self._held += data
            return
        size = self._play.chunk_bytes or len(data)
        for at in range(0, len(data), size or 1):
            piece = data[at : at + size]
            self.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._play.framing == "chunked" else piece)
            if self._play.chunk_bytes:
                # The other side reads what is there before more follows.
                await asyncio.sleep(0)
        await self.writer.drain()

    async def end(self) -> None:
        """The body is whole."""
        if self._play.framing == "length":
            self.writer.write(_head(200, [*self._headers, f"Content-Length: {len(self._held)}"]) + self._held)
        elif self._play.framing == "chunked":
            self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()


async def _misbehave(out: _Body, path: str, play: Play, key: str) -> bool:
    """Do what `fault` says in the middle of a stream; whether the stream goes on after it."""
    if play.fault == "hang":
        while True:
            await out.writer.drain()
            await asyncio.sleep(0.01)
            if play.comments:
                await out.add(f": still here{play.newline}{play.newline}".encode())
    if play.fault == "malformed":
        line = f'{{"half": {key}' if key else '{"half":'
        await out.add(f"{line}\n".encode() if path == stub_events.OLLAMA else f"data: {line}\n\n".encode())
    if play.fault == "error":
        words = f"out of memory {key}".strip()
        await out.add(stub_events.on_wire(path, play, {"error": {"message": words, "code": play.status}}))
        await out.end()
        return False
    if play.fault == "torn":
        data = stub_events.on_wire(path, play, stub_events.event(path, play, 3, 4))
        await out.add(data[: data.index("\U0001f642".encode()) + 2])
    if play.fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if play.fault in ("torn", "cut"):
        out.writer.close()
        return False
    return True


def _head(status: int, headers: Sequence[str]) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status} Stub", *headers, "", "")).encode()


def _refuse(writer: asyncio.StreamWriter, play: Play, key: str) -> None:
    body = (play.words or json.dumps({"error": {"message": f"refused by the stub {key}".strip()}})).encode()
    headers = ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    headers += [f"Retry-After: {play.retry_after}"] if play.retry_after else []
    headers += [f"Location: {play.location}{key.replace(' ', '')}"] if play.location else []
    writer.write(_head(play.status, headers) + body)


def _say_whole(writer: asyncio.StreamWriter, play: Play, key: str) -> None:
    message = {"role": "assistant", "content": stub_events.text_of(0, play.tokens) + key}
    told: dict[str, Any] = {"model": "stub", "choices": [{"index": 0, "message": message, "finish_reason": "length"}]}
    if play.usage:
        told["usage"] = {"prompt_tokens": 5, "completion_tokens": play.tokens}
    _say(writer, json.dumps(told).encode())


def _say(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(_head(200, ["Content-Type: application/json", f"Content-Length: {len(body)}"]) + body)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close the connection without a goodbye."""
    taken = writer.get_extra_info("socket")
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


Started = tuple[str, subprocess.Popen[bytes]]


@contextmanager
def started(port: int = 0, *, plays: Mapping[str, Any] | None = None, model: str = "") -> Iterator[Started]:
    """A stub in a process of its own: its address and the process, which is killed at the end; as Stub."""
    command = [sys.executable, "-m", "specq.engines.served.stub", "--port", str(port)]
    command += ["--plays", json.dumps(dict(plays or {})), "--model", model]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"], process
        finally:
            process.kill()


async def _serve_until_told(port: int, plays: Mapping[str, Any], model: str) -> None:
    async with Stub(port=port, plays=plays, model=model) as stub:
        print(json.dumps({"url": stub.url}), flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--plays", type=json.loads, default={}, help="the Play of requests that bring none, as JSON")
    parser.add_argument("--model", default="", help="the only model that it knows")
    given = parser.parse_args()
    asyncio.run(_serve_until_told(given.port, given.plays, given.model))
