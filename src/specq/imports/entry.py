"""One place in a file that is read: typed values, and what was wrong with them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from specq.core.errors import UserError
from specq.core.typed import LARGEST
from specq.imports.record import FLAGS, Flag

Object = Mapping[str, Any]
_SHOWN = 60


def short(value: Any) -> str:
    """A foreign value in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def refusal(path: Path, line: int, found: str, known: str) -> UserError:
    """The error for a line of a file: what was found there, and what is known or to be done."""
    return UserError(f"{path}:{line}: {found}; {known}")


class Entry:
    """A request's place in the file. `flags` gathers what is wrong with it, in the order of finding."""

    def __init__(self, path: Path, line: int, request: str | None = None) -> None:
        self.path = path
        self.line = line
        self.request = request
        self.flags: list[Flag] = []

    def flag(self, name: str, text: str) -> None:
        """Note something that does not stop the import."""
        if name not in FLAGS:
            raise ValueError(f"no flag {name}")
        self.flags.append(Flag(name=name, line=self.line, request=self.request, text=text))

    def refuse(self, found: str, known: str) -> UserError:
        """The error that ends the import here."""
        return refusal(self.path, self.line, found, known)

    def known(self, where: str, given: Object, keys: Collection[str]) -> None:
        """Refuse keys that this version of the format lacks: what they count cannot be guessed."""
        if extra := sorted(str(key) for key in given if key not in keys):
            found = f"{where} has {', '.join(extra[:5])}{', ...' if len(extra) > 5 else ''}"
            raise self.refuse(found, f"another version of the format; known are {', '.join(sorted(keys))}")

    def object(self, where: str, value: Any) -> Object | None:
        """A JSON object, or None where it is null or absent."""
        if value is None or isinstance(value, dict):
            return value
        raise self.refuse(f"{where} is {short(value)}", "allowed is an object")

    def number(self, where: str, value: Any, scale: float = 1.0) -> float | None:
        """A finite number of 0 or more, times `scale`; None where it is null or absent, or flagged as no number."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(f"{where} is {short(value)}", "allowed is a number")
        if not math.isfinite(value) or not 0 <= value < LARGEST:
            self.flag("not_a_number", f"{where} is {value}; it counts as unknown")
            return None
        return value * scale

    def count(self, where: str, value: Any) -> int | None:
        """A whole number of 0 or more; as `number` otherwise."""
        found = self.number(where, value)
        if found is None or found == int(found):
            return None if found is None else int(found)
        self.flag("not_a_number", f"{where} is {value}, no whole number; it counts as unknown")
        return None

    def counts(self, where: str, value: Any) -> tuple[int, ...] | None:
        """A list of whole numbers; None where it is null or absent, or where one of them is flagged."""
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.refuse(f"{where} is {short(value)}", "allowed is a list of whole numbers")
        found = [self.count(f"{where}[{place}]", one) for place, one in enumerate(value)]
        whole = [one for one in found if one is not None]
        return tuple(whole) if len(whole) == len(found) else None

    def sparse(self, where: str, value: Any) -> tuple[int, ...] | None:
        """A histogram written as an object from whole numbers to counts, as a list from 0 on."""
        given = self.object(where, value)
        if given is None:
            return None
        if bad := [key for key in given if not (str(key).isascii() and str(key).isdigit() and len(str(key)) < 6)]:
            raise self.refuse(f"{where} has the key {short(bad[0])}", "allowed are whole numbers")
        top = max(map(int, given), default=0)
        return self.counts(where, [given.get(str(j), 0) for j in range(top + 1)])


def finish(value: Any) -> str | None:
    """Why an answer ended, in this project's words: length, stop or eos; another tool's own word otherwise."""
    if isinstance(value, dict):
        value = value.get("type")
    if not isinstance(value, str) or value in ("", "none"):
        return None
    return {"limit": "length", "word": "stop", "max_tokens": "length"}.get(value, value)
