"""The rows of a file that others wrote: JSON lines, a JSON list, a CSV table or plain text.

A row that is damaged is a row with a fault, and no error: what is dropped is counted by whoever reads on.
"""

from __future__ import annotations

import csv
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from specq.core.errors import PromptError

Kind = Literal["json", "csv", "numbers", "text"]
MOST_BYTES = 2**31
"""A list in one JSON document is held whole, and so may be this long at most; lines are read one at a time."""
_LONGEST_LINE = 2**28
_NUMBER = re.compile(rb"\s*[-+]?\d+(\.\d*)?([eE][-+]?\d+)?\s*")
_BOM = b"\xef\xbb\xbf"
# What gzip, zstd, xz, zip and Parquet files begin with.
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"PK\x03\x04", b"PAR1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: `line` from 1 (in a list its place), the object, its text where it stands on a line of its own.

    `fault` says why there is no object.
    """

    line: int
    value: dict[str, Any] | None = None
    text: str = ""
    fault: str = ""


def kind_of(path: Path) -> Kind:
    """What a file is made of, from its first line that holds something.

    Raises:
        PromptError: it cannot be read, or is empty.
    """
    with _opened(path) as file:
        while line := file.readline(_LONGEST_LINE):
            line = line.removeprefix(_BOM).strip()
            if not line:
                continue
            if b"\0" in line or line.startswith(_PACKED):
                raise PromptError(f"{path}: no UTF-8 text; unpack it if it is packed, or save it as UTF-8")
            if line[:1] in (b"{", b"["):
                return "json"
            if _NUMBER.fullmatch(line):
                return "numbers"
            return "csv" if _is_header(line) else "text"
    raise PromptError(f"{path}: the file is empty; give a file of prompts, a log or a trace")


def _is_header(line: bytes) -> bool:
    """Whether a line names the columns of a trace: words without blanks around commas, one of them a time."""
    cells = [cell.strip(' "').lower() for cell in line.decode("utf-8", "replace").split(",")]
    return all(re.fullmatch(r"[a-z][\w ]{0,40}", cell) for cell in cells) and any(
        re.search(r"time|^ts$|arriv|^at_s$", cell) for cell in cells
    )


def rows(path: Path, kind: Kind) -> Iterator[Row]:
    """The rows of a file in order.

    Raises:
        PromptError: the file cannot be read, or a document that is no list of objects is damaged or too long.
    """
    if kind == "csv":
        yield from _table(path)
        return
    lines = _lines(path)
    first = next(lines, None)
    if first is None:
        return
    if kind == "numbers":
        yield Row(line=first[0], value={"timestamp": first[1].strip()})
        for number, line in lines:
            yield Row(line=number, value={"timestamp": line.strip()})
        return
    number, line = first
    value, fault = _parsed(line)
    # A document over many lines ends its first line with one of these; a damaged line of JSONL seldom does.
    if isinstance(value, list) or (fault and line.strip()[-1:] in ("{", "[", ",")):
        yield from _document(path)
        return
    yield _row(number, line, value, fault)
    for number, line in lines:
        yield _row(number, line, *_parsed(line))


def text_of(path: Path) -> str:
    """The whole text of a plain text file. Raises PromptError where it cannot be read or is no UTF-8."""
    with _opened(path) as file:
        data = file.read().removeprefix(_BOM)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise PromptError(f"{path}:{line}: not UTF-8 text; save the file as UTF-8") from error


def _opened(path: Path) -> BinaryIO:
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise PromptError(f"{path}: no such file; give a file of prompts, a log or a trace") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise PromptError(f"{path}: cannot be read ({why}); give a file of prompts, a log or a trace") from error
    # The format is told by a first reading, and what has gone through a pipe does not come again.
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise PromptError(f"{path}: a pipe or a device, which cannot be read twice; save it as a file first")
    return file


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that hold something. A line that is no UTF-8 keeps its bytes as lone surrogates, which no row may."""
    with _opened(path) as file:
        number = 0
        while line := file.readline(_LONGEST_LINE + 1):
            number += 1
            if len(line) > _LONGEST_LINE:
                raise PromptError(
                    f"{path}:{number}: a line of more than {_LONGEST_LINE >> 20} MiB; write one JSON object a line"
                )
            line = line.removeprefix(_BOM) if number == 1 else line
            if line.strip():
                yield number, line.decode("utf-8", "surrogateescape")


def _parsed(line: str) -> tuple[Any, str]:
    try:
        # What is no JSON number could not be written again, and a key that stands twice hides a value.
        return json.loads(line, parse_constant=_refuse, object_pairs_hook=_once), ""
    except RecursionError:
        return None, "nested too deeply"
    except json.JSONDecodeError as error:
        return None, f"no whole JSON ({error.msg})"
    except ValueError as error:
        # Python tells the digits of a number that is too long for it, and those differ from row to row.
        return None, "a number of too many digits" if "digits" in str(error) else str(error)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _row(number: int, text: str, value: Any, fault: str) -> Row:
    if not fault and not isinstance(value, dict):
        fault = f"a {type(value).__name__} and no JSON object"
    if not fault and re.search("[\udc80-\udcff]", text):
        fault = "not UTF-8 text"
    return Row(line=number, fault=fault) if fault else Row(line=number, value=value, text=text)


def _document(path: Path) -> Iterator[Row]:
    with _opened(path) as file:
        data = file.read(MOST_BYTES + 1).removeprefix(_BOM)
    if len(data) > MOST_BYTES:
        raise PromptError(f"{path}: one JSON document of more than {MOST_BYTES >> 30} GiB; write one object a line")
    try:
        found = json.loads(data.decode(), parse_constant=_refuse, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise PromptError(
            f"{path}:{error.lineno}: no whole JSON ({error.msg}); write one JSON list, or one object a line"
        ) from error
    except (ValueError, RecursionError) as error:
        raise PromptError(f"{path}: no JSON that can be read ({error}); write one object a line") from error
    for place, value in enumerate(found if isinstance(found, list) else [found], start=1):
        if isinstance(value, dict):
            yield Row(line=place, value=value)
        else:
            yield Row(line=place, fault=f"a {type(value).__name__} and no JSON object")


def _table(path: Path) -> Iterator[Row]:
    names: list[str] = []
    for number, line in enumerate(text_of(path).split("\n"), start=1):
        if not line.strip(" ,\t\r"):
            continue
        try:
            # Each line by itself: a quotation mark that a cut left open would swallow all lines behind it.
            (cells,) = csv.reader([line.rstrip("\r")], strict=True)
        except csv.Error as error:
            yield Row(line=number, fault=f"no cells that can be read ({error})")
            continue
        if not names:
            names = [cell.strip() for cell in cells]
            if len(set(names)) < len(names):
                raise PromptError(f"{path}:{number}: a heading stands twice; give each column a name of its own")
        elif len(cells) != len(names):
            yield Row(line=number, fault=f"{len(cells)} cells under {len(names)} headings")
        else:
            yield Row(line=number, value=dict(zip(names, cells, strict=True)))
