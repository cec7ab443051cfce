"""How much memory this process has taken so far."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def rss_peak_bytes() -> int:
    """The most resident memory that this process had."""
    if STATUS.exists():
        for line in STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            # Linux hands ru_maxrss on through exec, so it may show the parent's peak; VmHWM is this program's own.
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
