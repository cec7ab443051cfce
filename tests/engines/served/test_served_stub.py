"""The stub's faults fall on the requests that they are planned for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from served_runs import AT_ONCE

from specq.engines.served import control
from specq.engines.served.client import Client
from specq.engines.served.request import Asked
from specq.engines.served.stub import Stub
from specq.engines.served.stub_events import CHAT

BARE = Asked(id="r", path=CHAT, body=b'{"stream": true}')
CONTROL = ("/health", "/v1/models", "/version", "/metrics", "/props")


def errors(play: dict[str, object], requests: int) -> list[str | None]:
    """What requests met of a fault; a server's control calls stand before each of them."""

    async def run() -> list[str | None]:
        found: list[str | None] = []
        async with Stub(plays=play) as stub, Client(stub.url, retry=AT_ONCE) as client:
            for _ in range(requests):
                answers, failed = await asyncio.to_thread(control.ask, stub.url, CONTROL)
                assert set(answers) == set(CONTROL[:3])
                assert set(failed.values()) == {"HTTP 404"}
                found.append((await client.stream(BARE)).error)
        return found

    return asyncio.run(run())


def test_a_fault_of_one_request_falls_on_another_or_on_a_control_call(tmp_path: Path) -> None:
    assert errors({"fault": "cut", "after": 1, "spared": 1, "times": 2}, 5) == [None, "cut", "cut", None, None]
    assert errors({"fault": "cut", "after": 1, "times": 1}, 2) == ["cut", None]
    assert errors({"fault": "cut", "after": 1, "spared": 2}, 4) == [None, None, "cut", "cut"]
    once = {"fault": "cut", "after": 1, "spared": 1, "once": str(tmp_path / "once")}
    assert errors(once, 3) == [None, "cut", None]
    # A server that was started anew finds that it has happened.
    assert errors(once, 3) == [None, None, None]
