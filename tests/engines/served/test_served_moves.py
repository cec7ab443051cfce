"""A server that is killed in the middle of its streams, and comes back on another port."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack

from served_runs import AT_ONCE, asked

from specq.engines.served import stub as stub_server
from specq.engines.served.client import Client
from specq.engines.served.request import Asked, Streamed
from specq.engines.served.stub import Stub
from specq.engines.served.stub_events import CHAT, TEXT, text_of

KILLED = ("cut", "reset")


def test_a_server_killed_in_mid_stream_takes_what_it_said_with_it_or_is_asked_twice_for_it() -> None:
    async def run(first: str, second: str) -> tuple[list[Streamed], list[Streamed], bool]:
        urls = [first]
        async with Client(lambda: urls[-1], retry=AT_ONCE) as client:
            others = [asyncio.create_task(client.stream(asked(TEXT, id=f"o{n}", rate=20, tokens=99))) for n in range(3)]
            # The others are under way before the one that kills it.
            await asyncio.sleep(0.2)
            killer = await client.stream(asked(id="k", fault="kill", after=3, ids=True))
            lost = [killer, *await asyncio.gather(*others)]
            dead = await client.stream(asked(id="dead"))
            urls.append(second)
            # The same requests go to where the server is now, and nothing of the first answers comes with them.
            again = [await client.stream(asked(TEXT, id=one.id, tokens=4)) for one in lost]
            return lost, again, dead.error == "refused" and dead.retries == 3

    with ExitStack() as stack:
        first, process = stack.enter_context(stub_server.started())
        second, _ = stack.enter_context(stub_server.started())
        lost, again, refused = asyncio.run(run(first, second))
        assert process.wait(10) < 0
    assert refused
    killer, *others = lost
    assert (killer.error, killer.text, killer.token_ids, killer.retries) == ("cut", text_of(0, 3), (0, 1, 2), 0)
    for one in others:
        assert (one.error, one.retries, one.finish) == ("cut", 0, None)
        assert one.tokens == len(one.event_s) >= 1
        assert one.text == text_of(0, len(one.event_s))
    for one in again:
        assert (one.error, one.text, one.tokens) == (None, text_of(0, 4), 4)


def test_a_try_goes_to_the_port_that_the_server_has_left() -> None:
    async def run() -> tuple[Streamed, int, int]:
        async with Stub() as old, Stub() as new:
            where = iter([old.url, old.url])
            async with Client(lambda: next(where, new.url), retry=AT_ONCE) as client:
                found = await client.stream(asked(fault="status", status=503, key="k", times=2))
            return found, len(old.heard), len(new.heard)

    found, old, new = asyncio.run(run())
    # The new server has met the request for the first time: it refuses twice as well.
    assert (old, new) == (2, 2)
    assert (found.error, found.retries) == ("http_5xx", 3)


def test_a_connection_to_the_old_port_is_used_for_the_new_one() -> None:
    async def run() -> tuple[int, int]:
        async with Stub() as old, Stub() as new:
            urls = [old.url]
            async with Client(lambda: urls[-1], retry=AT_ONCE) as client:
                await client.stream(asked())
                urls.append(new.url)
                await client.stream(asked())
            return len(old.heard), len(new.heard)

    assert asyncio.run(run()) == (1, 1)


def test_a_client_dies_with_its_event_loop() -> None:
    client = Client("http://127.0.0.1:1", retry=AT_ONCE)

    async def run(stub: Stub) -> Streamed:
        async with stub:
            there = Client(stub.url, retry=AT_ONCE)
            shared.append(there)
            return await there.stream(asked())

    shared: list[Client] = []
    assert asyncio.run(run(Stub())).error is None
    assert asyncio.run(client.stream(asked())).error == "refused"
    # Its connections belonged to the loop that is gone; a new loop opens new ones.
    again = asyncio.run(shared[0].stream(asked()))
    assert again.error == "refused"


def test_a_request_is_sent_in_another_form() -> None:
    async def run() -> Stub:
        async with Stub() as stub, Client(f"{stub.url}/v1/") as client:
            body = json.dumps({"stream": True, "stub": {"tokens": 1}}).encode()
            await client.stream(Asked(id="r", path=CHAT, body=body, headers={"X-Tag": "a"}))
            await client.stream(Asked(id="r", path=TEXT, body=body, headers={"content-type": "text/x"}))
            return stub

    stub = asyncio.run(run())
    assert [heard.path for heard in stub.heard] == [CHAT, TEXT]
    chat, text = (heard.headers for heard in stub.heard)
    assert (chat["content-type"], chat["x-tag"], text["content-type"]) == ("application/json", "a", "text/x")
    assert chat["host"] == stub.url.removeprefix("http://")
    assert "authorization" not in chat
