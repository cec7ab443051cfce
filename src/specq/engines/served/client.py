"""Streams requests to one server, many at once in one event loop.

A request's clock starts when its bytes go to the socket, and stops with the event of its last token. Reading what the
bytes say comes after a stream has ended, one stream at a time and in short turns, so that it makes no other one late.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Self

import certifi

import specq
from specq.core import clock
from specq.core.errors import UserError
from specq.engines.served import faults
from specq.engines.served.address import Address, address_of
from specq.engines.served.faults import Fault, Retry
from specq.engines.served.key import Key
from specq.engines.served.reading import Reader, Received
from specq.engines.served.request import Asked, Attempt, Streamed
from specq.engines.served.wire import Connection, Reply, Unreachable, connect

LIMIT_S = 300.0
"""Seconds of silence, before the first event or between two, after which a server is taken to hang."""
_TURN = 16
"""Events that are read before the others have their turn."""


class Client:
    """A client of one server, for one event loop at a time; close it, or use it as an async context manager.

    `base_url` is where the server is, or a function that tells it: that is asked before every try, so that a server
    which came back on another port is found. `key_env` names the environment variable that holds the key. `limit_s` is
    how long the server may be silent. `retry` says what is asked again; load is measured with Retry(tries=1).
    `tls` replaces the certificates that Python trusts. A request that fails is no exception: its Streamed says so.
    """

    def __init__(
        self,
        base_url: str | Callable[[], str],
        *,
        key_env: str | None = None,
        limit_s: float = LIMIT_S,
        retry: Retry | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Nothing is opened yet.

        Raises:
            UserError: the address, the limit or the key's variable is none.
        """
        if not limit_s > 0:
            raise UserError(f"limit_s = {limit_s}: a server must have some time to answer; give seconds above 0")
        self._where = base_url
        self._key = Key(key_env)
        self._limit_s = limit_s
        self._retry = Retry() if retry is None else retry
        self._tls = tls
        self._idle: dict[Address, list[Connection]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        if isinstance(base_url, str):
            address_of(base_url)

    def __repr__(self) -> str:
        return f"Client({self._where!r}, key_env={self._key.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that no request is using; it may be used again."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()
        # A transport is closed in the loop's next turn.
        await asyncio.sleep(0)

    async def stream(self, asked: Asked) -> Streamed:
        """Ask, take the whole answer and read it.

        Raises:
            UserError: the address that a function gave is none.
        """
        return await self.read(await self.receive(asked))

    async def receive(self, asked: Asked) -> Received:
        """Ask and take the whole answer, without reading it: `read` may follow when nothing is timed any more.

        Raises:
            UserError: as for `stream`.
        """
        asked_s = clock.now()
        tries: list[Attempt] = []
        stale = 0
        while True:
            began_s = clock.now()
            reply, fault = await self._try(asked, fresh=stale > 0)
            wait_s: float | None = None
            if fault is not None and fault.kind == "reset" and reply is not None and not reply.connect_s and not stale:
                # A server may close a connection that stood open just as a request goes out on it.
                stale, wait_s = 1, 0.0
            elif fault is not None:
                wait_s = self._retry.wait_s(fault, len(tries) + 1 - stale, asked.id)
            if fault is None or wait_s is None:
                end_s = clock.now() if reply is None else reply.end_s
                return Received(
                    id=asked.id,
                    key=self._key,
                    asked_s=asked_s,
                    end_s=end_s,
                    reply=reply,
                    fault=fault,
                    tries=tuple(tries),
                )
            tries.append(
                Attempt(
                    began_s=began_s,
                    ended_s=clock.now(),
                    error=fault.kind,
                    status=fault.status,
                    said=faults.one_line(fault.said, self._key.hide),
                    waited_s=wait_s,
                )
            )
            await asyncio.sleep(wait_s)

    async def read(self, received: Received) -> Streamed:
        """Read an answer, in turns with everything else that the event loop does."""
        reader = Reader(received)
        # One reader at a time: the turns of many would add up to one long one.
        async with self._turn:
            for step, _ in enumerate(reader.steps(), 1):
                if step % _TURN == 0:
                    await asyncio.sleep(0)
        return reader.streamed()

    async def _try(self, asked: Asked, *, fresh: bool) -> tuple[Reply | None, Fault | None]:
        """One try: the reply, where a connection was there, and what went wrong as far as socket and status tell."""
        address = address_of(self._where if isinstance(self._where, str) else self._where())
        connection = None if fresh else self._standing(address)
        connect_s = 0.0
        if connection is None:
            began_s = clock.now()
            try:
                connection = await connect(address, self._context(address), self._limit_s)
            except Unreachable as error:
                return None, error.fault
            connect_s = clock.now() - began_s
        reply = Reply(connect_s)
        if await connection.exchange(self._request(asked, address), reply, self._limit_s):
            self._idle.setdefault(address, []).append(connection)
        framing = reply.framing
        if framing.status >= 300:
            return reply, faults.of_status(framing.status, framing.headers, framing.body, self._key.hide)
        return reply, reply.fault

    def _standing(self, address: Address) -> Connection | None:
        """A connection that stands open, the one that was used last."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # Those of another loop are dead.
            self._idle.clear()
            self._loop, self._turn = loop, asyncio.Lock()
        connections = self._idle.get(address, [])
        while connections:
            connection = connections.pop()
            if connection.open:
                return connection
        return None

    def _context(self, address: Address) -> ssl.SSLContext | None:
        if address.secure and self._tls is None:
            # The machine's own list of authorities, and the one that comes with httpx: a Python may come with none.
            self._tls = ssl.create_default_context()
            self._tls.load_verify_locations(certifi.where())
        return self._tls

    def _request(self, asked: Asked, address: Address) -> bytes:
        head = (
            f"POST {address.path(asked.path)} HTTP/1.1\r\nHost: {address.authority}\r\n"
            f"User-Agent: specq/{specq.__version__}\r\nAccept: */*\r\nAccept-Encoding: identity\r\n"
            f"Content-Length: {len(asked.body)}\r\n"
        )
        names = {name.lower() for name in asked.headers}
        if "content-type" not in names:
            head += "Content-Type: application/json\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in asked.headers.items())
        return f"{head}{self._key.header()}\r\n".encode("ascii") + asked.body
