"""Names with their passwords: in Basic headers (RFC 7617), after options such as curl's, in calls that take both."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

WORDS = ("basic", "authorization", "-u", "--user", "--proxy-user", "--auth", "auth=(", "auth(")
# As in assigned.py: with backslashes in JSON that stands in JSON.
_QUOTE = r"\\{0,3}[\"'`]"
_BASIC = re.compile(r"\s{1,3}([A-Za-z0-9+/_-]{4,2000}={0,2})")
_HEADER = re.compile(
    rf"(?:{_QUOTE})?\s{{0,3}}[:=,]\s{{0,3}}(?:{_QUOTE})?(?:basic|token|api-?key|key|negotiate|ntlm|digest)\s{{1,3}}"
    r"([A-Za-z0-9._~+/=-]{8,2000})",
    re.IGNORECASE,
)
_OPTION = re.compile(
    rf"(?P<gap>{_QUOTE},\s{{0,3}}{_QUOTE}|[ \t]{{1,3}}(?:{_QUOTE})?|=(?:{_QUOTE})?|)"
    r"(?P<pair>(?P<name>[^\s:/=\"'`\\-][^\s:/\"'`\\]{0,100}):(?P<word>(?!//)[^\s\"'`\\]{1,200}))"
)
_LINE = 400
_CLIENT = re.compile(r"\b(?:curl|wget|https?|xh)\b[^\n|;]*$")
_GROUP = re.compile(r"\b(?:docker|podman|nerdctl|chown|kubectl)\b[^\n|;]*$")
_PLACEHOLDER = re.compile(r"\$.*|%\w+%|<.*>|\{.*\}|\[.*\]|[*x\u2022.]+", re.IGNORECASE)
_CALL = re.compile(
    rf"\s{{0,5}}{_QUOTE}[^\n\"'`\\]{{1,100}}{_QUOTE}\s{{0,3}},\s{{0,5}}\\{{0,3}}([\"'`])([^\n]{{1,200}}?)\\{{0,3}}\1"
)


def found(text: str, small: str, places: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Start and end of each pair, of the password alone in a call; `places` are those of WORDS in `small`."""
    for begun, end in places:
        word = small[begun:end]
        if word == "basic":
            if (match := _BASIC.match(text, end)) and _is_pair(match[1]):
                yield match.span(1)
        elif word == "authorization":
            if (match := _HEADER.match(text, end)) and any(map(str.isdigit, match[1])):
                yield match.span(1)
        elif word.endswith("("):
            if (match := _CALL.match(text, end)) and not _PLACEHOLDER.fullmatch(match[2]):
                yield match.span(2)
        elif span := _after_option(text, small, begun, end):
            yield span


def _is_pair(given: str) -> bool:
    """Whether it is base64 of readable characters with a colon among them."""
    bare = given.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        told = base64.b64decode(bare + "=" * (-len(bare) % 4)).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in told and told.isprintable()


def _after_option(text: str, small: str, begun: int, end: int) -> tuple[int, int] | None:
    """The pair after an option; not a user with a group, as containers take them, nor a host with a port."""
    if begun and (small[begun - 1].isalnum() or small[begun - 1] in "-_"):
        return None
    match = _OPTION.match(text, end)
    if match is None or _PLACEHOLDER.fullmatch(match["word"]):
        return None
    floor = max(0, begun - _LINE)
    if not _CLIENT.search(small, floor, begun):
        short, word = small[begun:end] == "-u", match["word"]
        if not match["gap"] or word.isdigit() or word == match["name"] or _GROUP.search(small, floor, begun):
            return None
        if short and word.isalpha():
            return None
    return match.span("pair")
