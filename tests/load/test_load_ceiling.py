"""Shares of the ceilings, and what is seen of a device, by hand."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from load_runs import attempt, request

from specq.load.ceiling import Machine, ceiling
from specq.load.device import Watch, is_here
from specq.load.drafts import Drafting
from specq.load.measures import rates


def machine() -> Machine:
    """1,000 bytes of weights, 400 of them used; 10 bytes of cache a token; 20,000 bytes/s and 10,000 FLOP/s."""
    model: Any = SimpleNamespace(
        weights=SimpleNamespace(read=lambda batch: 1000.0, used=400),
        shape=SimpleNamespace(sequence_bytes=lambda tokens, kv: 10 * tokens),
    )
    return Machine(model=model, bandwidth=20_000.0, flops=10_000.0)


def test_a_share_of_the_ceiling_is_another_one() -> None:
    # Two streams from 0 to 10 s, each with a first token at 0 s and 10 more; 4 of 20 prompt tokens were cached.
    rows = [
        request(n, events_at_s=tuple(float(at) for at in range(11)), prompt_tokens=10, cached_tokens=2)
        for n in range(2)
    ]
    of = [attempt(*rows, end_at_s=10.001)]
    plain = ceiling(machine(), rates(of, None), of, None)
    assert plain is not None
    # 20 tokens of 2 streams in 10 s: a pass a second, over 1,000 bytes and two caches of 15.5 tokens.
    assert plain.passes_per_s == pytest.approx(1.0, rel=1e-3)
    assert plain.context == 15.5
    assert plain.bytes_per_pass == pytest.approx(1000 + 2 * 160, rel=1e-3)
    assert plain.bandwidth_share == pytest.approx(1320 / 20_000, rel=1e-3)
    # A second prefills 1.6 tokens and decodes 2 rows.
    assert plain.flops_share == pytest.approx(2 * 400 * (1.6 + 2) / 10_000, rel=1e-3)
    drafts = Drafting(source="counters", steps=10, drafts=10, proposed=30, accepted=10, decode_s=None)
    drafted = ceiling(machine(), rates(of, None), of, drafts)
    assert drafted is not None
    # Two tokens a step: half as many passes, of four rows each.
    assert drafted.passes_per_s == pytest.approx(0.5, rel=1e-3)
    assert drafted.flops_share == pytest.approx(2 * 400 * (1.6 + 1 * 4) / 10_000, rel=1e-3)


def test_shares_are_told_where_steps_are_not_known() -> None:
    of = [attempt(request(prompt_tokens=10))]
    unknown = Drafting(source="counters", steps=None, drafts=None, proposed=30, accepted=10, decode_s=None)
    assert ceiling(machine(), rates(of, None), of, unknown) is None
    assert ceiling(machine(), rates([attempt(request())], None), [attempt(request())], None) is None


def test_a_server_elsewhere_has_this_machines_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [is_here(url) for url in ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1")] == [True] * 3
    assert not is_here("http://10.0.0.1:1")
    monkeypatch.setattr("specq.load.device.EVERY_S", 0.0)
    readings = iter([{"device_share": 0.9}, {"device_share": 0.2}, {"device_share": 0.4}])

    async def watched() -> dict[str, Any]:
        watch = Watch("http://10.0.0.1:1", read=("made up", lambda: next(readings, {})))
        watch.start()
        while next(iter(watch._seen[1:]), None) is None:
            await asyncio.sleep(0)
        return watch.found()

    found = asyncio.run(watched())
    # The first reading is of the time before.
    assert (found["source"], found["readings"]) == ("made up", 2)
    assert found["device_share"] == {"mean": pytest.approx(0.3), "most": 0.4}
    assert asyncio.run(elsewhere()) == {"source": "unknown"}


async def elsewhere() -> dict[str, Any]:
    """What is seen of a server on another machine."""
    watch = Watch("http://10.0.0.1:1")
    watch.start()
    return watch.found()
