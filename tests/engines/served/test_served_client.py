"""What a client makes of a server that misbehaves: all that came is kept, nothing twice, and every retry is counted."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import virtual_time
from served_runs import AT_ONCE, asked, streamed, with_stub

from specq.core import clock
from specq.core.errors import UserError
from specq.engines.served.client import Client
from specq.engines.served.faults import Retry
from specq.engines.served.launch import free_port
from specq.engines.served.request import Asked, Streamed
from specq.engines.served.stub import Stub
from specq.engines.served.stub_events import CHAT, OLLAMA, PATHS, TEXT, text_of

# Silence is counted in virtual time: on a busy machine an event that is on its way may take longer than the limit.
SHORT = {"limit_s": 0.1, "run": virtual_time.run}


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("chunk_bytes", [0, 1, 7])
def test_a_stream_is_read_wrong_over_a_socket(framing: str, newline: str, chunk_bytes: int) -> None:
    found = streamed(tokens=6, framing=framing, newline=newline, chunk_bytes=chunk_bytes, comments=True)
    assert (found.error, found.text, found.tokens, found.torn_bytes) == (None, text_of(0, 6), 6, 0)
    assert found.events == 1 + 6 + 3


def test_many_streams_at_once_get_each_others_events() -> None:
    async def work(stub: Stub, client: Client) -> list[Streamed]:
        paths = [PATHS[number % len(PATHS)] for number in range(40)]
        several = [asked(path, id=f"r{n}", tokens=1 + n, ids=True) for n, path in enumerate(paths)]
        return await asyncio.gather(*map(client.stream, several))

    for number, found in enumerate(with_stub(work)):
        assert (found.id, found.error, found.text) == (f"r{number}", None, text_of(0, 1 + number))


def test_a_connection_is_opened_for_every_request() -> None:
    async def work(stub: Stub, client: Client) -> tuple[int, list[Streamed]]:
        return 0, [await client.stream(asked(path)) for path in PATHS]

    async def counted(stub: Stub, client: Client) -> tuple[int, list[Streamed]]:
        _, found = await work(stub, client)
        return stub.connections, found

    connections, found = with_stub(counted)
    assert connections == 1
    assert found[0].connect_s
    assert [one.connect_s for one in found[1:]] == [0.0] * 4


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_server_is_given_up_or_its_refusals_are_hidden(status: int) -> None:
    async def work(stub: Stub, client: Client) -> tuple[int, Streamed]:
        found = await client.stream(asked(fault="status", status=status, times=2, key="k"))
        return len(stub.heard), found

    heard, found = with_stub(work)
    assert heard == 3
    assert (found.error, found.text, found.retries, found.status) == (None, text_of(0, 8), 2, 200)
    kind = "http_429" if status == 429 else "http_5xx"
    assert [(one.error, one.status) for one in found.tries] == [(kind, status)] * 2
    assert found.tries[0].said == f"HTTP {status}: refused by the stub"
    assert found.asked_s <= found.tries[0].began_s <= found.tries[0].ended_s <= found.tries[1].began_s
    assert found.sent_s is not None
    assert found.tries[1].ended_s <= found.sent_s


def test_a_refusal_is_asked_again_without_end() -> None:
    async def work(stub: Stub, client: Client) -> tuple[int, Streamed]:
        found = await client.stream(asked(fault="status", status=503))
        return len(stub.heard), found

    heard, found = with_stub(work)
    assert (heard, found.retries, found.error, found.said) == (4, 3, "http_5xx", "HTTP 503: refused by the stub")
    assert (found.tokens, found.text, found.first_token_s) == (None, "", None)
    heard, found = with_stub(work, retry=Retry(tries=1))
    assert (heard, found.retries, found.error) == (1, 0, "http_5xx")


def test_the_wait_that_a_server_asks_for_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", noted)
    found = streamed(fault="status", status=429, retry_after="7", times=1)
    assert 7.0 in waits
    assert [one.waited_s for one in found.tries] == [7.0]
    found = streamed(fault="status", status=429, retry_after="3600")
    assert (found.error, found.retries) == ("http_429", 0)
    assert found.said == "HTTP 429: refused by the stub (asked to wait 3600 s)"
    assert 3600.0 not in waits


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "http_4xx"), (401, "http_4xx"), (404, "http_4xx"), (501, "http_5xx")]
)
def test_what_will_not_pass_is_asked_again(status: int, kind: str) -> None:
    found = streamed(fault="status", status=status)
    assert (found.error, found.retries, found.status) == (kind, 0, status)


def test_a_wrong_model_is_told_in_other_words_than_the_servers() -> None:
    words = json.dumps({"error": {"message": "The model `x`\n does not exist.", "code": 404}})
    found = streamed(fault="status", status=404, words=words)
    assert (found.error, found.said) == ("wrong_model", "HTTP 404: The model `x` does not exist.")
    found = with_stub(lambda stub, client: client.stream(Asked(id="r", path="/nowhere", body=b"{}")))
    assert (found.error, found.said) == ("http_4xx", "HTTP 404: Not Found: /nowhere")


def test_a_redirect_is_followed() -> None:
    found = streamed(fault="status", status=307, location="http://127.0.0.1:1/elsewhere")
    assert (found.error, found.retries) == ("http_3xx", 0)
    assert "redirects to http://127.0.0.1:1/elsewhere; redirects are not followed" in found.said


def test_a_compressed_answer_is_taken() -> None:
    async def work(stub: Stub, client: Client) -> tuple[str, Streamed]:
        found = await client.stream(asked(fault="gzip", after=99))
        return stub.heard[0].headers["accept-encoding"], found

    accepts, found = with_stub(work)
    assert accepts == "identity"
    assert (found.error, found.events) == ("malformed", 0)
    assert "the answer is compressed (gzip)" in found.said


@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_what_came_before_a_cut_is_lost_or_asked_for_again(framing: str) -> None:
    async def work(stub: Stub, client: Client) -> tuple[int, Streamed]:
        found = await client.stream(asked(fault="cut", after=3, framing=framing, ids=True))
        return len(stub.heard), found

    heard, found = with_stub(work)
    assert (heard, found.error, found.retries) == (1, "cut", 0)
    assert (found.text, found.tokens, found.token_ids, found.counted) == (text_of(0, 3), 3, (0, 1, 2), "ids")
    assert (found.finish, found.usage, found.notes) == (None, None, ())
    assert len(found.event_s) == 3
    assert found.tpot_s is not None


@pytest.mark.parametrize("path", [CHAT, OLLAMA])
def test_half_a_letter_is_kept_or_breaks_the_reading(path: str) -> None:
    found = streamed(path, fault="torn", after=3)
    assert (found.error, found.text, found.malformed) == ("cut", text_of(0, 3), 0)
    assert found.torn_bytes > 20


@pytest.mark.parametrize("path", [CHAT, OLLAMA])
def test_a_malformed_event_loses_the_others_or_is_not_told(path: str) -> None:
    found = streamed(path, fault="malformed", after=2)
    assert (found.error, found.malformed, found.text) == ("malformed", 1, text_of(0, 8))
    assert (found.finish, found.tokens) == ("length", 8)
    number = 3 + (path == CHAT)
    assert found.said.startswith(f"event {number} of the stream is not JSON: ")
    assert found.said.endswith("'{\"half\":'")


def test_a_failure_in_the_middle_of_a_stream_is_read_as_its_end() -> None:
    found = streamed(fault="error", after=2, status=500)
    assert (found.error, found.said) == ("http_5xx", "the server broke off: out of memory")
    assert (found.text, found.status, found.retries) == (text_of(0, 2), 200, 0)


@pytest.mark.parametrize(
    ("play", "events"),
    [
        ({"framing": "length"}, 0),
        ({"framing": "chunked"}, 1),
        ({"framing": "chunked", "after": 3}, 4),
        ({"framing": "chunked", "after": 3, "comments": True}, 4),
    ],
    ids=["before the first byte", "before the first token", "between two events", "with comments in between"],
)
def test_a_server_that_hangs_is_waited_for(play: dict[str, Any], events: int) -> None:
    found = streamed(how=SHORT, fault="hang", **play)
    assert (found.error, found.events, found.retries) == ("hung", events, 0)
    assert found.text == text_of(0, play.get("after", 0))
    what = "the next event" if events else "the first event"
    assert found.said == f"{what} did not come within the limit of 0.1 s; raise limit_s if it may take longer"
    assert (found.first_byte_s is None) is (events == 0)


def test_a_slow_answer_is_taken_for_a_hang() -> None:
    found = streamed(how=SHORT | {"limit_s": 0.2}, tokens=5, rate=10.0)
    assert (found.error, found.tokens) == (None, 5)
    assert found.e2e_s is not None
    assert found.e2e_s > 0.2


def test_a_closed_door_is_not_asked_again_or_its_tries_are_hidden() -> None:
    async def work(stub: Stub, client: Client) -> tuple[int, Streamed]:
        found = await client.stream(asked(fault="reset", times=2))
        return len(stub.heard), found

    heard, found = with_stub(work)
    assert (heard, found.error, [one.error for one in found.tries]) == (3, None, ["reset", "reset"])
    assert found.text == text_of(0, 8)


def test_nobody_at_the_door_is_an_exception() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    found = asyncio.run(Client(url, retry=AT_ONCE).stream(asked()))
    assert (found.error, found.retries, found.status, found.sent_s, found.events) == ("refused", 3, None, None, 0)
    assert found.said.startswith(f"no connection to {url.removeprefix('http://')}: ")
    found = asyncio.run(Client("http://no.such.host.invalid", retry=AT_ONCE).stream(asked()))
    assert (found.error, found.tokens) == ("refused", None)


def test_a_connection_that_stood_open_and_was_closed_fails_the_next_request() -> None:
    async def work(stub: Stub, client: Client) -> Streamed:
        await client.stream(asked())
        # The server closes it just as the request is on its way.
        return await client.stream(asked(fault="reset", times=1, key="once"))

    found = with_stub(work, retry=Retry(tries=1))
    assert (found.error, found.text, [one.error for one in found.tries]) == (None, text_of(0, 8), ["reset"])


def test_late_bytes_of_a_request_are_read_as_the_answer_of_the_next() -> None:
    async def work(stub: Stub, client: Client) -> tuple[int, Streamed, Streamed]:
        late = await client.stream(asked(id="late", tokens=4, rate=5.0))
        return stub.connections, late, await client.stream(asked(TEXT, id="next", tokens=2))

    connections, late, then = with_stub(work, **SHORT)
    assert (late.error, late.text) == ("hung", text_of(0, 1))
    assert (then.error, then.text, then.tokens) == (None, text_of(0, 2), 2)
    assert connections == 1


def test_a_request_that_is_cancelled_leaves_its_connection_in_use() -> None:
    async def work(stub: Stub, client: Client) -> Streamed:
        task = asyncio.create_task(client.stream(asked(fault="hang", after=2)))
        while not stub.heard:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        found = await client.stream(asked(tokens=3))
        assert stub.connections == 2
        return found

    assert with_stub(work).text == text_of(0, 3)


def test_a_clock_that_jumps_moves_times(monkeypatch: pytest.MonkeyPatch) -> None:
    real, jumps = time.time, iter(range(10**6))
    monkeypatch.setattr(time, "time", lambda: real() + (-1) ** next(jumps) * 1e6)
    found = streamed(tokens=5, rate=200.0)
    stamps = (found.asked_s, found.sent_s, found.first_byte_s, *found.event_s, found.end_s, clock.now())
    assert list(stamps) == sorted(stamps)
    assert found.e2e_s is not None
    assert 0.0 < found.e2e_s < 60.0


def test_a_stamp_is_of_another_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[[], float] = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + 1e9)
    found = streamed(tokens=3, fault="status", status=503, times=1)
    stamps = [found.asked_s, found.sent_s, found.first_byte_s, found.end_s, *found.event_s, found.tries[0].ended_s]
    assert all(stamp is not None and stamp > 1e9 for stamp in stamps)


def test_an_answer_is_lost_that_is_read_later() -> None:
    async def work(stub: Stub, client: Client) -> tuple[Streamed, Streamed]:
        received = await client.receive(asked(ids=True))
        return received.read(), await client.read(received)

    now, then = with_stub(work)
    assert now == then
    assert now.text == text_of(0, 8)


@pytest.mark.parametrize("limit_s", [0.0, -1.0, float("nan")])
def test_a_client_without_patience_is_made(limit_s: float) -> None:
    with pytest.raises(UserError, match="give seconds above 0"):
        Client("http://127.0.0.1:1", limit_s=limit_s)
