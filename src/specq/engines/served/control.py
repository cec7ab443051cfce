"""What is asked of a server beside requests: whether it is healthy, how it is set, and what it counted.

None of it is timed, so httpx does it. Proxies of the environment are left out, as they are in the timed requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specq.engines.served.address import base_of
from specq.engines.served.key import Key

LIMIT_S = 10.0


def _headers(key: Key) -> dict[str, str]:
    name, _, value = key.header().strip().partition(": ")
    return {name: value} if name else {}


def healthy(url: str, path: str, *, key_env: str | None = None, limit_s: float = LIMIT_S) -> bool:
    """Whether the server answers a path with 200.

    Raises:
        UserError: the environment has no variable of the name `key_env`.
    """
    import httpx

    headers = _headers(Key(key_env))
    try:
        return httpx.get(base_of(url) + path, headers=headers, timeout=limit_s, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def ask(
    url: str, paths: Sequence[str], *, key_env: str | None = None, limit_s: float = LIMIT_S
) -> tuple[dict[str, Any], dict[str, str]]:
    """The answers of some paths: JSON values, or text that is none; and why the others gave none, by path.

    No answer has the key in it.

    Raises:
        UserError: the environment has no variable of the name `key_env`.
    """
    import httpx

    key = Key(key_env)
    answers: dict[str, Any] = {}
    failed: dict[str, str] = {}
    with httpx.Client(headers=_headers(key), timeout=limit_s, trust_env=False) as client:
        for path in paths:
            try:
                answer = client.get(base_of(url) + path)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                # Nobody listens, or not to TLS: the other paths would wait for the same.
                return answers, failed | dict.fromkeys(paths[len(answers) + len(failed) :], type(error).__name__)
            except httpx.HTTPError as error:
                failed[path] = type(error).__name__
                continue
            if answer.status_code != 200:
                failed[path] = f"HTTP {answer.status_code}"
                continue
            try:
                answers[path] = key.hide_in(answer.json())
            except ValueError:
                answers[path] = key.hide(answer.text)
    return answers, failed
