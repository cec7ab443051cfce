"""Where results go: a folder that is there or can be made, told before any work is done for it."""

from __future__ import annotations

import os
from pathlib import Path

from specq.core.errors import ConfigError


def check_folder(out: Path | str) -> Path:
    """The place of --out, in which folders and files will be made.

    Raises:
        ConfigError: it is a file or lies below one, or may not be written.
    """
    whole = Path(out).expanduser().absolute()
    above = next(place for place in (whole, *whole.parents) if os.path.lexists(place))
    what = "it" if above == whole else str(above)
    if not above.is_dir():
        raise ConfigError(f"--out {out}: {what} is no folder; name a folder, which need not exist yet")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ConfigError(f"--out {out}: {what} may not be written; name another folder")
    return Path(out)
