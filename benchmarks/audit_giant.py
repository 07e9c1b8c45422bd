"""The audit of one group of 2,000 members on 10,000 partitions with 500 generations, within the limits of `audit_scale`.

    python -m benchmarks.audit_giant [--generations N] [--commits N] [--folder DIR] [--strategies NAME,...]

The group is `range` by a Java client: one member leaves or comes at a time, and every partition is committed between two
generations. Time, CPU time and peak memory by kind of process are printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.audit_scale import ROOT, one
from counterpoise.pipeline.synthetic.capture import write_capture
from counterpoise.pipeline.synthetic.fleet import Fleet, GroupPlan, TopicPlan

MEMBERS, PARTITIONS, TOPICS = 2_000, 10_000, 10


def made(out: Path, generations: int, commits: int) -> Path:
    """The capture, if it is not there yet."""
    if (out / "planted.json").exists():
        return out
    shutil.rmtree(out, ignore_errors=True)
    seconds = 300.0 + 40.0 * generations
    fleet = Fleet(commits, 1, generations, seconds)
    chance = fleet.chance(0)
    each = PARTITIONS // TOPICS
    topics = [
        TopicPlan(f"topic-{at:05d}", chance.bytes(16), chance.integers(0, 5_000_000, each), chance.uniform(1.0, 50.0, each))
        for at in range(TOPICS)
    ]
    plan = GroupPlan(
        number=1,
        name="giant",
        protocol="range",
        library="java",
        topics=tuple(range(TOPICS)),
        members=MEMBERS,
        rebalances=generations,
        storm=0,
        interval_ms=max(50, round(1000 * PARTITIONS * seconds / commits)),
        version=4,
        static=False,
        deleted=False,
    )
    write_capture(fleet, topics, [plan], out)
    return out


def main() -> None:
    """Make, audit, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generations", type=int, default=500)
    parser.add_argument("--commits", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "scale")
    parser.add_argument("--strategies", help="Default: all.")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    capture = made(given.folder / f"giant-{given.generations}", given.generations, given.commits)
    if not given.one:  # in a process that has made no capture
        subprocess.run([sys.executable, "-m", "benchmarks.audit_giant", *sys.argv[1:], "--one"], check=True, cwd=ROOT)
        return
    strategies = None if given.strategies is None else given.strategies.split(",")
    print(json.dumps(one(capture, given.folder / "audited-giant", strategies), indent=1))
    shutil.rmtree(given.folder / "audited-giant", ignore_errors=True)


if __name__ == "__main__":
    main()
