"""What goes wrong between a client and a server, in which words it is said, and what is asked again.

Asked again is only what brought nothing of an answer: a connection that did not open or was closed without a byte, and
the refusals of a server that is busy or starting. All else is told as it is, with what came until then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal

from specq.core.errors import UserError
from specq.core.hashes import seed_of

Kind = Literal[
    "refused",
    "tls",
    "reset",
    "cut",
    "hung",
    "http_429",
    "http_5xx",
    "http_4xx",
    "http_3xx",
    "wrong_model",
    "malformed",
    "no_usage",
]
"""`refused`: no connection. `tls`: no secure one. `reset`: closed before the first byte of a reply. `cut`: ended before
its end. `hung`: silent for longer than the limit. `http_3xx`: a redirect, which is not followed. `malformed`: bytes
that are no reply, or an event that is none. `no_usage` fails nothing: neither ids nor counts of tokens were told."""
BUSY: Final = (500, 502, 503, 504)
MOST_WORDS: Final = 300
_MODEL = re.compile(
    r"model_not_found|\bmodels?\b.*(not (be )?found|not exist|no such|unknown|invalid|not supported|not available)"
    r"|(no such|unknown|invalid|unsupported) model",
    re.IGNORECASE | re.DOTALL,
)
_SPACE = re.compile(r"\s+")

Hide = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What went wrong, in one line; `retry_after_s` is how long a server asked to wait, None where it did not."""

    kind: Kind
    said: str
    status: int | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a request goes out at most, and how long is waited in between.

    The wait doubles from `first_s` up to `most_s`, and is taken by a share of up to a half that hangs on the request,
    so that those refused together do not come back together. A server's Retry-After is kept to the second; one of more
    than `most_s` is not waited for.
    """

    tries: int = 4
    first_s: float = 0.5
    most_s: float = 60.0

    def __post_init__(self) -> None:
        if self.tries < 1 or not 0 <= self.first_s <= self.most_s:
            raise UserError(
                f"tries = {self.tries}, first_s = {self.first_s}, most_s = {self.most_s}: a request goes out once at "
                "least, and waits are of 0 seconds or more; write Retry(tries=1) for no second try"
            )

    def wait_s(self, fault: Fault, tried: int, id: str) -> float | None:
        """Seconds until the next try after `tried` of them; None where there is none."""
        if tried >= self.tries or not again(fault):
            return None
        if fault.retry_after_s is not None:
            return fault.retry_after_s if fault.retry_after_s <= self.most_s else None
        share = seed_of("wait", id, tried) / 2**63
        return min(self.most_s, self.first_s * 2 ** (tried - 1)) * (1 - share / 2)


def again(fault: Fault) -> bool:
    """Whether a request that met this may go out once more."""
    return fault.kind in ("refused", "reset", "http_429") or (fault.kind == "http_5xx" and fault.status in BUSY)


def of_status(status: int, headers: Mapping[str, str], body: bytes, hide: Hide) -> Fault:
    """What a reply's status of 300 or more says went wrong."""
    said = words(body)
    after = retry_after_s(headers)
    kind: Kind = "http_429" if status == 429 else "http_5xx" if status >= 500 else "http_4xx"
    if status < 400:
        kind = "http_3xx"
        place = headers.get("location", "nowhere")
        said = f"the server redirects to {place}; redirects are not followed: write the address itself as url"
    elif status in (400, 404, 422) and _MODEL.search(said):
        kind = "wrong_model"
    if after is not None:
        said = f"{said} (asked to wait {after:g} s)".lstrip()
    return Fault(
        kind=kind,
        said=one_line(f"HTTP {status}: {said}" if said else f"HTTP {status}", hide),
        status=status,
        retry_after_s=after,
    )


def of_event(told: Mapping[str, Any], hide: Hide) -> Fault:
    """What an event says went wrong that came in place of an answer, or after a part of one."""
    inner = told.get("error")
    source = inner if isinstance(inner, Mapping) else told
    code = source.get("code")
    status = int(code) if isinstance(code, int) or (isinstance(code, str) and code.isascii() and code.isdigit()) else 0
    said = _words_of(told)
    kind: Kind = "http_429" if status == 429 else "http_4xx" if 400 <= status < 500 else "http_5xx"
    if kind == "http_4xx" and _MODEL.search(said):
        kind = "wrong_model"
    return Fault(kind=kind, said=one_line(f"the server broke off: {said or 'without a word'}", hide))


def words(body: bytes) -> str:
    """The server's own words in the body of an error: its message, or all of its text."""
    text = body.decode("utf-8", errors="replace")
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()
    return _words_of(told)


def _words_of(told: Any) -> str:
    """The message of an error, in whichever place servers put it; else all of it."""
    if isinstance(told, Mapping):
        for key in ("error", "message", "detail"):
            if told.get(key):
                return _words_of(told[key])
    if isinstance(told, str):
        return told
    return "" if told is None else json.dumps(told, ensure_ascii=False)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that Retry-After asks for: RFC 9110, section 10.2.3.

    A date in it is held against the reply's own Date, never against this machine's clock, which may be wrong. None
    where nothing is asked for, or nothing that can be read.
    """
    told = headers.get("retry-after", "").strip()
    if told.isascii() and told.replace(".", "", 1).isdigit():
        return float(told)
    try:
        until, at = parsedate_to_datetime(told), parsedate_to_datetime(headers.get("date", ""))
        return max(0.0, (until - at).total_seconds())
    except (ValueError, TypeError):
        # No date, or one with a time zone beside one without.
        return None


def one_line(text: str, hide: Hide = str) -> str:
    """Text as one line of at most MOST_WORDS characters that a terminal shows as it is; keys are hidden first."""
    text = _SPACE.sub(" ", hide(text)).strip()
    text = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text[: MOST_WORDS + 1])
    return text if len(text) <= MOST_WORDS else f"{text[: MOST_WORDS - 3]}..."
