"""IBANs, credentials in URLs and commands, and keys of services, by their form and, if any, their check digits.

Prefixes of keys as their services document them: OpenAI, Anthropic, GitHub, GitLab, AWS, Google, Hugging Face, Slack,
Stripe, SendGrid, npm, Groq.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from specq.workloads import assigned, pairs

Found = tuple[int, int, str]
"""Start, end and kind of a value in a text."""
_KEY = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"sk-[A-Za-z0-9_-]{20,}|[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|"
    r"gh[oprsu]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,}|"
    r"A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Z0-9])|AIza[A-Za-z0-9_-]{35}|hf_[A-Za-z0-9]{30,}|"
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|npm_[A-Za-z0-9]{36}|"
    r"gsk_[A-Za-z0-9]{40,})"
)
_KEY_SIGNS = (
    *("sk-", "k_live_", "k_test_", "ghp_", "gho_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-"),
    *("AKIA", "ASIA", "AIza", "hf_", "xox", "SG.", "npm_", "gsk_"),
)
_BEARER = re.compile(r"\s{1,3}([A-Za-z0-9._~+/=-]{16,2000})")
_URL = re.compile(r"://([^\s/@:\"'<>]{0,200}:[^\s/@\"'<>]{1,200}|[^\s/@:\"'<>]{16,200})@")
_PRIVATE = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]{0,12000}?-----END [A-Z ]{0,30}PRIVATE KEY-----")
# What stands before it is looked at after the first characters matched: so the search is several times faster.
_IBAN = re.compile(r"[A-Z][A-Z]\d\d(?<![A-Za-z0-9]....)[A-Z0-9 ]{11,40}")
_IBAN_LENGTHS = range(15, 35)


def found(text: str) -> Iterator[Found]:
    """Everything of these kinds in a text; values may overlap."""
    if "PRIVATE KEY-----" in text:
        yield from ((match.start(), match.end(), "api_key") for match in _PRIVATE.finditer(text))
    if any(sign in text for sign in _KEY_SIGNS):
        yield from ((match.start(), match.end(), "api_key") for match in _KEY.finditer(text))
    yield from _assigned(text)
    if "://" in text and "@" in text:
        yield from ((match.start(1), match.end(1), "url_credentials") for match in _URL.finditer(text))
    for match in _IBAN.finditer(text):
        end = _iban_end(match.group())
        if end:
            yield match.start(), match.start() + end, "iban"


def lowered(text: str) -> str:
    """The text in small letters, each at its place: the one letter that becomes two is replaced before."""
    return text.replace("\u0130", "i").lower()


def places(text: str, words: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Where words stand in a text. Searching for each is several times faster than for all in one expression."""
    for word in words:
        at = text.find(word)
        while at >= 0:
            yield at, at + len(word)
            at = text.find(word, at + 1)


def _assigned(text: str) -> Iterator[Found]:
    """What is assigned to the name of a secret, what follows the word bearer, and names with their passwords."""
    small = lowered(text)
    for start, end in assigned.found(text, small, places(small, assigned.WORDS)):
        yield start, end, "api_key"
    for _, end in places(small, ("bearer",)):
        if (match := _BEARER.match(text, end)) and any(map(str.isdigit, match[1])):
            yield match.start(1), match.end(1), "api_key"
    for start, end in pairs.found(text, small, places(small, pairs.WORDS)):
        yield start, end, "api_key"


def _iban_end(given: str) -> int:
    """The end of the longest IBAN that a text begins with, 0 where its check digits are wrong at every length.

    ISO 13616: the first four characters moved to the end, letters as 10 to 35, the number is 1 modulo 97.
    """
    best, compact = 0, ""
    for place, character in enumerate(given):
        if character == " ":
            continue
        compact += character
        ends = place + 1 == len(given) or given[place + 1] == " "
        if ends and len(compact) in _IBAN_LENGTHS and int("".join(str(int(c, 36)) for c in _turned(compact))) % 97 == 1:
            best = place + 1
    return best


def _turned(compact: str) -> str:
    return compact[4:] + compact[:4]
