"""What a process takes is counted once, however often it forks, and so is what children took who lived too short to be seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.process_watch import Watch

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="processes are read from /proc")

# 200 MB that are there for good; children that share them, touch 5 MB and are gone within a hundredth of a second.
FORKS = """
import os, time
held = b"x" * 200_000_000
for _ in range(200):
    child = os.fork()
    if child == 0:
        own = b"y" * 5_000_000
        until = time.process_time() + 0.005
        while time.process_time() < until:
            pass
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_what_a_forked_child_shares_is_not_counted_again() -> None:
    watch = Watch()
    try:
        subprocess.run([sys.executable, "-c", FORKS], check=True)
    finally:
        watch.stop()
    worker = watch.usage["worker"]
    assert 200 <= worker.peak_one < 230
    assert watch.peak_together < 200 + 30 + watch.usage["driver"].peak_one
    assert worker.cpu >= 200 * 0.005
