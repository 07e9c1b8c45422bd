"""What one line of the benchmark came to: every peer's times, moves and spread, held against one yardstick."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import numpy as np

from benchmarks.grid import Case
from benchmarks.peers import Run
from counterpoise.laws import certify
from counterpoise.laws.owners import valid
from counterpoise.model.problem import Int32, Int64, Problem

__all__ = ["WARM_UP", "Figures", "Line", "Yardstick", "figures", "missed", "moves"]

WARM_UP = 5
"""Runs that are not counted; of fewer than twice as many only the first half is not."""


@dataclass
class Figures:
    """One peer on one line; None where unknown.

    Attributes
    ----------
    kernel_ms, leader_ms : float
        Median of the runs after the warm-up.
    kernel_cpu_ms, leader_cpu_ms : float
        The same in CPU time of the calling thread, which other work on the machine disturbs less.
    first_ms : float
        The very first run of the kernel, cold.
    at_least_ms, pending : float, str
        The peer was stopped in this surface's first run, after this long.
    stopped : bool
        It was stopped there or in a later run.
    leads : bool
        It can be timed as a leader.
    runs : int
        Of the kernel.
    moves, spread : int
        Partitions that left a member who is still there; largest minus smallest load.
    optimal : bool
        As balanced as can be and, at that balance, as few moves as can be.
    peak_mb : float
        Memory of the kernel's first run above what was in use before.
    error : str
    """

    kernel_ms: float | None = None
    leader_ms: float | None = None
    kernel_cpu_ms: float | None = None
    leader_cpu_ms: float | None = None
    first_ms: float | None = None
    at_least_ms: float | None = None
    pending: str | None = None
    stopped: bool = False
    leads: bool = True
    runs: int = 0
    moves: int | None = None
    spread: int | None = None
    optimal: bool | None = None
    peak_mb: float | None = None
    error: str = ""

    def time(self, surface: str, *, cpu: bool = False) -> tuple[float, bool] | None:
        """Milliseconds, and whether they are only a lower bound (wall clock only: of CPU time none is known).

        A leader does the work of the kernel and more: what the kernel took, or what bounds it, bounds it too.
        """
        if surface == "leader" and not self.leads:
            return None
        counted: float | None = getattr(self, f"{surface}_cpu_ms" if cpu else f"{surface}_ms")
        if counted is not None:
            return counted, False
        if self.pending in (surface, "kernel") and self.at_least_ms is not None and not cpu:
            return self.at_least_ms, True
        if surface == "leader" and self.stopped and self.kernel_ms is not None and not cpu:
            return self.kernel_ms, True
        return None


@dataclass
class Line:
    """One case in one scenario, with the figures of each peer by its key."""

    case: str
    title: str
    scenario: str
    partitions: int
    peers: dict[str, Figures] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @staticmethod
    def from_json(value: dict[str, Any]) -> Line:
        """The inverse."""
        peers = {key: Figures(**figures) for key, figures in value["peers"].items()}
        return Line(**{**value, "peers": peers})

    def ratio(self, surface: str, peer: str, *, cpu: bool = False) -> tuple[float, bool] | None:
        """How many times as long as we the peer takes, and whether that is only a lower bound."""
        there = self.peers.get(peer, Figures()).time(surface, cpu=cpu)
        here = self.peers["counterpoise"].time(surface, cpu=cpu)
        if there is None or here is None or here[1]:
            return None
        return there[0] / here[0], there[1]


class Yardstick:
    """A plan proven optimal by its certificate; any other plan is optimal exactly when its loads and moves are equal."""

    def __init__(self, problem: Problem, owner: Int32) -> None:
        self.problem = problem
        certificate = certify(problem, owner)
        self.proven = certificate.balanced and certificate.sticky
        self._loads, self._moves = _sorted_loads(problem, owner), moves(problem, owner)

    def optimal(self, owner: Int32) -> bool:
        """Is this plan, from anywhere, optimal?"""
        if not self.proven:
            return False
        same = np.array_equal(_sorted_loads(self.problem, owner), self._loads) and moves(self.problem, owner) == self._moves
        return same and not valid(self.problem, owner)


def moves(problem: Problem, owner: Int32) -> int:
    """Partitions whose previous owner is still there and lost them."""
    before = problem.previous_owner
    return int(np.count_nonzero((before >= 0) & (owner != before)))


def figures(yardstick: Yardstick, runs: list[Run], *, leads: bool = True) -> Figures:
    """What the processes of one peer came to; the laps of all rounds count alike."""
    out = Figures(leads=leads)
    first = runs[0]
    out.runs = sum(len(_warm(run.ms.get("kernel", []))) for run in runs)
    out.kernel_ms, out.kernel_cpu_ms = (_median(runs, clock, "kernel") for clock in ("ms", "cpu_ms"))
    out.leader_ms, out.leader_cpu_ms = (_median(runs, clock, "leader") for clock in ("ms", "cpu_ms"))
    out.first_ms = first.ms["kernel"][0] if first.ms.get("kernel") else None
    stopped = [(run.at_least_ms, run.pending) for run in runs if run.at_least_ms is not None]
    out.at_least_ms, out.pending = max(stopped, default=(None, None))
    out.stopped = any(run.stopped for run in runs)
    out.error = next((run.error for run in runs if run.error), "")
    if "kernel" in first.peak_kb:
        out.peak_mb = first.peak_kb["kernel"] / 1024
    if first.owner is not None:
        load = _sorted_loads(yardstick.problem, first.owner)
        out.spread = int(load[-1] - load[0])
        out.moves = moves(yardstick.problem, first.owner)
        out.optimal = yardstick.optimal(first.owner)
    return out


def missed(case: Case, line: Line, *, cpu: bool = False) -> list[str]:
    """The promises that this line breaks, in words; empty: it keeps them all."""
    ours = line.peers["counterpoise"]
    kernel_ms = ours.kernel_cpu_ms if cpu else ours.kernel_ms
    if kernel_ms is None:
        return [f"counterpoise did not finish: {ours.error or 'time was up'}"]
    least = {"java-sticky": case.java_factor} | ({"broker-uniform": 1, "franz-go": 1} if case.ahead else {})
    out = [] if ours.optimal else ["not optimal"]
    wanted = [("kernel", peer, factor) for peer, factor in least.items()]
    if case.leader_factor:
        wanted.append(("leader", "java-sticky", case.leader_factor))
    out += [_short(line, surface, peer, factor, cpu) for surface, peer, factor in wanted]
    if case.most_ms and kernel_ms > case.most_ms:
        out.append(f"{kernel_ms:.1f} ms, wanted under {case.most_ms}")
    if line.partitions == 1_000_000 and (ours.peak_mb or 0) > 300:
        out.append(f"{ours.peak_mb:.0f} MB, wanted under 300")
    return [words for words in out if words]


def _short(line: Line, surface: str, peer: str, least: float, cpu: bool) -> str:
    ratio = line.ratio(surface, peer, cpu=cpu)
    if ratio is None:
        return f"{peer} {surface} not known"
    if ratio[0] >= least:
        return ""
    return f"{peer} {surface} {'stopped at ' if ratio[1] else ''}{ratio[0]:.1f}x, wanted {least}x"


def _median(runs: list[Run], clock: str, surface: str) -> float | None:
    laps = [ms for run in runs for ms in _warm(getattr(run, clock).get(surface, []))]
    return median(laps) if laps else None


def _warm(laps: list[float]) -> list[float]:
    return laps[min(WARM_UP, len(laps) // 2) :]


def _sorted_loads(problem: Problem, owner: Int32) -> Int64:
    return np.sort(np.bincount(owner[owner >= 0], minlength=problem.n_members))
