from __future__ import annotations

import subprocess
import sys

import pytest

from specq.core.process_memory import STATUS

READ = "from specq.core.process_memory import rss_peak_bytes; print(rss_peak_bytes())"
# A large process that becomes a small one: Linux keeps its ru_maxrss.
BECOME = f"""
import os, sys
block = b"x" * (300 * 2**20)
os.execv(sys.executable, [sys.executable, "-c", {READ!r}])
"""


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux says what is this program's own")
def test_the_peak_is_that_of_the_process_before() -> None:
    done = subprocess.run([sys.executable, "-c", BECOME], capture_output=True, text=True, check=True)
    assert 2**20 < int(done.stdout) < 150 * 2**20
