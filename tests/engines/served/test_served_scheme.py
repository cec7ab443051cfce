"""A server that speaks TLS is asked by http, or the other way round: a line says so, and nothing waits for long."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator

import pytest

from specq.core import clock
from specq.core.errors import UserError
from specq.engines.served import control, launch, scheme, wire
from specq.engines.served.client import Client
from specq.engines.served.faults import Retry
from specq.engines.served.request import Asked, Streamed

SHORT_S = 0.3


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    folder = tmp_path_factory.mktemp("tls")
    key, signed = folder / "key.pem", folder / "signed.pem"
    command = ["openssl", "req", "-x509", "-nodes", "-keyout", key, "-out", signed, "-days", "2", "-subj", "/CN=h"]
    subprocess.run([*command, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"], check=True)
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(signed, key)
    return made


def serving(context: ssl.SSLContext | None, said: bytes | None) -> Iterator[int]:
    """A port of a server that greets by TLS, answers whatever comes with `said`, or takes all and stays silent."""
    open_ = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    one, _ = listening.accept()
                except OSError:
                    return
                if context is not None:
                    try:
                        one = context.wrap_socket(one, server_side=True)
                    except OSError:
                        one.close()
                        continue
                elif said is not None:
                    one.recv(1)
                    one.sendall(said)
                    one.close()
                open_.append(one)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
    for one in open_:
        one.close()


@pytest.fixture
def silent() -> Iterator[int]:
    yield from serving(None, None)


@pytest.fixture
def plain() -> Iterator[int]:
    yield from serving(None, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")


@pytest.fixture
def secure(tls: ssl.SSLContext) -> Iterator[int]:
    yield from serving(tls, None)


def ask(url: str) -> Streamed:
    async def run() -> Streamed:
        async with Client(url, retry=Retry(tries=1), limit_s=60.0) as client:
            return await client.stream(Asked(id="r", path="/v1/completions", body=b"{}"))

    return asyncio.run(run())


def test_https_to_a_server_that_takes_a_greeting_and_says_nothing_waits_for_the_limit_of_an_answer(
    silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (scheme, wire):
        monkeypatch.setattr(module, "HANDSHAKE_S", SHORT_S)
    url = f"https://127.0.0.1:{silent}"
    began_s = clock.now()
    found = ask(url)
    assert found.error == "tls"
    assert f"no TLS handshake with 127.0.0.1:{silent} within 0.3 s; write http://127.0.0.1:{silent} in pl" in found.said
    with pytest.raises(UserError, match=r"gave no TLS handshake within 0.3 s; write http://127"):
        scheme.check(url)
    _, failed = control.ask(url, ("/a", "/b", "/c"), limit_s=SHORT_S)
    assert failed == dict.fromkeys(("/a", "/b", "/c"), "ConnectTimeout")
    # Far below the minute that an answer may take.
    assert clock.now() - began_s < 20


def test_https_to_a_server_of_plain_http_is_told_in_the_words_of_a_library(plain: int) -> None:
    url = f"https://127.0.0.1:{plain}"
    assert f"; write http://127.0.0.1:{plain} in place of https://" in ask(url).said
    with pytest.raises(UserError, match=f"speaks no TLS; write http://127.0.0.1:{plain} "):
        launch.attach(url, "/health")


def test_http_to_a_server_of_tls_is_told_as_one_that_does_not_answer(secure: int) -> None:
    url = f"http://127.0.0.1:{secure}"
    with pytest.raises(UserError, match=f"speaks TLS: write https://127.0.0.1:{secure} in place"):
        launch.attach(url, "/health")
    told, failed = control.ask(url, ("/health",))
    assert not told
    with pytest.raises(UserError, match="speaks TLS"):
        scheme.check_silent(url, failed)


def test_a_reply_that_is_a_record_of_tls_is_told_as_one_that_cannot_be_read() -> None:
    for port in serving(None, b"\x15\x03\x01\x00\x02\x02\x0a" + b"\r\n"):
        found = ask(f"http://127.0.0.1:{port}")
        assert (found.error, found.retries) == ("tls", 0)
        assert "answers with TLS; write https:// in its address" in found.said


def test_a_server_that_answers_or_is_not_there_is_refused(plain: int, secure: int) -> None:
    scheme.check(f"https://127.0.0.1:{secure}")
    scheme.check(f"http://127.0.0.1:{plain}")
    scheme.check("https://127.0.0.1:9")
    scheme.check_silent(f"http://127.0.0.1:{secure}", {"/a": "HTTP 404"})
