"""Every strategy on random and extreme groups: ``scripts/soak_assignors.py [--groups N] [--first N] [--workers N]``.

Group N is always the same (tests/soak/groups.py). All laws of tests/soak/laws.py must hold; the first group that breaks
one ends the run, and its number gives it again: ``--first N --groups 1``. The extreme groups are checked first, one after
the other; CPU time and memory of each are printed.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from counterpoise import assign, strategies

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
from tests.soak.groups import EXTREMES, drawn  # noqa: E402  # beside this script's folder
from tests.soak.laws import INPUT_EVERY, faults  # noqa: E402

BATCH = 200


def broken_in(numbers: range) -> list[str]:
    """The broken laws of these groups, one line each."""
    return [f"group {number}: {line}" for number in numbers for line in faults(drawn(number), number)]


def extreme(number: int) -> tuple[list[str], float, dict[str, float], int]:
    """An extreme group: its broken laws, the CPU seconds to read it and to plan it by strategy, the process's peak megabytes."""
    group = [*EXTREMES.values()][number]()
    began = time.process_time()
    group.problem()
    reading = time.process_time() - began
    planning = {}
    for name in strategies():
        began = time.process_time()
        if name != "lag" or group.lag is not None:
            assign(group, name)
        planning[name] = time.process_time() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return faults(group, number * INPUT_EVERY, rounds=False), reading, planning, most


def extremes() -> Iterator[str]:
    """Each extreme group in a process of its own; prints a line for each."""
    for number, name in enumerate(EXTREMES):
        with ProcessPoolExecutor(1) as own:
            lines, reading, planning, most = own.submit(extreme, number).result()
        yield from (f"{name}: {line}" for line in lines)
        slowest = max(planning, key=lambda name: planning[name])
        print(f"{name}: read in {reading:.2f} s, planned in at most {planning[slowest]:.2f} s ({slowest}), {most} MB", flush=True)


def soak(first: int, groups: int, workers: int) -> Iterator[str]:
    """Groups by number, in batches over the workers; prints how many there were every 5,000."""
    batches = [range(at, min(at + BATCH, first + groups)) for at in range(first, first + groups, BATCH)]
    with ProcessPoolExecutor(workers) as pool:
        done = 0
        for numbers, lines in zip(batches, pool.map(broken_in, batches), strict=True):
            yield from lines
            done += len(numbers)
            if done % 5_000 == 0 or done == groups:
                print(f"{done:,} groups, {len(strategies())} strategies each", flush=True)


def main() -> None:
    """The extremes, then the random groups; exit 1 at the first broken law."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=20_000, help="how many random ones")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    for found in (() if given.first else extremes(), soak(given.first, given.groups, given.workers)):
        for line in found:
            sys.exit(f"a law is broken: {line}")


if __name__ == "__main__":
    main()
