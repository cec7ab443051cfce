"""How much memory this process has taken so far."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def group_peak_bytes(group: int) -> int:
    """The most resident memory that each process of a group had, added up; elsewhere than on Linux what they have now.

    Pages that processes share are counted in each.
    """
    import psutil

    found = 0
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group:
                found += _peak_of(Path(f"/proc/{process.pid}/status")) or int(process.memory_info().rss)
        except (ProcessLookupError, PermissionError, FileNotFoundError, psutil.Error):
            # It has ended, or is another user's, and so none of a group that was started here.
            continue
    return found


def _peak_of(status: Path) -> int | None:
    """The peak that a file of /proc tells; None where there is none."""
    if not status.exists():
        return None
    lines = status.read_text(encoding="ascii", errors="replace").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)


def rss_peak_bytes() -> int:
    """The most resident memory that this process had."""
    # Linux hands ru_maxrss on through exec, so it may show the parent's peak; VmHWM is this program's own.
    if (peak_bytes := _peak_of(STATUS)) is not None:
        return peak_bytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
