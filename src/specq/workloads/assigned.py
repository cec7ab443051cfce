"""What is assigned to the name of a password, a secret, a token or a key.

A value in quotation marks or after an equals sign is one unless it is a word for what stands there (required, string,
None) or a placeholder. After a colon in prose it must look like one: digits and letters, signs within, or a line that
holds a name and one word alone. Tokens and keys are random, so theirs have digits and letters wherever they stand:
"token" is a word of language models too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

WORDS = (
    *("key", "secret", "token", "password", "passwd", "pwd", "pass", "passphrase", "passcode", "passwort", "kennwort"),
)
_NAME = re.compile(
    r"(?:(?P<random>(?:api|secret|access|auth|private|account|encryption|signing)[_. -]?key|token)"
    r"|(?P<chosen>secret|password|passwd|pwd|passphrase|passcode|passwort|kennwort|(?<=[a-z0-9][_-])pass|(?<=--)pass)"
    r"|(?P<short>(?<![a-z0-9])pass))$"
)
# Quotation marks have backslashes before them in JSON that stands in JSON, as the arguments of tool calls do.
_QUOTE = r"\\{0,3}[\"'`]"
_SIGN = re.compile(rf"(?:{_QUOTE})?(?:\s{{0,3}}(?P<equals>:?={{1,2}}>?)\s{{0,3}}|\s{{0,3}}(?P<colon>:)\s{{0,3}})")
_IS = re.compile(r" (?:is|was|=>?|ist)(?: now)?:? {1,2}")
_TAG = re.compile(r">")
_OPTION = re.compile(r"[ \t]{1,3}")
_QUOTED = re.compile(r"\\{0,3}([\"'`])(?P<value>(?:(?!\1)[^\n\\]|\\\\?(?!\1)[^\n]){1,200}?)\\{0,3}\1")
_BARE = re.compile(r"(?P<value>[^\s\"'`,;&<>\[\]{}()]{1,200})(?P<call>[(\[{]?)")
_ELEMENT = re.compile(r"(?P<value>[^<>\n]{1,200})</")
_NO_VALUES = frozenset(
    {
        "a", "an", "and", "any", "are", "as", "at", "blank", "bool", "boolean", "bytes", "can", "changed",
        "char", "cls", "config", "correct", "default", "disabled", "empty", "enabled", "encrypted", "enter",
        "env", "example", "expired", "false", "for", "forgot", "forgotten", "hashed", "her", "hidden", "his",
        "how", "i", "if", "in", "incorrect", "int", "integer", "invalid", "is", "it", "its", "key",
        "mandatory", "masked", "max", "maximum", "min", "minimum", "missing", "must", "my", "n/a", "na",
        "needed", "never", "nil", "no", "none", "not", "null", "number", "object", "of", "on", "optional",
        "or", "os", "our", "passwd", "password", "please", "process", "redacted", "required", "reset",
        "secret", "see", "self", "set", "settings", "should", "str", "string", "strong", "tbd", "text",
        "that", "the", "their", "they", "this", "to", "todo", "token", "true", "undefined", "unknown", "use",
        "valid", "varchar", "we", "weak", "what", "when", "where", "which", "who", "why", "with", "wrong",
        "yes", "you", "your",
    }
)  # fmt: skip
_PROSE = frozenset(
    {
        "a", "an", "and", "are", "at", "be", "cannot", "enter", "for", "is", "least", "must", "my", "not",
        "of", "or", "please", "should", "the", "to", "your",
    }
)  # fmt: skip
_PLACEHOLDER = re.compile(
    r"<.*>|\[.*\]|\{.*\}|\$?\(.*\)|\$\{.*\}|\$(?-i:[A-Z_][A-Z0-9_]*)|%[a-z_]+%?|[*x\u2022.#_-]+|your[-_ ].*",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+")


def found(text: str, small: str, places: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Start and end of each value; `small` is the text in small letters, `places` those of WORDS in it."""
    for begun, end in places:
        name = _NAME.search(small, max(0, end - 20), end)
        if name and (span := _value(text, small, begun, end, name.lastgroup or "")):
            yield span


def _value(text: str, small: str, begun: int, end: int, kind: str) -> tuple[int, int] | None:
    random = kind == "random"
    if sign := _SIGN.match(text, end):
        equals = sign["equals"] is not None
        if kind == "short" and not equals:
            return None
        if quoted := _QUOTED.match(text, sign.end()):
            return quoted.span("value") if _is_quoted(quoted["value"], random) else None
        bare = _BARE.match(text, sign.end())
        if bare is None or bare["call"]:
            return None
        value = bare["value"].rstrip(".!?:\\") or bare["value"]
        tight = equals and sign.end() - sign.start() <= 2
        alone = _is_line(text, begun, bare.end()) and not random
        if _mixed(value, random) or ((tight or alone) and not random and _is_word(value)):
            return bare.start(), bare.start() + len(value)
        return None
    if kind == "short":
        return None
    if (tag := _TAG.match(text, end)) and (inner := _ELEMENT.match(text, tag.end())):
        return inner.span("value") if _is_quoted(inner["value"], random) else None
    option = re.search(r"(?<![\w-])--[a-z0-9_-]*$", small[max(0, begun - 30) : begun])
    after = _OPTION.match(text, end) if option else _IS.match(text, end)
    if after and (bare := _BARE.match(text, after.end())) and not bare["call"]:
        value = bare["value"].rstrip(".!?:\\")
        if _mixed(value, random) or (option and not random and _is_word(value)):
            return bare.start(), bare.start() + len(value)
    return None


def _is_quoted(value: str, random: bool) -> bool:
    if random:
        return " " not in value and _mixed(value, random)
    words = value.casefold().split()
    return bool(words) and (_is_word(value) if len(words) == 1 else not _PROSE & set(words))


def _mixed(value: str, random: bool) -> bool:
    """Whether a value looks like a secret by its characters."""
    if _PLACEHOLDER.fullmatch(value) or _ATTRIBUTE.fullmatch(value):
        return False
    digit, letter = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    if random:
        return digit and letter and len(value) >= 6
    signed = letter and any(not one.isalnum() and one not in "-_./'\u2019" for one in value)
    return len(value) >= 4 and (digit or signed)


def _is_word(value: str) -> bool:
    """Whether one word may be what somebody chose, and not what a text says of it."""
    word = value.casefold().strip(".!?")
    known = word in _NO_VALUES or _PLACEHOLDER.fullmatch(value) or _ATTRIBUTE.fullmatch(value)
    named = re.fullmatch(r"[a-z]*[_-]?(?:password|passwd|secret|token)s?", word)
    return not known and not named


def _is_line(text: str, begun: int, end: int) -> bool:
    """Whether a name and its value are all that stands on a line; the name may have one word before it."""
    before, after = text[max(0, begun - 40) : begun].rsplit("\n", 1)[-1], text[end : end + 80].split("\n", 1)[0]
    return re.fullmatch(r"[ \t>*-]*[\w.-]*", before) is not None and not after.strip(" \t\r,;")
