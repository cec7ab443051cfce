"""Tables of a load run with a row for each server and level."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specq.load.found import Found, Level
from specq.report.section import Section, table


def by_level(
    found: Found,
    title: str,
    columns: tuple[str, ...],
    row: Callable[[Level], Sequence[str] | None],
    lines: Sequence[str] = (),
) -> Section:
    """A table with a row for each level that has one."""
    told = [(one, row(one)) for one in found.levels]
    rows = [(name_of(found, one), *cells) for one, cells in told if cells is not None]
    return table(title, (found.asked.unit, *columns), rows, lines)


def name_of(found: Found, one: Level) -> str:
    """A level in the first column, with its server where there are several."""
    return f"{one.server} {one.level:g}" if len(found.asked.servers) > 1 else f"{one.level:g}"
