"""Processor time and memory of a process and all below it, read from /proc; what has ended meanwhile is kept."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Usage", "Watch"]

_TICK = os.sysconf("SC_CLK_TCK")
_MB = 1e6


@dataclass
class Usage:
    """Of one kind of process: seconds of processor time so far, peak resident memory of one and of all at one moment (MB)."""

    cpu: float = 0.0
    peak_one: float = 0.0
    peak_all: float = 0.0


@dataclass
class Watch:
    """Samples this process and its descendants until it is stopped; kinds are java, worker and driver (this process)."""

    every: float = 1.0
    usage: dict[str, Usage] = field(default_factory=lambda: {kind: Usage() for kind in ("java", "worker", "driver")})
    peak_together: float = 0.0
    _seen: dict[int, tuple[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self.every):
            self.sample()

    def stop(self) -> None:
        """Sample once more and end."""
        self._stop.set()
        self._thread.join()
        self.sample()

    def cpu(self) -> dict[str, float]:
        """Seconds of processor time by kind, up to now."""
        self.sample()
        return {kind: usage.cpu for kind, usage in self.usage.items()}

    def sample(self) -> None:
        """Look once."""
        with self._lock:
            now: dict[str, float] = dict.fromkeys(self.usage, 0.0)
            for pid in _descendants(os.getpid()):
                self._look(pid, now)
            for kind, usage in self.usage.items():
                usage.cpu = sum(seconds for of, seconds in self._seen.values() if of == kind)
                usage.peak_all = max(usage.peak_all, now[kind])
            self.peak_together = max(self.peak_together, sum(now.values()))

    def _look(self, pid: int, now: dict[str, float]) -> None:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
            memory = _proportional(pid)
        except OSError:
            return
        kind = "driver" if pid == os.getpid() else "java" if name == "java" else "worker"
        self._seen[pid] = (kind, (int(stat[11]) + int(stat[12])) / _TICK)
        now[kind] += memory
        self.usage[kind].peak_one = max(self.usage[kind].peak_one, memory)


def _proportional(pid: int) -> float:
    """MB of resident memory; pages shared with other processes count by their share."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / _MB
    return 0.0


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
