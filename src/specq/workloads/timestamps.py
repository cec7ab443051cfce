"""When requests came: times as logs and traces write them, in seconds after the earliest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from specq.core.errors import ConfigError, nearest
from specq.core.nouns import counted

Unit = Literal["s", "ms", "us", "ns", "iso"]
AUTO = "auto"
KEYS = (
    *("timestamp", "ts", "time", "at", "at_s", "arrival_time", "arrived_at", "arrival", "request_time", "start_time"),
    *("startTime", "created_at", "createdAt", "created", "datetime", "date"),
)
"""The keys that times are looked for under, whatever their case; the first of a row counts."""
_PER_S: dict[Unit, float] = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
# 2001 and later, as seconds since 1970; the next unit begins a thousand times higher.
_EPOCH_S = 1e9
_LONGEST_S = 10 * 365 * 86400.0
_TAILS = {"p50": (0.5, 1), "p95": (0.95, 20), "p99": (0.99, 100)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The times of a file's rows: `at_s` in their order, in seconds after the earliest, None for a row without one.

    `unit` is how they are written, `told` whether the user or the numbers themselves say so ("guessed" where whole
    numbers are too small to be a date). `back` counts the places where the clock goes back against the row before,
    `back_s` is the longest such step and `back_line` the line of the first. `unread` are the lines of times that are
    none.
    """

    at_s: tuple[float | None, ...]
    unit: Unit
    guessed: bool
    back: int
    back_s: float
    back_line: int
    unread: tuple[int, ...]
    naive: int = 0

    @property
    def sorted_s(self) -> tuple[float, ...]:
        """The times in rising order: what a load replays."""
        return tuple(sorted(at for at in self.at_s if at is not None))

    @property
    def missing(self) -> int:
        """Rows without a time that could be read."""
        return sum(at is None for at in self.at_s)

    def rate(self) -> dict[str, Any] | None:
        """Requests a second and the gaps between them; None with fewer than two times or all at one.

        `gap_spread` is the standard deviation of the gaps over their mean: 1 for a Poisson process, 0 for a steady
        one. `busiest` is the most requests in any one minute from a request on.
        """
        times = np.array(self.sorted_s)
        if times.size < 2 or times[-1] == 0:
            return None
        gaps = np.diff(times)
        tails = {
            name: float(np.quantile(gaps, q)) if gaps.size >= least else None for name, (q, least) in _TAILS.items()
        }
        until = np.searchsorted(times, times + 60.0, side="left")
        return {
            "requests": int(times.size),
            "span_s": float(times[-1]),
            "per_s": float(gaps.size / times[-1]),
            "gap_s": tails,
            "gap_spread": float(gaps.std() / gaps.mean()),
            "busiest_minute": int((until - np.arange(times.size)).max()),
        }

    def notes(self) -> tuple[str, ...]:
        """What a reader of the times must know."""
        found = []
        if self.back:
            found.append(
                f"the clock goes back {counted(self.back, 'time')}, by {self.back_s:,.3f} s at most, first at line "
                f"{self.back_line}: the file is not in the order of its times; rates take them sorted"
            )
        if self.guessed:
            found.append(
                "times are whole numbers too small to be dates, and were read as seconds: --time-unit ms if they are "
                "milliseconds"
            )
        if self.naive and self.naive < len(self.at_s) - self.missing:
            found.append(f"{counted(self.naive, 'time')} without a zone beside others with one: taken as UTC")
        if self.unread:
            found.append(f"{counted(len(self.unread), 'time')} could not be read, first at line {self.unread[0]}")
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """Everything but the times themselves, as JSON values."""
        told = {key: value for key, value in asdict(self).items() if key not in ("at_s", "unread")}
        return {**told, "timed": len(self.at_s) - self.missing, "missing": self.missing, "rate": self.rate()}


def check_unit(unit: str) -> None:
    """Refuse a unit that there is not. Raises ConfigError."""
    allowed = (AUTO, *get_args(Unit))
    if unit not in allowed:
        raise ConfigError(f"time unit {unit}{nearest(unit, allowed) or ';'} allowed: {', '.join(allowed)}")


def arrivals(values: Sequence[Any], lines: Sequence[int], unit: str = AUTO, key: str = "") -> Arrivals | None:
    """The times of rows (None where a row has none), as they are written; None where no row has a time.

    `unit` says what numbers count, or "auto": numbers of 10 digits before the point are seconds since 1970, of 13
    milliseconds, of 16 microseconds, of 19 nanoseconds; smaller ones are seconds unless `key` ends in another unit's
    name.

    Raises:
        ConfigError: no such unit.
    """
    check_unit(unit)
    read = [_read(value) for value in values]
    numbers = [found for found in read if isinstance(found, float)]
    dates = [found for found in read if isinstance(found, datetime)]
    if not numbers and not dates:
        return None
    as_dates = unit == "iso" or (unit == AUTO and len(dates) >= len(numbers))
    scale: Unit
    scale, guessed = ("iso", False) if as_dates else _scale(numbers, unit, key)
    seconds = [_seconds(found, scale) for found in read]
    unread = tuple(
        line
        for line, value, at in zip(lines, values, seconds, strict=True)
        if at is None and value is not None and value != ""
    )
    known = [(line, at) for line, at in zip(lines, seconds, strict=True) if at is not None]
    if not known:
        return None
    back = [(line, was - at) for (_, was), (line, at) in pairwise(known) if at < was]
    first = min(at for _, at in known)
    return Arrivals(
        at_s=tuple(None if at is None else at - first for at in seconds),
        unit=scale,
        guessed=guessed,
        back=len(back),
        back_s=max((step for _, step in back), default=0.0),
        back_line=back[0][0] if back else 0,
        unread=unread,
        naive=sum(one.tzinfo is None for one in dates) if scale == "iso" else 0,
    )


def key_of(value: dict[str, Any]) -> str | None:
    """The key of a row that holds its time, None where there is none."""
    lowered = {key.strip().lower(): key for key in reversed(value)}
    for key in KEYS:
        for name in (key.lower(), *(f"{key.lower()}_{unit}" for unit in _PER_S)):
            if name in lowered:
                return lowered[name]
    return None


def _read(value: Any) -> float | datetime | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 2**63 else None
    text = str(value).strip()
    try:
        number = float(text)
        return number if abs(number) < 2**63 else None
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _seconds(found: float | datetime | None, scale: Unit) -> float | None:
    if isinstance(found, datetime):
        return (found.replace(tzinfo=found.tzinfo or UTC)).timestamp() if scale == "iso" else None
    return None if found is None or scale == "iso" else found / _PER_S[scale]


def _scale(numbers: Sequence[float], unit: str, key: str) -> tuple[Unit, bool]:
    """The unit of numbers, and whether it is a guess."""
    if unit != AUTO:
        return unit, False  # type: ignore[return-value]
    low, middle, high = (float(np.quantile(numbers, q)) for q in (0.05, 0.5, 0.95))
    for name, per_s in reversed(_PER_S.items()):
        # A trace that counts small units from 0 reaches the numbers of dates too, but not within some years of each
        # other.
        if middle >= _EPOCH_S * per_s and (high - low) / per_s < _LONGEST_S:
            return name, False
    for name in reversed(_PER_S):
        if key.lower().endswith(f"_{name}"):
            return name, False
    return "s", all(number == int(number) for number in numbers)
