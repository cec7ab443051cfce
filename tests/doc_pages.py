"""Reading the documentation: chapters, tables whose rows begin with code, and fenced blocks."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def chapters(text: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows whose first cell begins with code."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def blocks(text: str, language: str) -> list[tuple[str, str]]:
    """Fenced blocks of a language: the words after it, and the body."""
    return re.findall(rf"^```{language}([^\n]*)\n(.*?)^```$", text, flags=re.M | re.S)
