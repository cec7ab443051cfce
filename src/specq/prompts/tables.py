"""The tables of protected fields (fields.toml) as regular expressions, and where numbers and words begin and end."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TABLES: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("fields.toml").read_text(encoding="utf-8"))
# Scripts that write words without spaces, or particles against them: Thai, Lao, Myanmar, Khmer, kana, Han, Hangul.
_SPACELESS = (
    r"\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u3131-\u318e\u3400-\u4dbf\u4e00-\u9fff"
    r"\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f"
)
NO_LETTER = rf"[^\W{_SPACELESS}]"
"""A letter, digit or underscore that a word or a number may not touch."""
BEGIN = rf"(?<!{NO_LETTER})(?<!\d[.,])"
END = rf"(?!{NO_LETTER})"
_SPACELESS_FIRST = re.compile(rf"[\[(]*[{_SPACELESS}]")
# Full-width signs and digits as those of ASCII, one for one, so that places stay.
_FOLD = {0xFF01 + i: chr(0x21 + i) for i in range(94)} | {
    0x3000: " ", 0xFFE0: "\u00a2", 0xFFE1: "\u00a3", 0xFFE5: "\u00a5", 0xFFE6: "\u20a9", 0x301C: "~", 0xFE69: "$"
}  # fmt: skip


def fold(text: str) -> str:
    """A text of the same length with full-width forms in their narrow ones."""
    return text.translate(_FOLD)


def choice(entries: Iterable[str], *, exact: bool = False, begin: str = BEGIN, end: str = END) -> str:
    """A pattern for any of the entries; those that begin in a script without spaces stand within words too.

    Longer entries come first, for of alternatives the first that fits is taken.
    """
    told = sorted(dict.fromkeys(entries), key=len, reverse=True)
    spaced = "|".join(one.replace(" ", r"\s") for one in told if not _SPACELESS_FIRST.match(one))
    others = "|".join(one for one in told if _SPACELESS_FIRST.match(one))
    parts = [rf"{begin}(?:{spaced}){end}"] * bool(spaced) + [f"(?:{others})"] * bool(others)
    return f"(?:{'|'.join(parts)})" if exact else f"(?i:{'|'.join(parts)})"


def languages(kind: str) -> re.Pattern[str]:
    """The words of a kind of clause, in every language of its table."""
    return re.compile(choice(entry for told in TABLES[kind].values() for entry in told))
