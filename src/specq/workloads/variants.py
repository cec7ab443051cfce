"""Other ways of writing what the library finds in its usual form: full-width, in a URL, beyond ASCII, after a word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from specq.prompts.tables import NO_LETTER
from specq.workloads.secrets import Found, lowered, places

# One character for one, so that places stay.
_FOLD = {0xFF01 + i: chr(0x21 + i) for i in range(94)}
_FOLD |= dict.fromkeys((0x3000, 0xA0, 0x2007, 0x2009, 0x202F), " ") | dict.fromkeys(range(0x2010, 0x2014), "-")
_AT = ("@", "%40", "%2540")
_LOCAL = frozenset("._%+-'")
_LONGEST_LOCAL = 64
# Not in scripts without spaces, where a name and the words before it cannot be told apart.
_LETTER = rf"(?:{NO_LETTER}|[\u0300-\u036f])"
_IS_LETTER = re.compile(_LETTER)
_DOMAIN = re.compile(
    rf"(?:(?:(?!_){_LETTER}|-){{1,63}}\.){{1,8}}(?:xn--[a-zA-Z0-9-]{{2,59}}|(?:(?![\d_]){_LETTER}){{2,24}})(?![\w-])"
)
_SSN_WORDS = ("ssn", "social security", "social-security", "social_security")
_SSN = re.compile(
    r"(?:[ _-]?(?:number|num|no|nr|n|#))?(?:\W{0,6}|\W{1,3}(?:is|was)\W{1,3})(\d{3}[ .-]?\d\d[ .-]?\d{4})(?![\w-])",
    re.IGNORECASE,
)
# Also the second of "versions 1.2.3.4 and 1.2.3.5".
_VERSION = re.compile(
    r"(?:version(?:s|en|e)?(?:[ _](?:number|no|nr))?|(?<![^\W_])v(?:er)?\.?)(?:[ \t:=\"'`(\[\\>]{0,6}| is | was )"
    r"(?:\d+(?:\.\d+){1,3}\s?(?:,|-|/|to|and|or|bis|und|oder)\s?){0,4}$",
    re.IGNORECASE,
)


def folded(text: str) -> str:
    """A text of the same length with full-width forms, odd spaces and hyphens as those of ASCII."""
    return text if text.isascii() else text.translate(_FOLD)


def emails(text: str) -> Iterator[Found]:
    """Addresses with letters beyond ASCII and those whose sign is encoded; the library has the others."""
    for start, end in places(text, _AT):
        match = _DOMAIN.match(text, end)
        begun = start
        while match and begun > max(0, start - _LONGEST_LOCAL) and _is_local(text[begun - 1]):
            begun -= 1
        if match and begun < start and not (text[start] == "@" and text[begun : match.end()].isascii()):
            yield begun, match.end(), "email"


def _is_local(character: str) -> bool:
    return character in _LOCAL or _IS_LETTER.fullmatch(character) is not None


def same_email(value: str) -> str:
    """What is equal in two ways of writing an address."""
    return re.sub("%(?:25)?40", "@", unicodedata.normalize("NFKC", value)).lower()


def ssns(text: str) -> Iterator[Found]:
    """Social security numbers with any sign or none in them, after their name."""
    small = lowered(text)
    for start, end in places(small, _SSN_WORDS):
        if (match := _SSN.match(text, end)) and not small[max(0, start - 1) : start].isalnum():
            yield match.start(1), match.end(1), "ssn"


def is_version(text: str, start: int) -> bool:
    """Whether what stands before a place in a text makes a version of the numbers there."""
    return _VERSION.search(text, max(0, start - 80), start) is not None
