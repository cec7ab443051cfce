"""HTTP's framing taken off a reply, wherever the network cuts it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from specq.engines.served.framing import MOST_HEAD, Broken, Framing

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
# Chunks cut an event, a letter of four bytes and a line end; one has an extension, and a trailer stands at the end.
CHUNKED = (
    HEAD
    + b"8\r\ndata: {}\r\n1\r\n\n\r\n"
    + b"7;a=b\r\n\ndata: \r\n2\r\n\xf0\x9f\r\n4\r\n\x99\x82\n\n\r\n0\r\nX-End: 1\r\n\r\n"
)
BODY = b"data: {}\n\ndata: \xf0\x9f\x99\x82\n\n"


def fed(data: bytes, *cuts: int) -> Framing:
    """The reply that is read in the parts between some places; the stamp of a part is its number."""
    framing = Framing()
    for number, (first, after) in enumerate(pairwise((0, *cuts, len(data)))):
        framing.feed(data[first:after], float(number))
    return framing


def test_a_chunked_body_is_read_wrong_where_two_reads_cut_it() -> None:
    for cut in range(1, len(CHUNKED)):
        framing = fed(CHUNKED, cut)
        assert (framing.status, framing.body, framing.whole) == (200, BODY, True), cut
        # No byte of the body has the stamp of a read that it did not come with.
        before = Framing()
        before.feed(CHUNKED[:cut], 0.0)
        assert b"".join(p for p, s in zip(framing.pieces, framing.stamps, strict=True) if s == 0.0) == before.body
        assert not before.whole, cut


def test_a_chunked_body_is_read_wrong_byte_by_byte() -> None:
    framing = fed(CHUNKED, *range(1, len(CHUNKED)))
    assert (framing.body, framing.whole, framing.first_s, framing.last_s) == (BODY, True, 0.0, float(len(CHUNKED) - 1))
    assert framing.headers["content-type"] == "text/event-stream"


def test_an_event_is_cut_by_chunks_at_some_place_and_lost() -> None:
    event = 'data: {"a": "\u20ac"}\r\n\r\n'.encode()
    for cut in range(1, len(event)):
        parts = (event[:cut], event[cut:])
        wire = HEAD + b"".join(b"%X\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        framing = fed(wire)
        assert (framing.body, framing.whole, framing.reusable) == (event, True, True), cut


def test_a_body_of_told_length_ends_too_early_or_too_late() -> None:
    data = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
    for cut in range(1, len(data)):
        framing = fed(data, cut)
        assert (framing.body, framing.whole, framing.reusable) == (b"hello", True, True), cut
    assert not fed(data[:-1]).whole
    assert not fed(data[:-1]).end()
    assert fed(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").whole
    assert fed(b"HTTP/1.1 204 No\r\n\r\n").whole


def test_a_body_that_ends_with_the_connection_is_taken_for_cut() -> None:
    framing = fed(b"HTTP/1.1 200 OK\r\n\r\nhel", 21)
    framing.feed(b"lo", 2.0)
    assert not framing.whole
    assert framing.end()
    assert (framing.body, framing.reusable) == (b"hello", False)
    assert not fed(b"HTTP/1.1 200 OK\r\n").end()


@pytest.mark.parametrize("last", [HEAD, CHUNKED[:-1], CHUNKED[:-10]])
def test_a_chunked_body_that_the_connection_cuts_is_taken_for_whole(last: bytes) -> None:
    assert not fed(last).end()


def test_bytes_after_the_end_are_read_as_the_next_reply() -> None:
    framing = fed(CHUNKED + b"HTTP/1.1 200 OK\r\n")
    assert (framing.body, framing.whole, framing.surplus, framing.reusable) == (BODY, True, 17, False)


@pytest.mark.parametrize(
    ("head", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 \r\nContent-Length: 0, 0\r\n\r\n", True),
    ],
)
def test_a_connection_is_used_again_that_the_server_closes(head: bytes, reusable: bool) -> None:
    assert fed(head).reusable is reusable


def test_an_interim_answer_is_taken_for_the_reply() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    for cut in range(1, len(interim)):
        assert fed(interim + CHUNKED, cut).body == BODY


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "no HTTP"),
        (b"HTTP/2 200\r\n\r\n", "not of HTTP/1.1"),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", "not of HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "a header has no name"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n", "content-length is no number"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "content-length is no number"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "only chunked can"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", "the answer is compressed \\(gzip\\)"),
        (HEAD + b"-1\r\n", "a chunk has no size"),
        (HEAD + b"0x5\r\nhello\r\n", "a chunk has no size"),
        (HEAD + b"1_0\r\n", "a chunk has no size"),
        (HEAD + b"\r\n", "a chunk has no size"),
        (HEAD + b"2\r\nhello\r\n", "longer than its size"),
        (HEAD + b"1" * (MOST_HEAD + 1), "without the end of a head or of a chunk's first line"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * MOST_HEAD, "without the end of a head"),
    ],
)
def test_what_is_no_reply_is_read_as_one(data: bytes, why: str) -> None:
    with pytest.raises(Broken, match=why):
        fed(data)


def test_a_refusal_that_is_compressed_loses_its_status() -> None:
    assert fed(b"HTTP/1.1 502 Bad\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b").status == 502
