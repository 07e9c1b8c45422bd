"""Times the kernel of another checkout and of this one in turns, on the same problems: what a change costs or saves.

git worktree add ../before 5a19fe1
python -m benchmarks.in_turns ../before --cases random-200 nested chain
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks.grid import CASES, SCENARIOS, scenario_problem

__all__ = ["main", "time_case"]

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.in_turns", description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="another checkout of the repository")
    parser.add_argument("--cases", nargs="+", choices=CASES, metavar="CASE", default=[key for key in CASES if CASES[key].small])
    parser.add_argument("--seconds", type=float, default=0.5, help="per line and turn (default 0.5)")
    parser.add_argument("--turns", type=int, default=2, help="of each checkout (default 2)")
    wanted = parser.parse_args()
    for key in wanted.cases:
        runs = [(tree, _measure(tree, key, wanted.seconds)) for _ in range(wanted.turns) for tree in (wanted.before, ROOT)]
        for scenario in SCENARIOS:
            before, after = (
                median(ms for tree, run in runs if tree == which for ms in run[scenario]) for which in (wanted.before, ROOT)
            )
            line = {"case": key, "scenario": scenario, "before_ms": round(before, 3), "after_ms": round(after, 3)}
            print(line, flush=True)


def _measure(tree: Path, case: str, seconds: float) -> dict[str, list[float]]:
    """Milliseconds of CPU time per scenario, from a process that imports this checkout's package."""
    path = os.pathsep.join([str(tree.resolve() / "src"), str(ROOT)])
    command = [sys.executable, "-c", f"from benchmarks.in_turns import time_case; time_case({case!r}, {seconds})"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


def time_case(case: str, seconds: float) -> None:
    """Print CPU times of the kernel on one case as JSON; the first run of each scenario is warm-up."""
    from counterpoise.assignors.registry import assignor

    solve = assignor("sticky")
    found: dict[str, list[float]] = {}
    for scenario in SCENARIOS:
        problem = scenario_problem(CASES[case], scenario, solve)
        laps: list[float] = []
        end = time.thread_time() + seconds
        while len(laps) < 4 or time.thread_time() < end:
            start = time.thread_time()
            solve(problem)
            laps.append(1000 * (time.thread_time() - start))
        found[scenario] = laps[1:]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
