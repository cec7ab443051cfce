"""One connection to a server: a request goes out, and every read of the reply is stamped as it comes off the socket.

Nothing is parsed here but where the reply ends, so that the time between a byte's arrival and its stamp is the event
loop's own and no more. A slow reader of one stream would make all others late.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from typing import cast

from specq.core import clock
from specq.engines.served.address import Address
from specq.engines.served.events import Event, Splitter, splitter
from specq.engines.served.faults import Fault
from specq.engines.served.framing import Broken, Framing
from specq.engines.served.scheme import HANDSHAKE_S, use_http

_TLS = (b"\x15\x03", b"\x16\x03")
"""How a record of TLS begins that is an alert or a handshake."""
_AT_ONCE = 64
"""Pieces that are split into events in one go."""


class Unreachable(Exception):
    """No connection came about; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.said)
        self.fault = fault


class Reply:
    """What a connection gave for one request, and when. `fault` is how the connection failed it, None where not."""

    __slots__ = ("_ended", "_events", "_split", "_splitter", "connect_s", "end_s", "fault", "framing", "sent_s")

    def __init__(self, connect_s: float) -> None:
        self.connect_s = connect_s
        self.sent_s = self.end_s = 0.0
        self.framing = Framing()
        self.fault: Fault | None = None
        self._events: list[Event] = []
        self._splitter: Splitter | None = None
        self._split = 0
        self._ended = False

    def events(self) -> Iterator[Event]:
        """The events of the body in order, each split when it is asked for."""
        at = 0
        while True:
            while at < len(self._events):
                yield self._events[at]
                at += 1
            if not self._split_more():
                return

    def heard_s(self) -> float:
        """When the last event came, or the request went out: comments and blank lines are silence."""
        while self._split_more():
            pass
        return self._events[-1].stamp_s if self._events else self.sent_s

    @property
    def torn_bytes(self) -> int:
        """Bytes of the body after its last whole event, once all events have been taken."""
        return 0 if self._splitter is None else self._splitter.torn_bytes

    def _split_more(self) -> bool:
        """Split some of the pieces that have come; whether there was anything to do."""
        framing = self.framing
        if not framing.status:
            return False
        if self._splitter is None:
            self._splitter = splitter(framing.headers.get("content-type", ""))
        pieces = framing.pieces[self._split : self._split + _AT_ONCE]
        if pieces:
            stamps = framing.stamps[self._split : self._split + _AT_ONCE]
            for piece, stamp_s in zip(pieces, stamps, strict=True):
                self._events += self._splitter.feed(piece, stamp_s)
            self._split += len(pieces)
            return True
        if framing.whole and not self._ended:
            self._ended = True
            self._events += self._splitter.end(framing.last_s or self.sent_s)
            return True
        return False


class Connection(asyncio.Protocol):
    """A connection that carries one request after another. What comes unasked closes it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reply: Reply | None = None
        self._done: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._limit_s = 0.0

    @property
    def open(self) -> bool:
        """Whether a request can go out on it."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes, reply: Reply, limit_s: float) -> bool:
        """Send a request and take its reply; whether another request may follow on this connection.

        Silence of `limit_s` seconds, before the first event or between two, ends it. Where this is cancelled, the
        connection is closed and what came is in `reply`.
        """
        if self._transport is None:
            raise RuntimeError("the connection is closed")
        loop = asyncio.get_running_loop()
        self._reply, self._limit_s = reply, limit_s
        self._done = loop.create_future()
        self._timer = loop.call_later(limit_s, self._watch)
        reply.sent_s = clock.now()
        self._transport.write(request)
        again = False
        try:
            await self._done
            again = reply.fault is None and reply.framing.reusable and self.open
            return again
        finally:
            self._timer.cancel()
            self._reply = None
            if not again:
                self.close()

    def close(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """For asyncio."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """For asyncio: bytes have come off the socket."""
        stamp_s = clock.now()
        reply = self._reply
        if reply is None:
            self.close()
            return
        try:
            if reply.framing.feed(data, stamp_s):
                self._finish(reply, stamp_s, None)
        except Broken as error:
            if data.startswith(_TLS):
                said = "the server answers with TLS; write https:// in its address in place of http://"
                self._finish(reply, stamp_s, Fault(kind="tls", said=said))
                return
            self._finish(reply, stamp_s, Fault(kind="malformed", said=f"no reply that can be read: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """For asyncio: the other side, or this one, has closed it."""
        self._transport = None
        reply = self._reply
        if reply is None:
            return
        why = "" if exc is None else f": {_why(exc)}"
        if reply.framing.end():
            fault = None
        elif reply.framing.first_s is None:
            fault = Fault(kind="reset", said=f"the server closed the connection without a reply{why}")
        else:
            fault = Fault(kind="cut", said=f"the server closed the connection before the end of its reply{why}")
        self._finish(reply, clock.now(), fault)

    def _watch(self) -> None:
        """Look whether the server has been silent for too long: only now, and not with every read."""
        reply = self._reply
        if reply is None:
            return
        left = reply.heard_s() + self._limit_s - clock.now()
        if left > 0:
            self._timer = asyncio.get_running_loop().call_later(left, self._watch)
            return
        what = "the first event" if reply.heard_s() == reply.sent_s else "the next event"
        said = f"{what} did not come within the limit of {self._limit_s:g} s; raise limit_s if it may take longer"
        self._finish(reply, clock.now(), Fault(kind="hung", said=said))

    def _finish(self, reply: Reply, end_s: float, fault: Fault | None) -> None:
        reply.end_s, reply.fault = end_s, fault
        self._reply = None
        if self._done is not None and not self._done.done():
            self._done.set_result(None)


async def connect(address: Address, tls: ssl.SSLContext | None, limit_s: float) -> Connection:
    """Open a connection within `limit_s` seconds; over TLS where the address says so.

    Raises:
        Unreachable: there is none.
    """
    loop = asyncio.get_running_loop()
    where = address.authority
    try:
        async with asyncio.timeout(limit_s):
            _, connection = await loop.create_connection(
                Connection,
                address.host,
                address.port,
                ssl=tls if address.secure else None,
                ssl_handshake_timeout=min(limit_s, HANDSHAKE_S) if address.secure else None,
            )
    except TimeoutError:
        raise Unreachable(
            Fault(kind="hung", said=f"no connection to {where} within the limit of {limit_s:g} s")
        ) from None
    except ssl.SSLError as error:
        said = f"no secure connection to {where}: {_why(error)}"
        if not isinstance(error, ssl.SSLCertVerificationError) and "ALERT" not in (error.reason or ""):
            said += f"; {use_http(where)}"
        raise Unreachable(Fault(kind="tls", said=said)) from None
    except OSError as error:
        if address.secure and isinstance(error, ConnectionAbortedError):
            # So asyncio says that the handshake took too long.
            within = f"no TLS handshake with {where} within {min(limit_s, HANDSHAKE_S):g} s"
            raise Unreachable(Fault(kind="tls", said=f"{within}; {use_http(where)}")) from None
        raise Unreachable(Fault(kind="refused", said=f"no connection to {where}: {_why(error)}")) from None
    return connection


def _why(error: Exception) -> str:
    """The reason in an error of the system, in its own words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    if isinstance(error, socket.gaierror):
        return f"the name is not known ({error.strerror})"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
