"""What a process takes is counted once, however often it forks, and so is what children took who lived too short to be seen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# 200 MB that are there for good; children that share them, touch 5 MB and are gone within a hundredth of a second.
FORKS = """
import os, time
held = b"x" * 200_000_000
time.sleep(1)
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
# In a process of its own: that of the tests may have children of other tests, which would be counted too.
WATCHED = """
import json, subprocess, sys
from benchmarks.process_watch import Watch
watch = Watch(every=0.03)
before = watch.cpu()["driver"]
subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
watch.stop()
worker, driver = watch.usage["worker"], watch.usage["driver"]
together = watch.peak_together - driver.peak_one
print(json.dumps({"worker": worker.peak_one, "together": together, "cpu": worker.cpu, "driver": driver.cpu - before}))
"""


def test_what_a_forked_child_shares_is_not_counted_again() -> None:
    output = subprocess.run([sys.executable, "-c", WATCHED, FORKS], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    found = json.loads(output)
    assert 200 <= found["worker"] < 230
    assert found["together"] < 230
    assert found["cpu"] >= 200 * 0.005
    assert found["driver"] < 0.1, "sampling counts as work of the driver"
