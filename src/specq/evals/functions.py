"""A metric of one's own: a Python function in a file, written as "file.py:function".

It is called in a process of its own (`judge`), so that code that ends its process fails an item and no run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.core.errors import ConfigError, RunFailed
from specq.evals.items import Item
from specq.evals.metric import Metric, Score, failed
from specq.evals.options import Options

# A process that closed its pipe is gone, or will be very soon.
_ENDS_S = 2.0


class Function(Options):
    """Options of a metric function: `binary` says that it gives 0 or 1; by default its annotation "-> bool" does."""

    binary: bool | None = None


def is_function(name: str) -> bool:
    """Whether a metric's name is that of a function in a file."""
    return ".py:" in name or name.endswith(".py")


def file_of(name: str) -> str:
    """The file of "file.py:function"; "" for a name that is not of that form."""
    file, _, _ = name.rpartition(".py:")
    return f"{file}.py" if file else ""


def load(name: str, options: Function, folder: Path) -> Metric:
    """The metric of "file.py:function", the file looked for from `folder`. The file is run; it is the user's own.

    The function is called with the answer (a text) and the item (its JSON object, a copy) and gives a bool, or a
    number that is higher where the answer is better. What it raises fails the item, with what it said; so does what
    ends the process that it is called in, which is then started anew for the next item.

    Raises:
        ConfigError: no such file or function, one that does not take two arguments, or a file that raises.
    """
    wanted = name.rpartition(".py:")[2]
    path = folder / (file_of(name) or name)
    if not file_of(name) or not wanted.isidentifier():
        raise ConfigError(f'metric "{name}": allowed is FILE.py:FUNCTION')
    if not path.is_file():
        raise ConfigError(f'metric "{name}": no such file as {path}; allowed is FILE.py:FUNCTION')
    judge = _Judge(name, path, wanted, hashes.of_file(path))
    says_bool = judge.open()
    binary = says_bool if options.binary is None else options.binary
    return Metric(
        name=name,
        output="text",
        binary=binary,
        misfit=lambda item: None,
        judge=lambda item, answer: _judged(judge, item, answer, binary=binary),
        options={"binary": binary},
        sha256=judge.sha256,
    )


class _Judge:
    """The process that a function is called in, started when it is needed and ended with this object."""

    def __init__(self, name: str, path: Path, wanted: str, sha256: str) -> None:
        self.name, self.path, self.wanted, self.sha256 = name, path, wanted, sha256
        self._process: subprocess.Popen[str] | None = None

    def open(self) -> bool:
        """Start it, and tell whether the function's annotation is "-> bool".

        Raises:
            ConfigError: the file cannot be run, or holds no such function.
        """
        words = ["-m", "specq.evals.judge", str(self.path), self.wanted, str(os.getpid())]
        self._process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            # Ctrl-C in a terminal reaches a whole session: it asks the run to stop after this stretch, no item to fail.
            start_new_session=True,
        )
        weakref.finalize(self, _end, self._process, os.getpid())
        found = self._read()
        if found is None:
            raise ConfigError(f'metric "{self.name}": running {self.path} {self._how_it_ended()}')
        if found["refused"]:
            raise ConfigError(f'metric "{self.name}": {found["refused"]}')
        return bool(found["says_bool"])

    def ask(self, answer: str, item: dict[str, Any]) -> dict[str, Any]:
        """What the function says of an answer, or {"why": how its process ended}.

        Raises:
            RunFailed: the process has to be started anew, and the file is not what it was or cannot be run any more.
        """
        if self._process is None:
            self._start_anew()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            # A process that is gone is noticed below.
            with suppress(BrokenPipeError):
                self._process.stdin.write(f"{json.dumps({'answer': answer, 'item': item})}\n")
                self._process.stdin.flush()
            found = self._read()
        except BaseException:
            # A second Ctrl-C: an answer that comes later would be taken for that of the next item.
            _end(self._process, os.getpid())
            self._process = None
            raise
        return {"why": f'metric "{self.name}" {self._how_it_ended()}'} if found is None else found

    def _start_anew(self) -> None:
        try:
            now = hashes.of_file(self.path)
            if now == self.sha256:
                self.open()
                return
            why = f"{self.path} was changed while answers were judged"
        except (OSError, ConfigError) as error:
            why = str(error)
        raise RunFailed(f'metric "{self.name}": its process has to be started anew, and {why}; put the file back')

    def _read(self) -> dict[str, Any] | None:
        """What it says next; None where it ended instead."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = json.loads(line) if line.endswith("\n") else None
        return found if isinstance(found, dict) else None

    def _how_it_ended(self) -> str:
        """Forget the process, which says nothing more, and tell in words how it ended."""
        process, self._process = self._process, None
        assert process is not None
        try:
            code = process.wait(timeout=_ENDS_S)
        except subprocess.TimeoutExpired:
            _end(process, os.getpid())
            return "closed the pipe that its answers go through"
        _end(process, os.getpid())
        if code >= 0:
            return f"ended its process (exit code {code})"
        why = ", killed, most often because memory ran out" if code == -signal.SIGKILL else ""
        return f"ended its process (signal {_name(-code)}{why})"


def _name(number: int) -> str:
    # Those of real time have no name.
    return signal.Signals(number).name if number in {int(one) for one in signal.Signals} else str(number)


def _end(process: subprocess.Popen[str], owner: int) -> None:
    """End a process and close its pipes; in a fork of the owner it is somebody else's."""
    if os.getpid() != owner:
        return
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _judged(judge: _Judge, item: Item, answer: str, *, binary: bool) -> Score:
    found = judge.ask(answer, dict(item.given))
    if "why" in found:
        return failed(found["why"])
    value = found["value"]
    if binary and value not in (0, 1):
        return failed(f"returned {value}, allowed is 0 or 1 for a binary metric")
    return Score(value=float(value))
