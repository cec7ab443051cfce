"""Text files that a user wrote: UTF-8, read whole, and their lines by number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from specq.core.errors import PromptError


def read(path: Path) -> str:
    """The text of a file, without a byte order mark.

    Raises:
        PromptError: it is not UTF-8; the message names the line.
        OSError, ValueError: it cannot be read, or no file can have that name.
    """
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise PromptError(f"{path}:{line}: not UTF-8 text; save the file as UTF-8") from error


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """The lines that hold something, counted from 1 with those that hold nothing.

    Only a newline ends a line: JSON strings may hold the other separators that splitlines cuts at.
    """
    return ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())
