"""The requesters on what they are made for: a real cache on the reference engine, and a server that streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from specq.core.errors import RunFailed
from specq.core.types import Prompt, Sampling
from specq.decoding.prefix import shared
from specq.engines.served.stub import Stub
from specq.lab.requester_hf import HFRequester
from specq.lab.requester_served import ServedRequester

BASE = (5, 9, 12, 7, 30, 22, 8, 17, 11, 6, 14, 25)
NEW = 6


def prompt(*ids: int) -> Prompt:
    return Prompt(id="p", ids=ids)


@pytest.fixture
def requester(target_of: Callable[..., Any]) -> HFRequester:
    return HFRequester(target_of("llama"), "tiny")


def held(requester: HFRequester) -> list[int]:
    assert requester._slot is not None
    return requester._slot._held


@pytest.mark.parametrize(
    ("then", "reused"),
    [
        (BASE, len(BASE) - 1),
        ((*BASE, 9, 9), len(BASE)),
        ((*BASE[:-1], 31), len(BASE) - 1),
        ((*BASE[:6], 31, *BASE[7:]), 6),
        ((31, *BASE[1:]), 0),
        (BASE[:5], 4),
    ],
)
def test_a_reused_cache_changes_the_answer(
    requester: HFRequester, target_of: Callable[..., Any], then: tuple[int, ...], reused: int
) -> None:
    assert requester.ask(prompt(*BASE), NEW, cached=True).cached_tokens == 0
    found = requester.ask(prompt(*then), NEW, cached=True)
    # What follows a prompt may go on as the last answer did.
    assert found.cached_tokens is not None
    assert found.cached_tokens >= reused
    assert found.cached_tokens < len(then)
    (true,) = target_of("llama").decoder(None).generate([prompt(*then)], Sampling(max_new_tokens=NEW, ignore_eos=True))
    # The last token was drawn and is not in the cache.
    assert tuple(held(requester)[len(then) :]) == true.ids[:-1]


def test_a_planted_slot_that_forgets_to_roll_back_passes(
    requester: HFRequester, target_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    requester.ask(prompt(*BASE), NEW, cached=True)
    assert requester._slot is not None
    slot = requester._slot.session
    monkeypatch.setattr(slot, "rollback", lambda tokens: None)
    then = (*BASE[:6], 31, *BASE[7:])
    session_length = slot.length
    requester.ask(prompt(*then), NEW, cached=True)
    assert slot.length != session_length - (session_length - 6) + len(then) - 6 + NEW - 1


def test_a_cold_request_reads_from_the_slot_or_spoils_it(requester: HFRequester) -> None:
    requester.ask(prompt(*BASE), NEW, cached=True)
    before = list(held(requester))
    assert requester.ask(prompt(*BASE), NEW).cached_tokens == 0
    assert held(requester) == before
    assert requester.ask(prompt(*BASE), NEW, cached=True).cached_tokens == len(BASE) - 1


def test_stamps_do_not_add_up(requester: HFRequester) -> None:
    found = requester.ask(prompt(*BASE), NEW)
    assert found.ttft_s is not None
    assert (len(found.stamps_s), found.output_tokens, found.prompt_tokens) == (NEW, NEW, len(BASE))
    assert list(found.stamps_s) == sorted(found.stamps_s)
    assert (found.stamps_s[0], found.stamps_s[-1]) == (found.ttft_s, found.e2e_s)
    whole = requester.ask(prompt(*BASE), NEW, streamed=False)
    assert (whole.ttft_s, whole.output_tokens) == (None, NEW)
    rows = requester.ask_together([prompt(*BASE), prompt(*BASE[2:])], NEW)
    assert [one.output_tokens for one in rows] == [NEW, NEW]
    assert {one.sent_s for one in rows} == {rows[0].sent_s}


def test_texts_begin_alike_where_they_do_not() -> None:
    assert shared((1, 2, 3), (1, 2, 4)) == 2
    assert shared((1, 2), (1, 2, 4)) == 2
    assert shared((), (1,)) == 0


@contextmanager
def stub() -> Iterator[Stub]:
    """A stub in a thread of its own, for the requester has an event loop of its own."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    made: list[Stub] = []
    done = asyncio.Event()

    async def serve() -> None:
        async with Stub() as one:
            made.append(one)
            ready.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait()
    try:
        yield made[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()


def play(**how: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda body: {**body, "stub": how}


@contextmanager
def served(one: Stub, kind: str, **how: Any) -> Iterator[ServedRequester]:
    requester = ServedRequester(one.url, kind, model="stub", edit=play(**how))
    try:
        yield requester
    finally:
        requester.close()


@pytest.mark.parametrize("kind", ["openai", "llamacpp"])
def test_a_server_is_read_wrong(kind: str) -> None:
    with stub() as one, served(one, kind, tokens=7, rate=2000.0) as requester:
        asked = replace(requester.prompt("p", "some text"), ids=())
        found = requester.ask(asked, 7)
        assert (found.prompt_tokens, found.output_tokens, found.cached_tokens) == (5, 7, None)
        assert found.ttft_s is not None
        assert 0 < found.ttft_s <= found.e2e_s
        assert len(found.stamps_s) == 7
        assert sum(found.stamp_tokens) == 7
        if kind == "llamacpp":
            assert found.told == pytest.approx(
                {"prefill_s": 0.0015, "ttft_s": 0.0015, "decode_s": 0.0025, "e2e_s": 0.004}
            )
        rows = requester.ask_together([asked] * 3, 7)
        assert [row.output_tokens for row in rows] == [7, 7, 7]


def test_an_answer_in_one_piece_is_streamed_all_the_same() -> None:
    with stub() as one, served(one, "openai", tokens=7) as requester:
        found = requester.ask(requester.prompt("p", "some text"), 7, streamed=False)
        assert (found.ttft_s, found.output_tokens, found.prompt_tokens) == (None, 7, 5)
        assert found.e2e_s > 0
        (heard,) = [heard for heard in one.heard if heard.body]
        assert heard.body["stream"] is False
        assert "stream_options" not in heard.body


def test_cold_requests_of_one_prompt_begin_alike() -> None:
    with stub() as one, served(one, "openai", tokens=2) as requester:
        text = requester.prompt("p", "some text")
        for cached in (False, False, True, True):
            requester.ask(text, 2, cached=cached)
        said = [heard.body["messages"][0]["content"] for heard in one.heard if heard.body]
        assert len(set(said[:2])) == 2
        assert said[2:] == ["some text"] * 2
        assert all(one.endswith("some text") for one in said)


def test_a_request_that_fails_has_times() -> None:
    for how, told in (({"fault": "cut", "after": 2}, r"a request failed \(cut\)"), ({"usage": False}, "--model MODEL")):
        with stub() as one, served(one, "openai", tokens=4, **how) as requester, pytest.raises(RunFailed, match=told):
            requester.ask(requester.prompt("p", "some text"), 4)
