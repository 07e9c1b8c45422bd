"""CPU time and memory of a process and all below it, read from /proc; what has ended meanwhile is kept."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Usage", "Watch"]

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MB = 1e6


@dataclass
class Usage:
    """Of one kind of process: seconds of CPU time so far, peak resident memory of one and of all at one moment (MB)."""

    cpu: float = 0.0
    peak_one: float = 0.0
    peak_all: float = 0.0


@dataclass(frozen=True)
class _Process:
    """What was seen of one: seconds of its own, and of those it waited for."""

    kind: str
    parent: int
    seconds: float
    waited: float


@dataclass
class Watch:
    """Samples this process and its descendants until it is stopped; kinds are java, worker and driver (this process).

    Notes
    -----
    The CPU time of the sampling thread, a tenth of a core, does not count.
    Memory is looked at ten times a second, because a task's peak may last for less than half of one: resident memory, which costs
    next to nothing to ask for, less what was shared with other processes when that was looked at last, once a second. What would
    be a new peak is looked at once more: a process at its birth shares nothing yet. Workers fork a process for every task, which
    may be gone before anybody has looked at it, or has looked once more: its parent, who waited for it, is asked what it took.
    """

    every: float = 0.1
    in_full_every: float = 1.0
    usage: dict[str, Usage] = field(default_factory=lambda: {kind: Usage() for kind in ("java", "worker", "driver")})
    peak_together: float = 0.0
    _seen: dict[int, _Process] = field(default_factory=dict)
    _shared: dict[int, float] = field(default_factory=dict)
    _own: float = 0.0

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        next_in_full = 0.0
        while not self._stop.wait(self.every):
            if time.monotonic() >= next_in_full:
                self.sample()
                next_in_full = time.monotonic() + self.in_full_every
            else:
                self._memory()
            self._own = time.thread_time()

    def stop(self) -> None:
        """Sample once more and end."""
        self._stop.set()
        self._thread.join()
        self.sample()

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU time by kind, up to now."""
        self.sample()
        return {kind: usage.cpu for kind, usage in self.usage.items()}

    def sample(self) -> None:
        """Look at everything once."""
        with self._lock:
            self._shared = {}
            living = _descendants(os.getpid())
            for pid in living:
                self._look(pid)
            for kind, usage in self.usage.items():
                usage.cpu = sum(one.seconds for one in self._seen.values() if one.kind == kind)
            self.usage["worker"].cpu += self._unseen(set(living))
            self.usage["driver"].cpu -= self._own
        self._memory()

    def _look(self, pid: int) -> None:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
            shared = _shared(pid)
        except OSError:
            return
        kind = "driver" if pid == os.getpid() else "java" if name == "java" else "worker"
        self._seen[pid] = _Process(kind, int(stat[1]), *((int(stat[at]) + int(stat[at + 1])) / _TICK for at in (11, 13)))
        self._shared[pid] = shared

    def _unseen(self, living: set[int]) -> float:
        """What workers waited for, but for what was seen of it while it lived."""
        waited = {pid: one.waited for pid, one in self._seen.items() if one.kind == "worker"}
        for pid, one in self._seen.items():
            if pid not in living and one.parent in waited:
                waited[one.parent] -= one.seconds + one.waited
        return sum(max(seconds, 0.0) for seconds in waited.values())

    def _memory(self) -> None:
        with self._lock:
            workers = [pid for pid in self._shared if self._seen[pid].kind == "worker"]
            for child in [one for pid in workers for one in _children(pid)]:
                if child not in self._shared:
                    self._look(child)
            now = self._resident()
            peaks = any(alone > self.usage[self._seen[pid].kind].peak_one for pid, alone in now.items())
            if peaks or sum(now.values()) > self.peak_together:
                for pid in now:
                    self._look(pid)
                now = self._resident()
            for pid, alone in now.items():
                usage = self.usage[self._seen[pid].kind]
                usage.peak_one = max(usage.peak_one, alone)
            for kind, usage in self.usage.items():
                usage.peak_all = max(usage.peak_all, sum(alone for pid, alone in now.items() if self._seen[pid].kind == kind))
            self.peak_together = max(self.peak_together, sum(now.values()))

    def _resident(self) -> dict[int, float]:
        """MB of every living process, less what counts for others."""
        now = {}
        for pid, shared in self._shared.items():
            try:
                resident = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * _PAGE / _MB
            except OSError:
                continue
            now[pid] = resident - shared
        return now


def _shared(pid: int) -> float:
    """MB of resident memory that count for other processes: pages that several have count for each by its share."""
    found = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition(":")
        if name in ("Rss", "Pss"):
            found[name] = int(rest.split()[0]) * 1024 / _MB
    return found.get("Rss", 0.0) - found.get("Pss", 0.0)


def _children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()]
    except OSError:
        return []


def _descendants(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += parents.get(pid, [])
    return found
