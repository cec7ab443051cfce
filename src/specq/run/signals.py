"""Ctrl-C, SIGTERM and SIGHUP as one exception, so that a stop always ends with a line that says how to go on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

USUAL: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


class Stopped(KeyboardInterrupt):
    """A signal asked this process to stop; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def raised() -> Iterator[None]:
    """While the block runs, the signals raise Stopped in the main thread.

    A signal that is ignored (as under nohup) or that somebody else handles is left as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    mine = [number for number, usual in USUAL.items() if signal.getsignal(number) == usual]
    for number in mine:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, USUAL[number])


def number_of(error: KeyboardInterrupt) -> int:
    """The number of the signal behind the exception; that of Ctrl-C where nothing else is known."""
    return error.number if isinstance(error, Stopped) else int(signal.SIGINT)


def name_of(error: KeyboardInterrupt) -> str:
    """What a user calls the signal behind the exception."""
    number = number_of(error)
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)
