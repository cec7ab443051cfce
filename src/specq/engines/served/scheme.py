"""Whether a server speaks what its address says, http or TLS: with the other one requests wait for what never comes."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Literal

from specq.core.errors import UserError
from specq.engines.served.address import Address, address_of

HANDSHAKE_S = 10.0
"""Seconds that a server has for a TLS handshake; one that speaks no TLS may take the greeting and stay silent."""
_PROBE_S = 2.0


def use_http(where: str) -> str:
    """What to do about a server that speaks no TLS."""
    return f"write http://{where} in place of https:// if it speaks plain http"


def check(url: str) -> None:
    """Do nothing where a server speaks what its address says, or where nobody listens, which others tell.

    Raises:
        UserError: the address is none, or of http where the server speaks TLS, or the other way round.
    """
    address = address_of(url)
    # A server that speaks http may be slow to refuse TLS, and need not.
    limit_s = HANDSHAKE_S if address.secure else _PROBE_S
    spoken = _handshake(address, limit_s)
    where = address.authority
    if address.secure and spoken in ("other", "silent"):
        what = f"gave no TLS handshake within {limit_s:g} s" if spoken == "silent" else "speaks no TLS"
        raise UserError(f"{url}: the server {what}; {use_http(where)}")
    if not address.secure and spoken == "tls":
        raise UserError(f"{url}: the server there speaks TLS: write https://{where} in place of http://")


def check_silent(url: str, failed: Mapping[str, str]) -> None:
    """As `check`, of a server that was asked for paths and answered none of them; `failed` says why, by path.

    Raises:
        UserError: as `check`.
    """
    if failed and not any(why.startswith("HTTP ") for why in failed.values()):
        check(url)


def _handshake(address: Address, limit_s: float) -> Literal["tls", "other", "silent", "nobody"]:
    """What a TLS greeting is answered with. No certificate is looked at, for nothing else is sent."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        plain = socket.create_connection((address.host, address.port), timeout=limit_s)
    except OSError:
        return "nobody"
    with plain:
        try:
            with context.wrap_socket(plain, server_hostname=address.host):
                return "tls"
        except TimeoutError:
            return "silent"
        except ssl.SSLError as error:
            # An alert is TLS too: it refuses this greeting and not the language.
            return "tls" if "ALERT" in (error.reason or "") else "other"
        except OSError:
            return "other"
