"""Python's garbage collector, which makes streams late."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def left() -> Iterator[None]:
    """Let nobody look for garbage while streams are timed: a look through all objects takes tens of milliseconds.

    What is left without it are cycles, of which a request leaves few; they are looked for between two points.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
        gc.collect()
