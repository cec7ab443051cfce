"""The key of a server: read from the environment, put into one header, and shown nowhere."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from specq.core.errors import UserError

SHORTEST = 8
"""Keys of fewer characters are words that servers without keys are given, such as `none`; answers may have them too."""
# Words in capitals with underscores between them, none of them as long as a key.
_NAME = re.compile(r"(?=.*_|KEY|TOKEN)[A-Z][A-Z0-9]{0,15}(?:_[A-Z0-9]{1,15})*")


class Key:
    """The key that an environment variable holds, or none; only `header` gives it out."""

    __slots__ = ("_forms", "_value", "name")

    def __init__(self, name: str | None) -> None:
        """Read the variable.

        Raises:
            UserError: it is not set, or cannot stand in a header; the message has its name alone, and not even that
                where it does not look like a variable's name, for it may be the key itself.
        """
        self.name = name
        self._value: str | None = None
        self._forms: tuple[str, ...] = ()
        if name is None:
            return
        value = os.environ.get(name, "")
        if not value and not _NAME.fullmatch(name):
            raise UserError(
                "key_env takes the name of an environment variable, such as SERVER_API_KEY; the environment has none "
                "of the name given, which is not repeated here, for it may be the key itself"
            )
        if not value:
            raise UserError(f'key_env = "{name}": the environment has no such variable; set it to the key')
        if not (value.isascii() and value.isprintable()) or " " in value:
            raise UserError(
                f'key_env = "{name}": the key in it has a space, a line end or a letter that is not ASCII; set it to '
                "the key alone"
            )
        self._value = value
        if len(value) >= SHORTEST:
            # As it is, as JSON writes it, with and without its slashes escaped, and as an address has it.
            escaped = json.dumps(value)[1:-1]
            forms = {value, escaped, escaped.replace("/", "\\/"), quote(value, safe=""), quote(value)}
            self._forms = tuple(sorted(forms, key=len, reverse=True))

    def header(self) -> str:
        """The line of a request's head that carries the key; nothing where there is none."""
        return "" if self._value is None else f"Authorization: Bearer {self._value}\r\n"

    def hide(self, text: str) -> str:
        """The text without the key: `[NAME]` stands in its place."""
        for form in self._forms:
            text = text.replace(form, f"[{self.name}]")
        return text

    def hide_in(self, value: Any) -> Any:
        """A JSON value without the key, in whatever text or name of it."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, Mapping):
            return {self.hide(str(name)): self.hide_in(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.hide_in(one) for one in value]
        return value

    def __repr__(self) -> str:
        return f"Key({self.name!r})"

    def __reduce__(self) -> Any:
        raise TypeError(f"the key of {self.name} is not written anywhere; name the variable in the other process")
