"""Other tools' speculative numbers, read into records of counts and seconds, and flagged where they mislead."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specq.imports.record import Flag, Imported
    from specq.imports.totals import Totals

IMPORTED = "imported.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """A file of another tool: its format, records, flags and totals.

    `written` is the file that the records were written to, None without one.
    """

    file: Path
    format: str
    records: tuple[Imported, ...]
    flags: tuple[Flag, ...]
    totals: Totals
    written: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        from specq.imports.record import to_json

        return {
            "file": str(self.file),
            "format": self.format,
            "totals": self.totals.to_json(),
            "records": [to_json(one) for one in self.records],
            "flags": [to_json(one) for one in self.flags],
        }


def import_metrics(
    path: Path | str,
    format: str = "auto",
    *,
    before: Path | str | None = None,
    out: Path | str | None = None,
    keep: bool = True,
) -> Import:
    """Read the speculative counts of another tool's file as records, and flag what is impossible or misleads.

    `before` is an earlier scrape, for Prometheus text alone. With `out` the records and flags are written to
    imported.jsonl in that folder as they are read; with `keep` false they are not held in memory, and the result has
    none of them: a log may be larger than that.

    Raises:
        ConfigError: no such format, a `before` for another one, or `out` is no folder.
        UserError: the file cannot be read, is of no known format or version, or a line is damaged; names the line.
        RunFolderError: `out` holds an imported.jsonl already, or cannot be written. DiskFull: too little space.
    """
    from specq.imports import detect
    from specq.imports.record import Flag, Imported
    from specq.imports.totals import Totals

    if out is not None:
        _check_free(Path(out))
    file = Path(path)
    name, found = detect.reader(file, format, None if before is None else Path(before))
    totals, records, flags = Totals(), list[Imported](), list[Flag]()

    def taken() -> Iterable[Imported | Flag]:
        for one in found:
            totals.add(one)
            if keep and isinstance(one, Flag):
                flags.append(one)
            elif keep and isinstance(one, Imported):
                records.append(one)
            yield one

    written = None
    if out is None:
        for _ in taken():
            pass
    else:
        written = _write(Path(out), taken())
    return Import(file=file, format=name, records=tuple(records), flags=tuple(flags), totals=totals, written=written)


def _check_free(folder: Path) -> None:
    from specq.core import places
    from specq.core.errors import RunFolderError

    places.check_folder(folder)
    if os.path.lexists(folder / IMPORTED):
        raise RunFolderError(f"{folder / IMPORTED} is there already; name another --out, or move it away")


def _write(folder: Path, found: Iterable[Imported | Flag]) -> Path:
    """Write the lines under another name first, so that a file that is refused half-way leaves none behind."""
    from specq.core import jsonl
    from specq.imports.record import to_json

    target, part = folder / IMPORTED, folder / f"{IMPORTED}.part"
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
    except OSError as error:
        raise jsonl.disk_error(error, folder) from error
    lines = jsonl.Appender(part)
    try:
        for one in found:
            lines.append(to_json(one))
        lines.close()
        part.replace(target)
    except BaseException:
        lines.close()
        jsonl.remove(part)
        for place in made:
            with suppress(OSError):
                place.rmdir()
        raise
    return target
