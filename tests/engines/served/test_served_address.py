"""Addresses of servers, what may stand in a request's head, and connections over TLS."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest
from served_runs import AT_ONCE, asked

from specq.core.errors import UserError
from specq.engines.served.address import address_of
from specq.engines.served.client import Client
from specq.engines.served.faults import Retry
from specq.engines.served.request import Asked, Streamed
from specq.engines.served.stub import Stub
from specq.engines.served.stub_events import CHAT, text_of


@pytest.mark.parametrize(
    ("url", "host", "port", "authority", "path"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1", 8000, "127.0.0.1:8000", CHAT),
        ("http://host", "host", 80, "host", CHAT),
        ("https://host/", "host", 443, "host", CHAT),
        ("https://host:80", "host", 80, "host:80", CHAT),
        ("http://[::1]:8000", "::1", 8000, "[::1]:8000", CHAT),
        ("http://host/v1", "host", 80, "host", CHAT),
        ("http://host/v1/", "host", 80, "host", CHAT),
        ("http://host/some/v1", "host", 80, "host", f"/some{CHAT}"),
        ("http://host/some/", "host", 80, "host", f"/some{CHAT}"),
    ],
)
def test_an_address_leads_elsewhere(url: str, host: str, port: int, authority: str, path: str) -> None:
    address = address_of(url)
    assert (address.host, address.port, address.authority, address.path(CHAT)) == (host, port, authority, path)
    assert address.secure is url.startswith("https")


@pytest.mark.parametrize(
    "url", ["", "host:8000", "ftp://host", "http://", "http://h\u00f6st", "http://a b", "http://a\n"]
)
def test_what_is_no_address_is_taken(url: str) -> None:
    with pytest.raises(UserError, match="is not of the form http://HOST:PORT; write url = "):
        Client(url)


@pytest.mark.parametrize("url", ["http://host:port", "http://host:70000", "http://[::1"])
def test_a_port_that_is_none_is_taken(url: str) -> None:
    with pytest.raises(UserError, match="a host or port that is none; write url = "):
        address_of(url)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("v1", {}),
        ("/a b", {}),
        ("/a\r\nX: y", {}),
        ("/\u00f6", {}),
        ("/a", {"X": "a\r\nY: b"}),
        ("/a", {"X\r\nY": "b"}),
    ],
)
def test_a_request_smuggles_a_header_in(path: str, headers: dict[str, str]) -> None:
    with pytest.raises(UserError, match="path and headers are printable ASCII"):
        Asked(id="r", path=path, body=b"", headers=headers)


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Accept-Encoding", "Connection"])
def test_a_request_takes_over_a_header_of_the_client(name: str) -> None:
    with pytest.raises(UserError, match=f"a header {name}, which the client sets itself: take it out"):
        Asked(id="r", path=CHAT, body=b"", headers={name: "x"})


def talk(server: ssl.SSLContext | None, trusted: ssl.SSLContext | None, *, scheme: str = "https") -> Streamed:
    """What a request over TLS gives, to a stub on this machine under its name."""

    async def run() -> Streamed:
        async with Stub(tls=server) as stub:
            url = f"{scheme}://localhost:{stub.url.rpartition(':')[2]}"
            async with Client(url, retry=Retry(tries=1), tls=trusted, limit_s=10.0) as client:
                return await client.stream(asked(tokens=4, chunk_bytes=1))

    return asyncio.run(run())


def test_a_certificate_that_nobody_signed_is_trusted_or_one_that_is_trusted_is_refused(tmp_path: Path) -> None:
    key, signed = tmp_path / "key.pem", tmp_path / "signed.pem"
    command = ["openssl", "req", "-x509", "-nodes", "-keyout", key, "-out", signed, "-days", "2"]
    command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    subprocess.run([*command, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(signed, key)
    found = talk(server, None)
    assert (found.error, found.retries, found.sent_s) == ("tls", 0, None)
    assert found.said.startswith("no secure connection to localhost:")
    assert ": its certificate is refused: self" in found.said
    found = talk(server, ssl.create_default_context(cafile=str(signed)))
    assert (found.error, found.text, found.tokens) == (None, text_of(0, 4), 4)
    assert found.connect_s
    # The other way round: a plain request to a server of TLS.
    assert talk(server, None, scheme="http").error in ("reset", "malformed")


def test_a_server_without_tls_is_asked_again_or_told_as_another_fault() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1))
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def run() -> Streamed:
        async with await asyncio.start_server(refuse, "127.0.0.1") as server:
            port = server.sockets[0].getsockname()[1]
            async with Client(f"https://127.0.0.1:{port}", retry=AT_ONCE, limit_s=10.0) as client:
                return await client.stream(asked())

    heard: list[bytes] = []
    found = asyncio.run(run())
    assert (found.error, found.retries, len(heard)) == ("tls", 0, 1)
