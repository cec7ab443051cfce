"""A server's key goes into one header and nowhere else, whatever the server repeats of it."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import pickle
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import virtual_time
from served_runs import AT_ONCE, answer, asked, chat

from specq.core.errors import UserError
from specq.core.jsonl import write_whole
from specq.engines.served.client import Client
from specq.engines.served.faults import Retry
from specq.engines.served.key import SHORTEST, Key
from specq.engines.served.request import Asked, Streamed
from specq.engines.served.stub import Stub
from specq.engines.served.stub_events import CHAT, PATHS

NAME = "SPECQ_TEST_KEY"
# JSON, addresses and repr write some of its letters in another way; this word of it they all write alike.
WORD = "Planted"
PLANTED = f"sk-\"{WORD}/Key\\7+='&x"
FAULTS: dict[str, dict[str, Any]] = {
    "an answer": {},
    "an answer that is not streamed": {"stream": False},
    "a refusal": {"fault": "status", "status": 401},
    "a refusal that is asked again": {"fault": "status", "status": 503, "times": 1},
    "a redirect": {"fault": "status", "status": 307, "location": "http://127.0.0.1:1/?key="},
    "a malformed event": {"fault": "malformed", "after": 2},
    "a failure in a stream": {"fault": "error", "after": 2, "status": 500},
    "a cut": {"fault": "cut", "after": 2},
    "a hang": {"fault": "hang", "after": 2},
    "no reply": {"fault": "reset"},
}


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(NAME, PLANTED)
    return PLANTED


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize("play", FAULTS.values(), ids=FAULTS)
def test_a_key_that_a_server_repeats_stands_in_a_record_a_log_or_an_error(
    play: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)

    async def run() -> tuple[list[Streamed], Stub, str]:
        # The event loop tells all that it does.
        asyncio.get_running_loop().slow_callback_duration = 0.0
        async with Stub() as stub, Client(stub.url, key_env=NAME, retry=AT_ONCE, limit_s=0.1) as client:
            received = [await client.receive(asked(path, echo=True, **play)) for path in PATHS]
            return [one.read() for one in received], stub, repr((client, vars(client), received))

    found, stub, shown = virtual_time.run(run(), debug=True)
    # It did go out, and the server did repeat it.
    assert {heard.headers["authorization"] for heard in stub.heard} == {f"Bearer {PLANTED}"}
    told = json.dumps([asdict(one) for one in found], ensure_ascii=False)
    assert (f"[{NAME}]" in told) is (play.get("fault") != "reset")
    write_whole(tmp_path / "record.json", [asdict(one) for one in found])
    written = (tmp_path / "record.json").read_text()
    out, err = capfd.readouterr()
    for place in (told, repr(found), written, shown, caplog.text, out, err):
        assert WORD not in place


@pytest.mark.usefixtures("planted")
def test_a_key_that_comes_in_parts_is_put_together() -> None:
    parts = [PLANTED[:5], PLANTED[5:9], PLANTED[9:]]
    key = Key(NAME)
    assert answer([*map(chat, parts), chat(finish="stop")], key=key).text == f"[{NAME}]"
    for name in ("reasoning_content", "reasoning"):
        thought = [{"choices": [{"index": 0, "delta": {name: part}}]} for part in parts]
        assert answer(thought, key=key).reasoning == f"[{NAME}]"
    called = [{"choices": [{"delta": {"tool_calls": [{"function": {"arguments": part}}]}}]} for part in parts]
    assert answer(called, key=key).calls == f"[{NAME}]"
    found = answer([chat("a", finish=PLANTED, stop_reason=[{PLANTED: PLANTED}])], key=key)
    assert (found.finish, found.server) == (f"[{NAME}]", {"stop_reason": [{f"[{NAME}]": f"[{NAME}]"}]})


@pytest.mark.usefixtures("planted")
def test_a_key_is_written_by_pickle_copy_or_repr() -> None:
    key = Key(NAME)
    for write in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=f"the key of {NAME} is not written anywhere"):
            write(key)
    assert repr(key) == f"Key('{NAME}')"
    assert WORD not in repr(vars(Client("http://127.0.0.1:1", key_env=NAME)))


@pytest.mark.usefixtures("planted")
def test_a_server_that_is_not_there_is_told_with_its_key() -> None:
    found = asyncio.run(Client("http://127.0.0.1:1", key_env=NAME, retry=Retry(tries=1)).stream(asked()))
    assert found.error == "refused"
    assert WORD not in repr(found)


@pytest.mark.parametrize("value", [None, "", f"{WORD}\nx", f"{WORD} x", f"{WORD}\u00f6", f"{WORD}\r\nX: y"])
def test_a_key_that_cannot_be_sent_is_sent_or_shown(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    if value is not None:
        monkeypatch.setenv(NAME, value)
    with pytest.raises(UserError, match=f'key_env = "{NAME}": .* set it to the key') as caught:
        Client("http://127.0.0.1:1", key_env=NAME)
    assert WORD not in str(caught.value)


def test_a_word_that_is_no_key_is_taken_out_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, hidden in (("none", False), ("k" * (SHORTEST - 1), False), ("k" * SHORTEST, True)):
        monkeypatch.setenv(NAME, value)
        assert (Key(NAME).hide(f"a {value} b") == f"a [{NAME}] b") is hidden


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "Api-Key", "Cookie", "Proxy-Authorization"])
def test_a_key_is_written_into_a_request(name: str) -> None:
    with pytest.raises(UserError, match=f"has a header {name}: keys are not written down") as caught:
        Asked(id="r", path=CHAT, body=b"", headers={name: PLANTED})
    assert WORD not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [f"http://user:{WORD}@host:1", f"http://{WORD}@host", f"http://host/v1?key={WORD}", f"http://host/#{WORD}"],
)
def test_a_key_in_an_address_is_taken_or_shown(url: str) -> None:
    with pytest.raises(UserError, match="a user, a password, a query or a fragment; write url = ") as caught:
        Client(url)
    assert WORD not in str(caught.value)


@pytest.mark.parametrize("key", [f"sk-{WORD}-1", f"hf_{WORD}", f"{WORD}", "AKIAPLANTED7EXAMPLE"])
def test_a_key_that_stands_in_place_of_its_variables_name_is_shown(key: str) -> None:
    with pytest.raises(UserError, match="takes the name of an environment variable") as caught:
        Client("http://127.0.0.1:1", key_env=key)
    assert "planted" not in str(caught.value).lower()
