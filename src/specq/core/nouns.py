"""Counts beside their nouns, and names in a row."""

from __future__ import annotations

from collections.abc import Sequence


def counted(count: int, noun: str, many: str = "") -> str:
    """A count and its noun, which agree: "1 item", "1,200 items"; `many` is the plural that is not noun + "s"."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them: "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
