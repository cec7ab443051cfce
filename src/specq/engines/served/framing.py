"""HTTP/1.1 replies as a socket gives them: the head, and the body freed of its framing, each piece with its stamp.

Source: RFC 9112, sections 4 (status line), 5 (fields), 6 (length of a body) and 7 (chunks).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MOST_HEAD: Final = 64 * 2**10
"""Bytes that a head, or the line before a chunk, may have; no server that means well sends more."""
_HEX = b"0123456789abcdefABCDEF"
_NO_BODY = (204, 304)
Step = Callable[["Framing", bytes, int, float], int]
"""Takes bytes from a place on, and returns where it came to, or -1 where it needs more than there is."""


class Broken(ValueError):
    """Bytes that are no reply of HTTP/1.1, or one in a form that was asked not to come; the message says how."""


class Framing:
    """One reply while it comes.

    `pieces` are the body's bytes in order, and `stamps` the seconds at which each came off the socket; those of one
    read share a stamp. `status` is 0 until the head is there. Header names are in lower case.
    """

    __slots__ = (
        *("first_s", "headers", "last_s", "pieces", "reusable", "stamps", "status", "surplus", "whole"),
        *("_closes", "_left", "_next", "_rest"),
    )

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.stamps: list[float] = []
        self.first_s: float | None = None
        self.last_s: float | None = None
        self.whole = False
        self.reusable = False
        self.surplus = 0
        self._rest = b""
        self._left = 0
        self._closes = False
        # A function and no bound method: that would be a ring, and the pieces would wait for the garbage collector.
        self._next: Step = Framing._head

    def feed(self, data: bytes, stamp_s: float) -> bool:
        """Take what a read gave; True once the reply is whole.

        Raises:
            Broken: this is no reply that can be read on.
        """
        if self.first_s is None:
            self.first_s = stamp_s
        self.last_s = stamp_s
        data = self._rest + data if self._rest else data
        self._rest = b""
        at, size = 0, len(data)
        while at < size and not self.whole:
            then = self._next(self, data, at, stamp_s)
            if then < 0:
                # What there is ends before something that only stands whole.
                self._rest = data[at:]
                if len(self._rest) > MOST_HEAD:
                    raise Broken(f"{len(self._rest)} bytes without the end of a head or of a chunk's first line")
                break
            at = then
        if self.whole and at < size:
            self.surplus = size - at
            self.reusable = False
        return self.whole

    def end(self) -> bool:
        """The connection was closed; whether that made the reply whole, as where nothing told its length."""
        if self._closes and self.status:
            self.whole = True
        return self.whole

    @property
    def body(self) -> bytes:
        """All of the body that has come."""
        return b"".join(self.pieces)

    def _add(self, piece: bytes, stamp_s: float) -> None:
        self.pieces.append(piece)
        self.stamps.append(stamp_s)

    def _head(self, data: bytes, at: int, stamp_s: float) -> int:
        end = data.find(b"\r\n\r\n", at)
        if end < 0:
            begun = data[at : at + 5]
            if not b"HTTP/".startswith(begun):
                raise Broken("this is no HTTP")
            return -1
        first, *lines = data[at:end].decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        code = rest[:3]
        if version not in ("HTTP/1.1", "HTTP/1.0") or not (code.isascii() and code.isdigit() and len(code) == 3):
            raise Broken("its first line is not of HTTP/1.1")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise Broken("a header has no name")
            name, value = name.lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        if code[0] == "1":
            # An interim answer, such as 100 Continue: the reply is still to come.
            return end + 4
        self.status, self.headers = int(code), headers
        self._length_of(version)
        return end + 4

    def _length_of(self, version: str) -> None:
        """How the end of the body is told: RFC 9112, section 6.3."""
        kept = [one.strip().lower() for one in self.headers.get("connection", "").split(",")]
        self.reusable = "keep-alive" in kept if version == "HTTP/1.0" else "close" not in kept
        coding = self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length")
        if self.status in _NO_BODY:
            self.whole = True
        elif coding:
            if coding != "chunked":
                raise Broken(f"transfer-encoding {coding!r} cannot be read; only chunked can")
            self._next = Framing._size
        elif length is not None:
            # A proxy may have written the same length twice.
            lengths = {one.strip() for one in length.split(",")}
            (one,) = lengths if len(lengths) == 1 else ("",)
            if not (one.isascii() and one.isdigit() and len(one) < 16):
                raise Broken("content-length is no number")
            self._left = int(one)
            self._next = Framing._counted
            self.whole = self._left == 0
        else:
            self._next, self._closes, self.reusable = Framing._rest_of_it, True, False
        packed = self.headers.get("content-encoding", "identity").lower()
        if packed not in ("identity", "") and self.status < 300:
            raise Broken(
                f"the answer is compressed ({packed}), though it was asked not to be: times cannot be told through "
                "compression; switch it off in the server or the proxy before it"
            )

    def _counted(self, data: bytes, at: int, stamp_s: float) -> int:
        piece = data[at : at + self._left]
        self._left -= len(piece)
        self._add(piece, stamp_s)
        self.whole = self._left == 0
        return at + len(piece)

    def _rest_of_it(self, data: bytes, at: int, stamp_s: float) -> int:
        self._add(data[at:], stamp_s)
        return len(data)

    def _size(self, data: bytes, at: int, stamp_s: float) -> int:
        end = data.find(b"\r\n", at)
        if end < 0:
            return -1
        size = data[at:end].partition(b";")[0].strip(b" \t")
        if not size or size.strip(_HEX) or len(size) > 15:
            raise Broken("a chunk has no size")
        self._left = int(size, 16)
        self._next = Framing._chunk if self._left else Framing._trailer
        return end + 2

    def _chunk(self, data: bytes, at: int, stamp_s: float) -> int:
        piece = data[at : at + self._left]
        self._left -= len(piece)
        self._add(piece, stamp_s)
        if not self._left:
            self._next = Framing._chunk_end
        return at + len(piece)

    def _chunk_end(self, data: bytes, at: int, stamp_s: float) -> int:
        if len(data) < at + 2:
            return -1
        if data[at : at + 2] != b"\r\n":
            raise Broken("a chunk is longer than its size")
        self._next = Framing._size
        return at + 2

    def _trailer(self, data: bytes, at: int, stamp_s: float) -> int:
        end = data.find(b"\r\n", at)
        if end < 0:
            return -1
        self.whole = end == at
        return end + 2
