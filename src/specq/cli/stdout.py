"""What a command ends with where its results cannot be written: nobody reads them any more, or no space is left."""

from __future__ import annotations

import errno
import os
import sys

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
UNREAD = 141
"""128 and the number of SIGPIPE, as other programs end whose reader, such as head, has seen enough."""


class Full(Exception):
    """A disk takes no more; the message says which and what to do."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where}: no space is left, or a file may not grow so large; free some, or send results elsewhere (what a "
            "run or an option wrote to files of its own is kept)"
        )


def flush(code: int) -> int:
    """Write out what still waits for stdout: now, for once Python ends it is too late to say anything of it.

    Args:
        code: what the command ends with otherwise; a failure stays what it is where nobody reads stdout.

    Raises:
        Full: there is no space.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop()
        return code or UNREAD
    except OSError as error:
        if error.errno not in FULL:
            raise
        drop()
        raise Full("stdout") from error
    return code


def full(error: OSError) -> Full | None:
    """What an error of a disk that takes no more says of stdout or of another file; None of any other error."""
    if error.errno not in FULL:
        return None
    try:
        flush(0)
    except Full as found:
        return found
    # Without a buffer stdout keeps nothing that it could not write, and nothing shows that it was stdout.
    return Full("stdout, or a file that is written" if error.filename is None else str(error.filename))


def drop() -> None:
    """Send what still waits for stdout nowhere, so that Python does not complain of it as it ends."""
    try:
        nowhere, own = os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        # A stand-in without a descriptor, as in a test or a notebook.
        return
    os.dup2(nowhere, own)
    os.close(nowhere)
