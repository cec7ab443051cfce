"""A stream that is cut at any byte, in the middle of a character or not: by the network, and for good."""

from __future__ import annotations

from itertools import pairwise

import pytest

from specq.engines.served import stub_events
from specq.engines.served.faults import Fault
from specq.engines.served.key import Key
from specq.engines.served.reading import Received
from specq.engines.served.request import Streamed
from specq.engines.served.stub_events import CHAT, OLLAMA, PATHS, WORDS, Play, text_of
from specq.engines.served.wire import Reply

CUT = Fault(kind="cut", said="closed")


def wire(path: str, newline: str, tokens: int) -> tuple[bytes, bytes]:
    """Head and body of an answer whose tokens have letters of one, two, three and four bytes."""
    play = Play(tokens=tokens, newline=newline, comments=True)
    events = [stub_events.event(path, play, place, place + 1) for place in range(tokens)]
    events = [*stub_events.opening(path), *events, *stub_events.closing(path, play, "")]
    body = b"".join(stub_events.on_wire(path, play, event) for event in events) + stub_events.done(path, play)
    kind = b"application/x-ndjson" if path == OLLAMA else b"text/event-stream"
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % kind, body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def read(*reads: bytes, fault: Fault | None = None) -> Streamed:
    """What some reads of a socket say, each at the second of its number."""
    reply = Reply(0.0)
    for number, data in enumerate(reads, 1):
        if data:
            reply.framing.feed(data, float(number))
    reply.framing.end()
    return Received(id="r", key=Key(None), asked_s=0.0, end_s=9.0, reply=reply, fault=fault).read()


def letters(body: bytes) -> list[int]:
    """Places inside letters of more than one byte."""
    return [place for place in range(1, len(body)) if body[place] & 0xC0 == 0x80]


@pytest.mark.parametrize("path", PATHS)
def test_a_letter_that_two_chunks_or_reads_share_is_lost(path: str) -> None:
    head, body = wire(path, "\r\n", len(WORDS))
    inside = letters(body)
    # One, two and three places; a server that repeats its text says them again and again.
    assert len(inside) >= 1 + 2 + 3
    for place in inside:
        whole = head + chunk(body[:place]) + chunk(body[place:]) + b"0\r\n\r\n"
        reads = (head + chunk(body[:place]), chunk(body[place:]) + b"0\r\n\r\n")
        for found in (read(whole), read(*reads)):
            assert (found.error, found.text, found.tokens) == (None, text_of(0, len(WORDS)), len(WORDS)), place
            assert (found.malformed, found.torn_bytes) == (0, 0), place


@pytest.mark.parametrize(("path", "newline"), [(CHAT, "\r\n"), (OLLAMA, "\n")])
def test_a_stream_that_ends_at_some_byte_loses_whole_events_or_shows_half_ones(path: str, newline: str) -> None:
    head, body = wire(path, newline, len(WORDS))
    last = 0
    for place in range(len(body) - 1):
        found = read(head + chunk(body[:place]), fault=CUT)
        count = len(found.event_s)
        # Tokens come one by one as the cut moves on, never half a one, and no half event is called malformed.
        assert count - last in (0, 1), place
        assert (found.text, found.malformed) == (text_of(0, count), 0), place
        assert found.tokens == (count or None) or found.counted == "usage", place
        if body[place] & 0xC0 == 0x80:
            assert (found.error, found.torn_bytes > 0) == ("cut", True), place
        last = count
    assert last == len(WORDS)


def test_an_event_has_the_time_of_its_first_byte_or_of_the_next_event() -> None:
    head, body = wire(CHAT, "\n", 2)
    ends = [
        place + 2 for place in range(len(body)) if body[place : place + 2] == b"\n\n" and body[place - 1] == ord("}")
    ]
    for place in range(1, len(body)):
        found = read(head + chunk(body[:place]), chunk(body[place:]) + b"0\r\n\r\n")
        # The first event is the role: it has no token. A comment stands before each event.
        assert found.event_s == tuple(1.0 if end <= place else 2.0 for end in ends[1:3]), place


def test_a_letter_is_lost_where_every_byte_comes_alone() -> None:
    for path in PATHS:
        head, body = wire(path, "\r\n", len(WORDS))
        data = head + b"".join(chunk(body[first:after]) for first, after in pairwise(range(len(body) + 1)))
        found = read(*(bytes((one,)) for one in data + b"0\r\n\r\n"))
        assert (found.error, found.text) == (None, text_of(0, len(WORDS)))
