"""Events out of a body's bytes, wherever the pieces end, with the stamp of the piece that completed each."""

from __future__ import annotations

import pytest

from specq.engines.served.events import Event, JsonLines, OneValue, ServerSent, Splitter, splitter

TEXT = (
    ': a comment\n\ndata: {"a": "\u20ac\U0001f642"}\n\nevent: x\nid: 7\nretry: 10\ndata:{"b":\ndata:  1}\n\n'
    "\n:\n\ndata\n\ndata: [DONE]\n\n"
)
EVENTS = ['{"a": "\u20ac\U0001f642"}'.encode(), b'{"b":\n 1}', b"[DONE]"]
ENDS = {"LF": "\n", "CR LF": "\r\n", "CR": "\r"}


def split(one: Splitter, *pieces: bytes) -> list[Event]:
    """The events of some pieces; the stamp of a piece is its number."""
    return [event for number, piece in enumerate(pieces) for event in one.feed(piece, float(number))]


def whole_events(body: bytes) -> list[tuple[bytes, int]]:
    """The slow twin: data of each event and where it is complete, from all of the body at once."""
    found, data, at = [], [], 0
    while at < len(body):
        ends = [place for end in (b"\n", b"\r") if (place := body.find(end, at)) >= 0]
        if not ends:
            break
        line, after = body[at : min(ends)], min(ends) + 1
        if not line and any(data):
            found.append((b"\n".join(data), after))
        data = data if line else []
        if line.partition(b":")[0] == b"data":
            data.append(line.partition(b":")[2].removeprefix(b" "))
        at = after + (body[after - 1 : after + 1] == b"\r\n")
    return found


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_event_is_lost_or_stamped_wrong_where_two_reads_cut_it(end: str) -> None:
    body = TEXT.replace("\n", end).encode()
    twin = whole_events(body)
    assert [data for data, _ in twin] == EVENTS
    for cut in range(len(body) + 1):
        found = split(ServerSent(), body[:cut], body[cut:])
        assert [event.data for event in found] == EVENTS, cut
        assert [event.stamp_s for event in found] == [float(after > cut) for _, after in twin], cut


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_event_is_lost_where_three_reads_cut_it(end: str) -> None:
    body = f"data: \u20ac{end}{end}data: [DONE]{end}{end}".encode()
    for first in range(len(body) + 1):
        for second in range(first, len(body) + 1):
            found = split(ServerSent(), body[:first], body[first:second], body[second:])
            assert [event.data for event in found] == ["\u20ac".encode(), b"[DONE]"], (first, second)


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_event_is_lost_byte_by_byte(end: str) -> None:
    body = TEXT.replace("\n", end).encode()
    found = split(ServerSent(), *(body[at : at + 1] for at in range(len(body))))
    assert [(event.data, int(event.stamp_s) + 1) for event in found] == whole_events(body)


def test_a_mark_of_byte_order_hides_the_first_event() -> None:
    body = b"\xef\xbb\xbfdata: 1\n\n"
    for cut in range(len(body)):
        assert [event.data for event in split(ServerSent(), body[:cut], body[cut:])] == [b"1"]


def test_a_last_event_without_its_blank_line_is_lost_at_a_good_end_or_kept_at_a_bad_one() -> None:
    for body in (b"data: [DONE]", b"data: [DONE]\n", b"data: [DONE]\r\n", b"data: [DONE]\r"):
        one = ServerSent()
        assert split(one, body) == []
        assert one.torn_bytes > 0
        assert one.end(9.0) == [Event(b"[DONE]", 9.0)]
        assert one.torn_bytes == 0
    one = ServerSent()
    assert [event.data for event in split(one, b"data: 1\n\n")] == [b"1"]
    assert one.end(9.0) == []


def test_bytes_of_an_event_that_was_cut_are_not_counted() -> None:
    one = ServerSent()
    split(one, b"data: 1\n\ndata: 22\ndata: \xf0\x9f")
    assert one.torn_bytes == len(b"22") + len(b"data: \xf0\x9f")


def test_a_failure_under_another_name_is_read_as_silence() -> None:
    assert [event.data for event in split(ServerSent(), b'error: {"code":500}\n\n')] == [b'{"code":500}']


def test_a_line_of_json_is_lost_where_two_reads_cut_it() -> None:
    body = '{"a": "\u20ac"}\r\n\n{"b": 1}\n{"c": "\\r"}'.encode()
    for cut in range(len(body) + 1):
        one = JsonLines()
        found = split(one, body[:cut], body[cut:])
        assert [event.data for event in found] == ['{"a": "\u20ac"}'.encode(), b'{"b": 1}'], cut
        assert found[0].stamp_s == float(cut < body.index(b"\n") + 1)
        assert one.torn_bytes == len(b'{"c": "\\r"}')
        assert one.end(9.0) == [Event(b'{"c": "\\r"}', 9.0)]


def test_a_carriage_return_inside_a_line_of_json_ends_it() -> None:
    assert [event.data for event in split(JsonLines(), b'{"a":\r 1}\n')] == [b'{"a":\r 1}']


def test_an_answer_that_is_not_streamed_has_an_event_before_its_end() -> None:
    one = OneValue()
    assert split(one, b' {"a"', b": 1}\n") == []
    assert one.end(2.0) == [Event(b'{"a": 1}', 2.0)]
    assert OneValue().end(2.0) == []


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ("text/event-stream; charset=utf-8", ServerSent),
        ("Application/X-NDJSON", JsonLines),
        ("application/json; charset=utf-8", OneValue),
        ("", ServerSent),
        ("text/plain", ServerSent),
    ],
)
def test_a_body_is_split_as_another_form(told: str, kind: type) -> None:
    assert type(splitter(told)) is kind
