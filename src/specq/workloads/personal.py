"""Personal data and secrets in prompts, replaced by placeholders.

datafog-core finds e-mail addresses, card numbers (Luhn), IP addresses, US social security numbers and JSON web
tokens, phonenumbers what is a phone number by the plans of the named countries; neither asks a network or loads
a model. IBANs, user names and passwords, and keys of services are in `secrets.py`, for no library finds them; cards
that stand beside others and those of some schemes, which the library leaves out, in `cards.py`, other ways of writing
what it finds in `variants.py`.

Names of people, addresses and what a text tells about somebody are not found: only a reader can.
"""

from __future__ import annotations

import ipaddress
import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from specq.core.errors import ConfigError, nearest
from specq.workloads import cards, secrets, variants
from specq.workloads.secrets import Found, lowered, places

KINDS = {
    "api_key": "keys and tokens of services, passwords that are assigned or given with a name, private keys",
    "url_credentials": "user name and password in a URL",
    "iban": "bank accounts whose check digits are right (ISO 13616)",
    "credit_card": "card numbers whose check digit is right (Luhn)",
    "email": "e-mail addresses",
    "ip_address": "IPv4 and IPv6 addresses",
    "ssn": "US social security numbers",
    "phone": "phone numbers",
    "user": "whom a log names as the user or the session of a request",
}
"""What is replaced; where two overlap, the earlier one here is taken."""
_RANK = {kind: place for place, kind in enumerate(KINDS)}
_OF_LIBRARY = {
    "EMAIL": "email",
    "CREDIT_CARD": "credit_card",
    "IP_ADDRESS": "ip_address",
    "SSN": "ssn",
    "JWT": "api_key",
}
# Without these no value of the kind is there, and the library need not look.
_SIGNS = {"EMAIL": "@", "SSN": "-", "JWT": "eyJ"}
# The library's search for IP addresses takes the square of a run of colons; pieces keep it short. Cut at blanks.
_PIECES = re.compile(r"[\s\S]{1,16000}(?=\s|$)|[\s\S]{1,16000}")
# A country code, an area code in brackets or with a leading 0, or three groups as in North America: any other digits
# are orders, amounts and times far more often than phones. The first character comes before what may not stand before
# it, for the search is then several times faster.
_NUMBER = re.compile(
    r"[+(0-9](?<![\w+.,/-].)(?<!\d [(0-9])(?:(?<=\+)[1-9][\d ()./\u00a0-]{5,20}\d|(?<=0)0[1-9][\d ()./\u00a0-]{5,20}\d"
    r"|(?<=\()\d{1,5}\)[\d ./\u00a0-]{5,14}\d|(?<=0)[1-9][\d ()./\u00a0-]{5,16}\d"
    r"|(?<=\d)\d\d[-. ]\d{3}[-. ]\d{4})(?![\w@])"
)
_ESCAPE = re.compile(r"\\[nrt]")
_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}")
_WORDS = ("tel", "telefon", "telephone", "phone", "mobile", "mobil", "cell", "fax", "handy", "gsm", "whatsapp", "sms")
_AFTER_WORD = re.compile(r"(?:[ _-]?(?:no|nr|number))?\W{1,4}((?:\+|\()?\d[\d ()./\u00a0-]{5,20}\d)", re.IGNORECASE)
_SHORTEST, _LONGEST = 7, 15


