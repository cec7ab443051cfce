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
# Begins with the check digits, for letters before them are many: so the search is several times faster. What follows is
# looked at and not taken, for an account may begin in it.
_IBAN = re.compile(r"\d\d(?<=[A-Za-z][A-Za-z]..)(?<![A-Za-z0-9]....)(?=([A-Za-z0-9 .-]{11,46}))")
_IBAN_LENGTHS = range(15, 35)
# In small letters they are held to the length of their country, for words in a row are not. Registry of ISO 13616.
_BY_COUNTRY: dict[str, str] = dict(
    re.findall(
        r"(\w\w):(\d\d)",
        """ad:24 ae:23 al:28 at:20 az:28 ba:20 be:16 bg:22 bh:22 br:29 by:28 ch:21 cr:22 cy:28 cz:24 de:22 dk:18
do:28 ee:20 eg:29 es:24 fi:18 fo:18 fr:27 gb:22 ge:22 gi:23 gl:18 gr:27 gt:28 hr:21 hu:28 ie:22 il:23 iq:23 is:26 it:27
jo:30 kw:30 kz:20 lb:28 lc:32 li:21 lt:20 lu:20 lv:21 ly:25 mc:27 md:24 me:22 mk:19 mr:27 mt:31 mu:30 nl:18 no:15 pk:24
pl:28 ps:29 pt:25 qa:29 ro:24 rs:22 sa:24 sc:31 sd:18 se:24 si:19 sk:24 sm:27 st:25 sv:28 tl:23 tn:24 tr:26 ua:29 va:22
vg:24 xk:20""",
    )
)


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
        start = match.start() - 2
        if end := _iban_end(text[start : match.end(1)]):
            yield start, start + end, "iban"


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
        if character in " .-":
            continue
        compact += character
        ends = place + 1 == len(given) or given[place + 1] in " .-"
        if ends and _is_length(compact) and int("".join(str(int(c, 36)) for c in _turned(compact))) % 97 == 1:
            best = place + 1
    return best


def _is_length(compact: str) -> bool:
    if compact.upper() == compact:
        return len(compact) in _IBAN_LENGTHS
    return _BY_COUNTRY.get(compact[:2].lower()) == str(len(compact))


def _turned(compact: str) -> str:
    return compact[4:] + compact[:4]
