"""From a body's bytes to its events, each with the stamp of the piece that completed it.

Three forms: server-sent events (`data:` lines, https://html.spec.whatwg.org/multipage/server-sent-events.html), JSON
values a line, and one JSON value that is the whole body. Bytes become text only once an event is whole, so that no
place where the network cut them matters.
"""

from __future__ import annotations

from typing import NamedTuple

DONE = b"[DONE]"
"""The data of the event that servers of OpenAI's API send last."""
_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """The data of an event, and the seconds at which its last byte came."""

    data: bytes
    stamp_s: float


class _Lines:
    """Whole lines out of pieces. A line ends with LF, with CR, or with both, which may be cut in between."""

    __slots__ = ("_after_cr", "_carry", "_cr")

    def __init__(self, *, cr: bool) -> None:
        self._carry: list[bytes] = []
        self._after_cr = False
        self._cr = cr

    def take(self, piece: bytes) -> list[bytes]:
        """The lines that this piece completed, without their ends."""
        if self._after_cr and piece[:1] == b"\n":
            piece = piece[1:]
            self._after_cr = False
        if not piece:
            return []
        ended = piece[-1:] == b"\n" or (self._cr and piece[-1:] == b"\r")
        self._after_cr = self._cr and piece[-1:] == b"\r"
        # For bytes, splitlines knows CR, LF and CR LF, and no other end.
        lines = piece.splitlines() if self._cr else piece.split(b"\n")
        if not self._cr and ended:
            lines.pop()
        if len(lines) == 1 and not ended:
            self._carry.append(piece)
            return []
        if self._carry:
            lines[0] = b"".join(self._carry) + lines[0]
            self._carry = []
        if not ended:
            self._carry = [lines.pop()]
        return lines

    @property
    def rest(self) -> bytes:
        """What came after the last whole line."""
        return b"".join(self._carry)


class ServerSent:
    """Splits server-sent events: comments, ids and retry times are left out, several `data:` lines are one event."""

    __slots__ = ("_begun", "_data", "_lines", "_read")

    def __init__(self) -> None:
        self._lines = _Lines(cr=True)
        self._data: list[bytes] = []
        self._begun = False
        self._read = 0

    def feed(self, piece: bytes, stamp_s: float) -> list[Event]:
        """The events that this piece completed."""
        found = []
        for line in self._lines.take(piece):
            if not self._begun:
                self._begun = True
                line = line.removeprefix(_BOM)
            if not line:
                data = b"\n".join(self._data)
                self._data = []
                # An event with nothing in it keeps the connection awake, as a comment does.
                if data:
                    found.append(Event(data, stamp_s))
                continue
            name, _, value = line.partition(b":")
            # Some servers name the field of a failure `error`, and its value is what data would be.
            if name in (b"data", b"error"):
                self._data.append(value.removeprefix(b" "))
        return found

    def end(self, stamp_s: float) -> list[Event]:
        """The body ended as it should: the event that a server may have left without its blank line."""
        return [*self.feed(b"\n", stamp_s), *self.feed(b"\n", stamp_s)]

    @property
    def torn_bytes(self) -> int:
        """Bytes of an event that has begun and is not whole."""
        return sum(map(len, self._data)) + len(self._lines.rest)


class JsonLines:
    """Splits JSON values that stand on a line each."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines = _Lines(cr=False)

    def feed(self, piece: bytes, stamp_s: float) -> list[Event]:
        """The events that this piece completed."""
        return [Event(line, stamp_s) for line in map(bytes.strip, self._lines.take(piece)) if line]

    def end(self, stamp_s: float) -> list[Event]:
        """The body ended as it should: its last line may have no end."""
        return self.feed(b"\n", stamp_s)

    @property
    def torn_bytes(self) -> int:
        """Bytes of a line that has begun and is not whole."""
        return len(self._lines.rest)


class OneValue:
    """A body that is one JSON value, as a server sends it that does not stream."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, piece: bytes, stamp_s: float) -> list[Event]:
        """Nothing: the value ends with the body."""
        self._pieces.append(piece)
        return []

    def end(self, stamp_s: float) -> list[Event]:
        """The value."""
        data = b"".join(self._pieces).strip()
        self._pieces = []
        return [Event(data, stamp_s)] if data else []

    @property
    def torn_bytes(self) -> int:
        """Bytes that have come of it."""
        return sum(map(len, self._pieces))


Splitter = ServerSent | JsonLines | OneValue


def splitter(content_type: str) -> Splitter:
    """What splits a body of a media type: a server that names none is taken to send events."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json":
        return OneValue()
    if kind in ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-lines"):
        return JsonLines()
    return ServerSent()
