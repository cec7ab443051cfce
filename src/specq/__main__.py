"""The specq command, also as python -m specq: a Ctrl-C before it has begun is one line too."""

from __future__ import annotations

import sys

STOPPED = 130


def main() -> int:
    """Run one command and return its exit code."""
    try:
        # Importing takes most of the time that a user has to change their mind.
        from specq.cli import main as command

        return command()
    except KeyboardInterrupt:
        sys.stderr.write("specq: stopped; nothing was recorded\n")
        return STOPPED


if __name__ == "__main__":
    sys.exit(main())
