"""An event loop whose clock goes on only when nothing is there to be read: waits pass at once, and none is missed."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from specq.core import clock

T = TypeVar("T")
# How long a busy machine may take to pass bytes from one socket to another.
_PASSED_S = 0.01
# Two readings of a clock are never the same.
_TICK_S = 1e-9


class _Selector(selectors.DefaultSelector):
    """Adds what would be waited to `now_s`, in the place of waiting."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        waits = timeout is not None and timeout > 0
        ready = super().select(_PASSED_S if waits else timeout)
        if waits and timeout is not None and not ready:
            self.now_s += timeout
        return ready

    def read_s(self) -> float:
        """The time now."""
        self.now_s += _TICK_S
        return self.now_s


def run(work: Coroutine[Any, Any, T], *, debug: bool = False) -> T:
    """As asyncio.run, with the clock of specq in the loop's own time; both sides of a connection are in this loop."""
    selector = _Selector()
    loop = asyncio.SelectorEventLoop(selector)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "time", selector.read_s)
        patched.setattr(clock, "now", selector.read_s)
        with asyncio.Runner(debug=debug, loop_factory=lambda: loop) as runner:
            return runner.run(work)
