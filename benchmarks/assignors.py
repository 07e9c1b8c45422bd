"""Times counterpoise and its peers on the grid, in one run.

    python -m benchmarks.assignors --quick                      # small cases, a few minutes
    python -m benchmarks.assignors --json out/bench.json --page docs/benchmarks.md
    python -m benchmarks.assignors --from out/bench.json --page docs/benchmarks.md    # and docs/benchmarks.csv

Peers written in Java and Go are built first; what is missing for that is said, and the others run without them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import WARM_UP, Line, Yardstick, figures
from benchmarks.grid import CASES, SCENARIOS, SWEEP, Case, scenario_problem
from benchmarks.group_file import write_group
from benchmarks.page import page
from benchmarks.peers import PEERS, build_peers, run_peer
from benchmarks.tables import data, details, promises, summary, sweep
from counterpoise.assignors.registry import assignor
from counterpoise.model.problem import Problem

__all__ = ["main", "read_runs", "write_case"]


def main() -> None:
    """Run what the command line asks for."""
    wanted = _arguments()
    if wanted.source:
        machine, lines = read_runs(wanted.source)
    else:
        machine, lines = _measure(wanted)
    print("\n" + summary(line for line in lines if line.case in CASES), promises(lines), sep="\n\n")
    if any(line.case in SWEEP for line in lines):
        print("\n" + sweep(line for line in lines if line.case in SWEEP))
    if wanted.page:
        wanted.page.write_text(page(machine, lines))
        wanted.page.with_suffix(".csv").write_text(data(lines))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.assignors", description="Time counterpoise and its peers on the grid."
    )
    everything = CASES | SWEEP
    parser.add_argument("--cases", nargs="+", choices=everything, metavar="CASE", help=f"of: {', '.join(everything)}")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS), help="default: all")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="default: all; counterpoise always runs")
    parser.add_argument("--quick", action="store_true", help="only the small cases")
    parser.add_argument(
        "--sweep", action="store_true", help="the sizes from 10 thousand to 10 million partitions instead of the grid"
    )
    parser.add_argument("--seconds", type=float, default=1, help="per peer and surface (default 1)")
    parser.add_argument("--runs", type=int, default=25, help="at most, per peer and surface (default 25)")
    parser.add_argument("--rounds", type=int, default=1, help="times that all peers take turns on each line (default 1)")
    parser.add_argument("--cap", type=float, default=20, help="seconds after which a peer is stopped (default 20)")
    parser.add_argument("--json", type=Path, help="write the figures to this file after each line")
    parser.add_argument("--from", dest="source", nargs="+", type=Path, help="measure nothing, read the figures of earlier runs")
    parser.add_argument("--page", type=Path, help="write them as a page, too, and all figures as CSV beside it")
    wanted = parser.parse_args()
    wanted.cases = wanted.cases or [key for key, case in _default_cases(wanted.sweep).items() if case.small or not wanted.quick]
    return wanted


def _default_cases(sweeping: bool) -> dict[str, Case]:
    return SWEEP if sweeping else CASES


def _measure(wanted: argparse.Namespace) -> tuple[dict[str, Any], list[Line]]:
    missing = build_peers()
    for key in sorted(set(missing) & set(wanted.peers)):
        print(f"without {PEERS[key].title}: {missing[key]}", file=sys.stderr)
    peers = ["counterpoise", *(key for key in wanted.peers if key != "counterpoise" and key not in missing)]
    lines: list[Line] = []
    machine = _machine(wanted)
    for key in wanted.cases:
        for scenario in wanted.scenarios:
            case = (CASES | SWEEP)[key]
            line = _line(case, scenario, [peer for peer in peers if case.slow_peers or not PEERS[peer].slow], wanted)
            lines.append(line)
            print(details([line]), flush=True)
            machine["load"] = _load(machine["load"])
            if wanted.json:
                _save(wanted.json, machine, lines)
    return machine, lines


def _line(case: Case, scenario: str, peers: Iterable[str], wanted: argparse.Namespace) -> Line:
    solve = assignor("sticky")
    problem = scenario_problem(case, scenario, solve)
    line = Line(case.key, case.title, scenario, problem.n_partitions)
    yardstick = Yardstick(problem, solve(problem))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_case(problem, folder)
        runs = {
            peer: [run_peer(PEERS[peer], folder, problem.n_partitions, wanted.seconds, wanted.runs, wanted.cap)] for peer in peers
        }
        for _ in range(1, wanted.rounds):
            for peer, done in runs.items():
                if done[0].at_least_ms is None:
                    done.append(run_peer(PEERS[peer], folder, problem.n_partitions, wanted.seconds, wanted.runs, wanted.cap))
    line.peers = {peer: figures(yardstick, done, leads=PEERS[peer].leads) for peer, done in runs.items()}
    return line


def write_case(problem: Problem, folder: Path) -> None:
    """What the peers read: the group in each dialect, and the problem's arrays."""
    for dialect in sorted({peer.dialect for peer in PEERS.values()}):
        write_group(problem, dialect, folder / dialect)
    np.savez(
        folder / "problem.npz",
        n_members=np.array(problem.n_members),
        topic_start=problem.topic_start,
        subscriber_start=problem.subscriber_start,
        subscriber=problem.subscriber,
        previous_owner=problem.previous_owner,
    )


def _save(path: Path, machine: dict[str, Any], lines: list[Line]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "lines": [line.as_json() for line in lines]}, indent=1))


def read_runs(paths: list[Path]) -> tuple[dict[str, Any], list[Line]]:
    """Earlier runs as one; of a line that was measured twice the later file counts."""
    line_of: dict[tuple[str, str], Line] = {}
    machine: dict[str, Any] = {}
    for path in paths:
        read = json.loads(path.read_text())
        load = [*machine.get("load", []), *read["machine"]["load"]]
        machine = {key: _both(machine.get(key, value), value) for key, value in read["machine"].items()}
        machine["load"] = [min(load), max(load)]
        line_of |= {(value["case"], value["scenario"]): Line.from_json(value) for value in read["lines"]}
    place = {key: at for at, key in enumerate(CASES | SWEEP)}
    return machine, sorted(line_of.values(), key=lambda line: (place[line.case], list(SCENARIOS).index(line.scenario)))


def _both(one: object, other: object) -> object:
    known = str(one).split(" or ")
    more = [part for part in str(other).split(" or ") if part not in known]
    return " or ".join([*known, *more]) if more else one


def _machine(wanted: argparse.Namespace) -> dict[str, Any]:
    cpu = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    packages = [f"{name} {version(name)}" for name in ("numpy", "scipy", "kafka-python", "aiokafka")]
    return {
        "cpu": cpu[0] if cpu else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load": _load([]),
        "versions": ", ".join(
            [f"Python {platform.python_version()}", *packages, "Kafka 4.3.1", _first_line(["go", "version"]), _java_version()]
        ),
        "seconds": f"{wanted.seconds:g}",
        "runs": wanted.runs,
        "rounds": wanted.rounds,
        "cap": f"{wanted.cap:g}",
        "twice": 2 * WARM_UP,
    }


def _load(before: list[float]) -> list[float]:
    """Lowest and highest load average so far."""
    seen = [*before, round(os.getloadavg()[0], 1)]
    return [min(seen), max(seen)]


def _java_version() -> str:
    home = os.environ.get("JAVA_HOME")
    return _first_line([f"{home}/bin/java" if home else "java", "--version"])


def _first_line(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError):
        return f"no {command[0]}"


if __name__ == "__main__":
    main()
