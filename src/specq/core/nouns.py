"""Counts beside their nouns, names in a row, and names of ASCII alone."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence


def counted(count: int, noun: str, many: str = "") -> str:
    """A count and its noun, which agree: "1 item", "1,200 items"; `many` is the plural that is not noun + "s"."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them: "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def slug(name: str, otherwise: str) -> str:
    """A name in letters, digits, "_" and "-" of ASCII: letters lose their marks, and all else becomes "-".

    `otherwise` where nothing is left.
    """
    bare = "".join(one for one in unicodedata.normalize("NFKD", name) if not unicodedata.combining(one))
    return re.sub(r"[^A-Za-z0-9_-]+", "-", bare).strip("-_") or otherwise
