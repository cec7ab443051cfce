"""The only timer. Seconds are float, monotonic and comparable within one process only."""

from __future__ import annotations

import time
from collections.abc import Callable


def now() -> float:
    """Seconds on a monotonic high-resolution clock; the origin is arbitrary."""
    return time.perf_counter()


def utc_stamp() -> str:
    """UTC time to the second as it stands in folder names, for example 20261130T210446Z."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


class Laps:
    """Splits the time of one step into named parts.

    `sync` runs before each reading; on an accelerator it waits for the queue, so that the
    work of one part is not billed to the next.
    """

    __slots__ = ("_last", "_start", "_sync", "parts")

    def __init__(self, sync: Callable[[], None] | None = None) -> None:
        self._sync = sync
        self.restart()

    def restart(self) -> None:
        """Forget all parts and start counting now."""
        if self._sync is not None:
            self._sync()
        self._start = self._last = now()
        self.parts: dict[str, float] = {}

    def lap(self, part: str) -> None:
        """Bill the time since the last reading to `part`."""
        if self._sync is not None:
            self._sync()
        t = now()
        self.parts[part] = self.parts.get(part, 0.0) + (t - self._last)
        self._last = t

    def take(self) -> dict[str, float]:
        """The parts so far; the next parts count on from the last reading, so that no time is lost."""
        parts, self.parts = self.parts, {}
        return parts

    def total(self) -> float:
        """Seconds from the start to the last reading."""
        return self._last - self._start
