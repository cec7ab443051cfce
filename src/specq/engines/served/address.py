"""Where a server is: the parts of its address that a connection and a request's head need."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from specq.core.errors import UserError

_PORTS = {"http": 80, "https": 443}
_VERSION = "/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address as written, and what it says; `prefix` is what stands before each request's path."""

    url: str
    secure: bool
    host: str
    port: int
    prefix: str

    @property
    def authority(self) -> str:
        """What a request names as its host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS["https" if self.secure else "http"] else f"{host}:{self.port}"

    def path(self, path: str) -> str:
        """The whole path of a request."""
        return self.prefix + path


def base_of(url: str) -> str:
    """An address without the API's version at its end: every path from there says it itself, if it is below it."""
    return url.rstrip("/").removesuffix(_VERSION).rstrip("/")


def address_of(url: str) -> Address:
    """The parts of a server's address.

    Raises:
        UserError: it is none of http or https, or has a user, a password, a query or a fragment, in which keys travel;
            these are not repeated in the message.
    """
    ends = 'write url = "http://HOST:PORT", and name a variable of the environment with key_env where it needs a key'
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UserError(f"the server's address has a host or port that is none; {ends}") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise UserError(f"the server's address has a user, a password, a query or a fragment; {ends}")
    if parts.scheme not in _PORTS or not parts.hostname or not (url.isascii() and url.isprintable()) or " " in url:
        raise UserError(f"the server's address {url!r} is not of the form http://HOST:PORT; {ends}")
    return Address(
        url=url,
        secure=parts.scheme == "https",
        host=parts.hostname,
        port=_PORTS[parts.scheme] if port is None else port,
        prefix=base_of(parts.path),
    )