class Scrubber:
    """Replaces personal data in the texts of one file; a value has the same placeholder wherever it stands there.

    Prompts that shared a beginning share it still. `counts` is how often something was replaced, by kind. `regions`
    are the countries (two letters) whose phone numbers are found without a country code too.

    Raises:
        ConfigError: no such country.
    """

    def __init__(self, regions: Sequence[str] = ("US",)) -> None:
        self.regions = checked_regions(regions)
        self.counts: Counter[str] = Counter()
        self._names: dict[tuple[str, str], str] = {}
        self._seen: Counter[str] = Counter()
        # System prompts stand in thousands of rows.
        self._spans = lru_cache(maxsize=4096)(self._found)

    def scrub(self, text: str) -> str:
        """The text with a placeholder, such as [EMAIL_1], in the place of each value."""
        spans = self._spans(text)
        if not spans:
            return text
        parts, at = list[str](), 0
        for start, end, kind in spans:
            self.counts[kind] += 1
            parts += (text[at:start], self._name(kind, text[start:end]))
            at = end
        return "".join((*parts, text[at:]))

    def user(self, name: str) -> str:
        """A placeholder for a user or session that a log names."""
        if not name:
            return ""
        self.counts["user"] += 1
        return self._name("user", name)

    def values(self) -> dict[str, int]:
        """How many different values were replaced, by kind."""
        return dict(self._seen)

    def _name(self, kind: str, value: str) -> str:
        key = (kind, _same(kind, value))
        if key not in self._names:
            self._seen[kind] += 1
            self._names[key] = f"[{kind.upper()}_{self._seen[kind]}]"
        return self._names[key]

    def _found(self, text: str) -> tuple[Found, ...]:
        """Start, end and kind of what is replaced, in order, none overlapping another."""
        text = variants.folded(text)
        spans = list(secrets.found(text))
        if "\\" in text:
            # In the JSON text of tools a newline is two characters, whose letter would belong to the word behind it.
            text = _ESCAPE.sub("\n\n", text)
            spans += secrets.found(text)
        spans += [*_of_library(text), *_phones(text, self.regions), *variants.emails(text), *variants.ssns(text)]
        spans += [(start, end, "credit_card") for start, end in cards.found(text)]
        if not spans:
            return ()
        taken: list[Found] = []
        for start, end, kind in sorted(spans, key=lambda span: (_RANK[span[2]], span[0] - span[1], span[0])):
            place = bisect_left(taken, (start,))
            before, after = taken[place - 1 : place] if place else [], taken[place : place + 1]
            if all(one[1] <= start for one in before) and all(end <= one[0] for one in after):
                insort(taken, (start, end, kind))
        return tuple(taken)


def checked_regions(regions: Sequence[str]) -> tuple[str, ...]:
    """Countries in capitals. Raises ConfigError for one that has no phone numbers."""
    if not regions:
        return ()
    import phonenumbers

    known = phonenumbers.SUPPORTED_REGIONS
    for region in regions:
        if region.upper() not in known:
            close = nearest(region.upper(), known) or ";"
            raise ConfigError(f"phone region {region}{close} allowed is a country's two letters, such as US, DE or TR")
    return tuple(region.upper() for region in regions)


def _of_library(text: str) -> Iterator[Found]:
    import datafog_core

    # Lone surrogates are no text to the library; a character of the same length stands for each.
    readable = text if text.isascii() else re.sub("[\ud800-\udfff]", "?", text)
    asked = [name for name in _OF_LIBRARY if _SIGNS.get(name, "") in readable]
    for piece in _PIECES.finditer(readable):
        for one in datafog_core.scan(piece.group(), {"entities": asked}):
            where = one.codepoint_range
            if one.entity_type == "IP_ADDRESS" and (
                _is_nobodys(one.matched_text) or variants.is_version(readable, piece.start() + where.start)
            ):
                continue
            yield piece.start() + where.start, piece.start() + where.end, _OF_LIBRARY[one.entity_type]


def _is_nobodys(address: str) -> bool:
    """Whether it is the machine itself, or none at all."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return found.is_loopback or found.is_unspecified


def _phones(text: str, regions: tuple[str, ...]) -> Iterator[Found]:
    for start, end in places(lowered(text), _WORDS):
        match = None if text[max(0, start - 1) : start].isalnum() else _AFTER_WORD.match(text, end)
        if match and _SHORTEST <= sum(map(str.isdigit, match[1])) <= _LONGEST:
            yield match.start(1), match.end(1), "phone"
    for match in _NUMBER.finditer(text):
        for start, end in () if _DATE.match(match.group()) else _numbers(match.group(), regions):
            yield match.start() + start, match.start() + end, "phone"


@lru_cache(maxsize=65536)
def _numbers(given: str, regions: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Where in a run of digits and signs valid phone numbers stand."""
    import phonenumbers

    abroad = given.startswith("00")
    read = f" +{given[2:]}" if abroad else given
    asked: tuple[str | None, ...] = (None,) if abroad or given.startswith("+") else regions
    for region in asked:
        found = tuple((one.start, one.end) for one in phonenumbers.PhoneNumberMatcher(read, region))
        if found:
            return ((0, found[0][1]), *found[1:]) if abroad else found
    return ()


def _same(kind: str, value: str) -> str:
    """What is equal in two ways of writing a value."""
    if kind == "email":
        return variants.same_email(value)
    if kind in ("iban", "credit_card", "phone", "ssn"):
        return re.sub(r"[^\w+]", "", variants.folded(value)).upper()
    return variants.folded(value) if kind == "ip_address" else value
