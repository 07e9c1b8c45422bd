"""The benchmark compares like with like: same group in every form, the histories it claims, one fair yardstick."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.assignors import read_runs
from benchmarks.figures import Figures, Line, Yardstick, figures, missed
from benchmarks.grid import CASES, SCENARIOS, Case, Shape, scenario_problem
from benchmarks.group_file import read_group, read_owners, write_group
from benchmarks.page import page
from benchmarks.peers import OURS, Peer, Run, run_peer
from benchmarks.tables import data

from counterpoise.assignors.registry import assignor
from counterpoise.model.problem import Problem
from counterpoise.snapshot.joined import JoinMember
from tests.planning.join import join

ROOT = Path(__file__).parents[2]
SOLVE = assignor("sticky")
TINY = Case("tiny", "120 x 1-4 x 20", lambda random: Shape(random.integers(1, 5, size=120), random.random((20, 120)) < 0.7))


@pytest.mark.parametrize("dialect", ["sticky", "cooperative-sticky"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_group_file_holds_the_very_problem(tmp_path: Path, scenario: str, dialect: str) -> None:
    problem = scenario_problem(TINY, scenario, SOLVE)
    write_group(problem, dialect, tmp_path / dialect)
    topics, members = read_group(tmp_path / dialect)
    joined = [JoinMember(member, metadata) for member, metadata in members.items()]
    read = join(topics, joined, "eager" if dialect == "sticky" else "cooperative").group.problem()
    for name in ("topic_start", "subscriber_start", "subscriber", "previous_owner"):
        np.testing.assert_array_equal(getattr(read, name), getattr(problem, name), name)


def test_scenarios_change_the_members_they_say() -> None:
    n_owners = {}
    n_members = {}
    for scenario in SCENARIOS:
        problem = scenario_problem(CASES["random-40"], scenario, SOLVE)
        n_members[scenario] = problem.n_members
        n_owners[scenario] = len(np.unique(problem.previous_owner[problem.previous_owner >= 0]))
    assert n_members == {"fresh": 200, "leaves": 199, "joins": 200, "churn": 180}
    assert n_owners == {"fresh": 0, "leaves": 199, "joins": 199, "churn": 160}


def test_the_yardstick_calls_a_needless_move_and_an_uneven_plan_not_optimal() -> None:
    problem = scenario_problem(TINY, "leaves", SOLVE)
    best = SOLVE(problem)
    yardstick = Yardstick(problem, best)
    loads = np.bincount(best, minlength=problem.n_members)
    uneven = np.where(best == loads.argmin(), loads.argmax(), best).astype(np.int32)
    kept = np.flatnonzero(best == problem.previous_owner)
    topic = problem.topic_of_partition()
    one, other = next((p, q) for p in kept for q in kept if topic[p] == topic[q] and best[p] != best[q])
    swapped = best.copy()
    swapped[[one, other]] = best[[other, one]]
    assert [yardstick.optimal(owner) for owner in (best, uneven, swapped)] == [True, False, False]


def test_our_own_peer_runs_and_is_optimal(tmp_path: Path) -> None:
    from benchmarks.assignors import write_case

    problem = scenario_problem(TINY, "joins", SOLVE)
    write_case(problem, tmp_path)
    run = run_peer(OURS, tmp_path, problem.n_partitions, seconds=0.01, runs=3, cap=120)
    assert (run.error, {surface: len(laps) for surface, laps in run.ms.items()}) == ("", {"kernel": 3, "leader": 3})
    np.testing.assert_array_equal(read_owners(tmp_path / "owners"), SOLVE(problem))
    assert figures(Yardstick(problem, SOLVE(problem)), [run]).optimal


def test_a_peer_that_hangs_is_stopped_and_one_that_fails_is_quoted(tmp_path: Path) -> None:
    begins = 'import time; print(\'{"surface": "kernel", "begins": true}\', flush=True); '
    hangs = Peer("hangs", "hangs", "sticky", lambda _: [sys.executable, "-c", begins + "time.sleep(600)"])
    fails = Peer("fails", "fails", "sticky", lambda _: [sys.executable, "-c", begins + "raise SystemExit('no luck')"])
    stopped = run_peer(hangs, tmp_path, 1, seconds=1, runs=3, cap=1.5)
    assert (stopped.pending, stopped.error) == ("kernel", "")
    assert stopped.at_least_ms is not None
    assert stopped.at_least_ms >= 1400  # counted from where the kernel began, however long it took to start
    assert run_peer(fails, tmp_path, 1, seconds=1, runs=3, cap=60).error == "no luck"


def test_a_broken_promise_is_named_and_reaches_the_page() -> None:
    ours = Figures(kernel_ms=1.0, kernel_cpu_ms=1.0, optimal=True)
    java = Figures(kernel_ms=9.0, kernel_cpu_ms=40.0, optimal=False)
    line = Line("random-40", CASES["random-40"].title, "fresh", 1000, {"counterpoise": ours, "java-sticky": java})
    unknown = ["broker-uniform kernel not known", "franz-go kernel not known"]
    assert missed(CASES["random-40"], line) == ["java-sticky kernel 9.0x, wanted 10x", *unknown]
    line.peers |= dict.fromkeys(("broker-uniform", "franz-go"), java)
    assert missed(CASES["random-40"], line) == ["java-sticky kernel 9.0x, wanted 10x"]
    assert missed(CASES["random-40"], line, cpu=True) == []
    line.peers |= dict.fromkeys(("broker-uniform", "franz-go"), Figures(kernel_ms=0.5))
    assert missed(CASES["random-40"], line)[1:] == [f"{peer} kernel 0.5x, wanted 1x" for peer in ("broker-uniform", "franz-go")]
    assert missed(CASES["chain"], line) == ["java-sticky kernel 9.0x, wanted 10x"]
    machine = dict.fromkeys(("cpu", "cores", "memory_gb", "load", "versions", "seconds", "runs", "rounds", "cap", "twice"), "12")
    assert "java-sticky kernel 9.0x, wanted 10x" in page(machine, [Line.from_json(line.as_json())])


def test_a_stopped_peer_gives_a_lower_bound_only() -> None:
    problem = Problem(1, [0, 1], [0, 1], [0])
    runs = [Run(at_least_ms=5000.0, pending="kernel")]
    stopped = figures(Yardstick(problem, SOLVE(problem)), runs)
    line = Line("tiny", "", "fresh", 1, {"counterpoise": Figures(kernel_ms=2.0), "java-sticky": stopped})
    assert line.ratio("kernel", "java-sticky") == (2500.0, True)
    assert line.ratio("kernel", "java-sticky", cpu=True) is None
    assert stopped.time("leader") == (5000.0, True)  # it does the kernel's work and more
    later = figures(Yardstick(problem, SOLVE(problem)), [Run(ms={"kernel": [900.0]}, stopped=True)])
    assert (later.time("kernel"), later.time("leader")) == ((900.0, False), (900.0, True))
    assert figures(Yardstick(problem, SOLVE(problem)), runs, leads=False).time("leader") is None


def test_of_a_line_measured_twice_the_later_file_counts(tmp_path: Path) -> None:
    from benchmarks.assignors import read_runs

    def written(name: str, cap: int, **ms: float) -> Path:
        lines = [Line("chain", "", scenario, 9, {"counterpoise": Figures(kernel_ms=value)}) for scenario, value in ms.items()]
        (tmp_path / name).write_text(
            json.dumps({"machine": {"cap": cap, "load": [cap / 10]}, "lines": [line.as_json() for line in lines]})
        )
        return tmp_path / name

    machine, lines = read_runs([written("a", 20, leaves=1.0, fresh=2.0), written("b", 60, leaves=3.0), written("c", 60)])
    assert machine == {"cap": "20 or 60", "load": [2.0, 6.0]}
    assert [(line.scenario, line.peers["counterpoise"].kernel_ms) for line in lines] == [("fresh", 2.0), ("leaves", 3.0)]


def test_page_and_data_are_those_of_the_figures_in_the_repository() -> None:
    """`make bench-full` writes both; nobody edits them by hand."""
    results, docs = ROOT / "benchmarks" / "results", ROOT / "docs"
    machine, lines = read_runs([results / "grid.json", results / "sweep.json"])
    assert page(machine, lines) == (docs / "benchmarks.md").read_text()
    assert data(lines) == (docs / "benchmarks.csv").read_text()
