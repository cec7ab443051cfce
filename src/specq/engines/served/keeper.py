"""Runs a command, and ends it and all that it started when the process that asked for it is gone.

A script of its own with nothing but the standard library: it leads the process group that the command runs in. Its
standard input is a pipe that the asker holds open and writes nothing to, so that the end of it means that the asker
has gone, however that came; a server and its workers would otherwise go on holding the memory.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import subprocess
import sys
from contextlib import suppress
from types import FrameType

GRACE_S = 10.0
_PR_SET_PDEATHSIG = 1


def main(command: list[str]) -> int:
    """Run the command and return its exit code, 128 and the signal's number where a signal ended it."""
    signal.signal(signal.SIGTERM, _leave_it_to_the_command)
    signal.signal(signal.SIGINT, _leave_it_to_the_command)
    # The end of the command wakes the wait below.
    wake, ended = os.pipe()
    os.set_blocking(ended, False)
    signal.set_wakeup_fd(ended)
    signal.signal(signal.SIGCHLD, _leave_it_to_the_command)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_end_with_parent)
    with selectors.DefaultSelector() as both:
        both.register(sys.stdin.fileno(), selectors.EVENT_READ)
        both.register(wake, selectors.EVENT_READ)
        while process.poll() is None:
            for key, _ in both.select():
                if not os.read(key.fd, 4096):
                    _end_group(process)
    code = process.wait()
    return 128 - code if code < 0 else code


def _end_group(process: subprocess.Popen[bytes]) -> None:
    os.killpg(os.getpgrp(), signal.SIGTERM)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        # The log may be on a full disk.
        with suppress(OSError):
            print(f"still running {GRACE_S:g} s after SIGTERM: killed", file=sys.stderr, flush=True)
    # What is left of the group, this process too.
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _end_with_parent() -> None:
    """On Linux, ask for SIGTERM when this keeper dies: nobody else would then see the asker go."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _leave_it_to_the_command(number: int, frame: FrameType | None) -> None:
    """The group has the signal too; this process ends when the command does."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
