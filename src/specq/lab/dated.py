"""Facts from outside as dated TOML files: machines and price sheets, found by name and read with their refusals."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar

from specq.core.errors import ConfigError, nearest

T = TypeVar("T")


def folders(folder: Path) -> tuple[Path, ...]:
    """Where files are looked for by name: under the current folder, then beside the source that runs."""
    return folder, Path(__file__).parents[3] / folder


def find(given: Path | str, folder: Path, *, noun: str, many: str, typed: str) -> Path:
    """The file that is given by name or as a file; `typed` is what to type instead.

    Raises:
        ConfigError: there is no such file, and none of that name.
    """
    path = Path(given).expanduser()
    if path.is_file():
        return path
    for place in folders(folder):
        # A name is one word: what has a folder or an ending was meant as a file.
        if path.name == str(given) and (found := place / f"{given}.toml").is_file():
            return found
    names = sorted({file.stem for place in folders(folder) for file in place.glob("*.toml")})
    known = f"{many} are {', '.join(names)}" if names else f"{folder}/ has none"
    raise ConfigError(f'no {noun} "{given}"{nearest(path.stem, names) or ";"} {known}; type {typed}')


def read(path: Path, build: Callable[[Path, Mapping[str, Any]], T], *, noun: str, keys: Sequence[str]) -> T:
    """What `build` makes of a file's values, which have no other keys than these.

    Raises:
        ConfigError: it is no TOML, or a key or a value is wrong; in one line that begins with the file.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as TOML ({error}); name a {noun}") from error
    try:
        for key in values:
            if key not in keys:
                raise ConfigError(f'unknown key "{key}"{nearest(key, keys) or ";"} allowed: {", ".join(keys)}')
        return build(path, values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def day(values: Mapping[str, Any], meaning: str) -> date:
    """The day under `date`, of a day or a moment; `meaning` says what it is the day of.

    Raises:
        ConfigError: there is none.
    """
    found = values.get("date")
    if isinstance(found, datetime):
        found = found.date()
    if not isinstance(found, date):
        given = "date is missing" if found is None else f"date = {found!r}"
        raise ConfigError(f"{given}: it is the day on which {meaning}, without quotes; type date = 2026-01-31")
    return found


def ahead(file: Path, of: date, today: date) -> str | None:
    """A sentence about a file that is dated after today; None of one that is not."""
    return f"{file} is dated {of}, after today: correct its date" if of > today else None


def texts(values: Mapping[str, Any], typed: Mapping[str, str]) -> dict[str, str]:
    """The texts under the keys of `typed`, stripped; its values are lines to type.

    Raises:
        ConfigError: one is missing, is no text, or is empty.
    """
    for key, line in typed.items():
        text = values.get(key)
        if not isinstance(text, str) or not text.strip():
            given = f"{key} is missing" if text is None else f"{key} = {text!r}"
            raise ConfigError(f"{given}: it is a text that is not empty; type {line}")
    return {key: values[key].strip() for key in typed}
