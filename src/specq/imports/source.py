"""Files of other tools, read a line at a time: a log may be larger than the memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from specq.core.errors import UserError
from specq.imports.entry import refusal, short

MOST_BYTES = 2**28
"""A JSON document that is not one object a line is held whole, and so may be this long at most."""
_ONE_A_LINE = "write one whole JSON object on each line"


def opened(path: Path) -> BinaryIO:
    """The file, open for reading.

    Raises:
        UserError: it is not there, or cannot be read.
    """
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"import: {path} cannot be read ({why}); give a file that another tool wrote") from error


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that hold something, from 1 on.

    Raises:
        UserError: as `opened`; or a line is longer than MOST_BYTES.
    """
    with opened(path) as file:
        number = 0
        while line := file.readline(MOST_BYTES + 1):
            number += 1
            if len(line) > MOST_BYTES:
                raise refusal(path, number, f"a line of more than {MOST_BYTES >> 20} MiB", _ONE_A_LINE)
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if line.strip():
                yield number, line


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a log. Bytes that are no UTF-8 are kept as marks: a model's text stands among them."""
    return ((number, line.decode("utf-8", "replace").rstrip("\r\n")) for number, line in raw_lines(path))


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file with the lines that they begin on: one a line, one document, or a list of objects.

    Raises:
        UserError: a line is cut, damaged or no object; the message names it.
    """
    lines = raw_lines(path)
    first = next(lines, None)
    if first is None:
        raise UserError(f"{path}: the file is empty; give a file that another tool wrote")
    number, line = first
    try:
        value = _parsed(line)
    except ValueError as error:
        # A document over many lines ends its first line with one of these; a damaged line of JSONL seldom does.
        if line.strip()[-1:] not in (b"{", b"[", b","):
            raise _damaged(path, number, error) from error
        number, value = _document(path)
        yield from _items(path, number, value)
        return
    if isinstance(value, list):
        if (more := next(lines, None)) is not None:
            raise refusal(path, more[0], "more after the list", "allowed is one list of objects")
        yield from _items(path, number, value)
        return
    yield number, _object(path, number, value)
    for number, line in lines:
        try:
            value = _parsed(line)
        except ValueError as error:
            raise _damaged(path, number, error) from error
        yield number, _object(path, number, value)


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _document(path: Path) -> tuple[int, Any]:
    with opened(path) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise refusal(path, 1, f"one JSON document of more than {MOST_BYTES >> 20} MiB", _ONE_A_LINE)
    try:
        return 1, _parsed(data.removeprefix(b"\xef\xbb\xbf"))
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise refusal(path, error.lineno, "a second JSON document begins here", _ONE_A_LINE) from error
        # What ends too early ends on its last line, not on the empty one after it.
        last = error.doc.rstrip().count("\n") + 1
        raise _damaged(path, min(error.lineno, last), error) from error
    except ValueError as error:
        raise _damaged(path, 1, error) from error


def _damaged(path: Path, number: int, error: ValueError) -> UserError:
    why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
    return refusal(path, number, f"no whole JSON ({why})", "the line is cut or damaged: take it out, or write it again")


def _object(path: Path, number: int, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refusal(path, number, f"found {short(value)}", "allowed is a JSON object")
    return value


def _items(path: Path, number: int, value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    for one in value if isinstance(value, list) else [value]:
        yield number, _object(path, number, one)
