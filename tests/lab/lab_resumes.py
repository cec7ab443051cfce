"""Runs of the lab that stop, on fakes: what is asked stops or fails, and the next one answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab_fakes import LENGTHS, Fake

import specq
from specq.core.errors import RunFailed
from specq.core.types import Prompt
from specq.lab.requester import Answer

URL = "http://127.0.0.1:9"
HOW: dict[str, Any] = {"lengths": LENGTHS, "new_tokens": 16, "repeats": 2, "batch": (1, 2), "seed": 3}


class Stops(Fake):
    """A fake that is sent a signal as it answers request `at`, or answers none from there on."""

    def __init__(self, at: int, number: int | None = None, **laws: Any) -> None:
        super().__init__(**laws)
        self._at, self._number = at, number

    def ask(self, prompt: Prompt, max_tokens: int, **how: Any) -> Answer:
        """As a fake."""
        if len(self.asked) >= self._at:
            if self._number is None:
                raise RunFailed("fake: a request failed (ConnectError): nobody listens")
            os.kill(os.getpid(), self._number)
        return super().ask(prompt, max_tokens, **how)


def answers(*fakes: Fake) -> Callable[..., Any]:
    """What opens these one after another, in the place of servers."""
    left = iter(fakes)

    @contextmanager
    def opened(*args: Any, **how: Any) -> Iterator[Fake]:
        yield next(left)

    return opened


def measure(out: Path, **how: Any) -> Path:
    """The folder of a run, which may fail."""
    specq.measure_requests(URL, out=out, **{**HOW, **how})
    return only(out)


def only(out: Path) -> Path:
    """The one run there."""
    (run,) = (out / "lab").iterdir()
    return run
