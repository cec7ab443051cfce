"""Servers as processes: started in a group of their own and stopped whole, or attached to by their URL.

What was not started here is never stopped here.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from specq.core import clock, jsonl
from specq.core.errors import ServerGone, Unsupported
from specq.engines.served import control, keeper, scheme
from specq.engines.served.address import base_of
from specq.engines.served.kinds.base import HOST, Command

LIMIT_S = 600.0
"""How long a server may take to load its weights, unless somebody says otherwise."""
SHOWN = 12
_POLL_S = 0.1
_ASK_S = 5.0
_started: weakref.WeakSet[Server] = weakref.WeakSet()


class Server:
    """A server that answers at `url`; a context manager, which stops it where it was started here.

    `log` is the file with all that a started server wrote, None for one that was attached to.
    """

    def __init__(self, url: str, *, process: subprocess.Popen[bytes] | None = None, log: Path | None = None) -> None:
        self.url, self.log = base_of(url), log
        self._process, self._owner = process, os.getpid()
        if process is not None:
            _started.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def started_here(self) -> bool:
        """Whether this process started it, and so may stop it."""
        return self._process is not None

    @property
    def owned(self) -> bool:
        """Whether this very process started it, and not the one that it was forked from."""
        return self.started_here and self._owner == os.getpid()

    @property
    def pid(self) -> int | None:
        """The process group of a started server: every process of it is in there; None for one attached to."""
        return None if self._process is None else self._process.pid

    def ended(self) -> int | None:
        """The exit code of a started server that has ended; None while it runs, and for one attached to."""
        if self._process is None or self._process.poll() is None:
            return None
        self._clear()
        return self._process.returncode

    def stop(self, grace_s: float = keeper.GRACE_S) -> None:
        """Ask a started server's whole group to end, and kill what is left of it after `grace_s` seconds."""
        if self._process is None or self.ended() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_s)
        self._clear()
        self._process.wait()

    def _clear(self) -> None:
        """Kill what is left of the group, once: a worker may outlive its server, and a number is soon another's."""
        if self not in _started:
            return
        _started.discard(self)
        assert self._process is not None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._process.stdin is not None:
            self._process.stdin.close()


@atexit.register
def _stop_all() -> None:
    for server in list(_started):
        # A process that was forked off knows of its parent's servers, which are not its own to stop.
        if server.owned:
            server.stop()


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])


def start(
    command: Command,
    *,
    port: int,
    health: str,
    log: Path,
    limit_s: float = LIMIT_S,
    on_wait: Callable[[float], None] | None = None,
    hide: Callable[[str], str] = str,
) -> Server:
    """Start a server and wait until it is healthy; it lives until it is stopped, or this process ends.

    `log` gets all that it writes, after what the file holds already. `on_wait` hears every so often how many seconds
    have passed. `hide` takes keys out of the server's last words.

    Raises:
        Unsupported: there is no such program.
        ServerGone: it ended, or was not healthy in time; the message ends with its last words. Nothing is left running.
        DiskFull: there is no room for its log.
    """
    if shutil.which(command.argv[0]) is None:
        raise Unsupported(f"cannot start {command.argv[0]}: there is no such program; install it, or name another")
    with _open(log) as file:
        begins = file.tell()
        process = subprocess.Popen(
            [sys.executable, "-IS", keeper.__file__, *command.argv],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **command.env},
            start_new_session=True,
        )
    server = Server(f"http://{HOST}:{port}", process=process, log=log)
    try:
        _wait(server, command, health, limit_s, begins, on_wait, hide)
    except BaseException:
        server.stop()
        raise
    return server


def _open(log: Path) -> IO[bytes]:
    """Open a log behind what it holds; a disk without room for a line of it would hide why a server does not start."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        file = log.open("ab")
        try:
            begins = file.tell()
            file.write(b"\n")
            file.flush()
            file.truncate(begins)
            file.seek(begins)
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise jsonl.disk_error(error, log) from error
    return file


def _wait(
    server: Server,
    command: Command,
    health: str,
    limit_s: float,
    begins: int,
    on_wait: Callable[[float], None] | None,
    hide: Callable[[str], str],
) -> None:
    began = clock.now()
    # Somebody else's server may answer at a port that this one did not get.
    while not (control.healthy(server.url, health, limit_s=_ASK_S) and server.ended() is None):
        passed = clock.now() - began
        name = Path(command.argv[0]).name
        if (code := server.ended()) is not None:
            raise ServerGone(
                f"the server {name} ended with exit code {code} before it was ready; {hide(_said(server, begins))}"
            )
        if passed > limit_s:
            raise ServerGone(f"the server {name} was not ready after {limit_s:g} s; {hide(_said(server, begins))}")
        if on_wait is not None:
            on_wait(passed)
        time.sleep(_POLL_S)


def attach(url: str, health: str, *, key_env: str | None = None, limit_s: float = _ASK_S) -> Server:
    """A server that runs already; it is asked whether it is healthy and never stopped.

    Raises:
        Unsupported: nobody answers there, or not as such a server does; the message has no key.
        UserError: it speaks http and the address says TLS, or the other way round.
    """
    server = Server(url)
    if not url.startswith(("http://", "https://")):
        raise Unsupported(f'url = "{url}": allowed is http://HOST:PORT or https://HOST')
    if not control.healthy(server.url, health, key_env=key_env, limit_s=limit_s):
        scheme.check(server.url)
        raise Unsupported(f'url = "{url}": no healthy server answers at {health}; start it, or name another url')
    return server


def last_lines(log: Path, count: int = SHOWN, begins: int = 0) -> Sequence[str]:
    """The last lines of a log that say something, of those after its first `begins` bytes."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(begins, size - (1 << 16)))
        text = file.read().decode("utf-8", "replace")
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def _said(server: Server, begins: int) -> str:
    lines = [] if server.log is None else last_lines(server.log, begins=begins)
    if not lines:
        return f"it wrote nothing to {server.log}"
    return f"the end of {server.log}: " + " | ".join(lines)
