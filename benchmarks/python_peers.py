"""Times one assignor written in Python on one case; a process of its own, the twin of peers/java and peers/go.

    python -m benchmarks.python_peers PEER GROUP_FILE OWNERS_FILE SECONDS RUNS

PEER: counterpoise, counterpoise-cooperative, kafka-python, aiokafka. The kernel of counterpoise reads the problem's
arrays from GROUP_FILE's neighbour problem.npz. Prints one JSON object per line, as the other peers do.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.group_file import read_group
from counterpoise.model.problem import UNOWNED, Int32, Problem

__all__ = ["Surface", "main"]


@dataclass(frozen=True)
class Surface:
    """One way to call a peer.

    Attributes
    ----------
    name : str
        "kernel" (objects or integers in and out) or "leader" (bytes in, bytes out).
    run : callable
        The timed call.
    owners : callable or None
        From what `run` returned to owner int32[P]; None: this surface has nothing to add.
    """

    name: str
    run: Callable[[], Any]
    owners: Callable[[Any], Int32] | None = None


def _counterpoise(strategy: str, group_file: Path) -> list[Surface]:
    from counterpoise.assignors.registry import assignor
    from counterpoise.planning.lead import lead

    arrays = dict(np.load(group_file.with_name("problem.npz")))
    problem = Problem(int(arrays.pop("n_members")), **arrays)
    kernel = assignor(strategy)
    topics, members = read_group(group_file)
    return [
        Surface("kernel", lambda: kernel(problem), lambda owner: owner),
        Surface("leader", lambda: lead(strategy, topics, members)),
    ]


def _kafka_python(group_file: Path) -> list[Surface]:
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    topics, metadata = read_group(group_file)
    members = [SimpleNamespace(member_id=m, metadata=ConsumerProtocolSubscription.decode(raw)) for m, raw in metadata.items()]
    for member in members:
        if member.metadata.user_data:  # it wants its own dialect: the same list behind an int16 1
            member.metadata.user_data = b"\0\1" + member.metadata.user_data
    return [
        Surface(
            "kernel",
            lambda: StickyPartitionAssignor().assign(_Cluster(topics), members),
            lambda plan: _owners(topics, {m: a.assigned_partitions for m, a in plan.items()}),
        )
    ]


def _aiokafka(group_file: Path) -> list[Surface]:
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

    topics, metadata = read_group(group_file)
    members = {m: ConsumerProtocolMemberMetadata.decode(raw) for m, raw in metadata.items()}
    return [
        Surface(
            "kernel",
            lambda: StickyPartitionAssignor.assign(_Cluster(topics), members),
            lambda plan: _owners(topics, {m: a.assignment for m, a in plan.items()}),
        )
    ]


PEERS: Mapping[str, Callable[[Path], list[Surface]]] = {
    "counterpoise": lambda path: _counterpoise("sticky", path),
    "counterpoise-cooperative": lambda path: _counterpoise("cooperative-sticky", path),
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
}


class _Cluster:
    """As much of the clients' ClusterMetadata as a sticky assignor asks for."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self._partitions = {topic: set(range(count)) for topic, count in topics.items()}

    def topics(self) -> set[str]:
        return set(self._partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return self._partitions.get(topic)


def _owners(topics: Mapping[str, int], plan: Mapping[str, Any]) -> Int32:
    start = np.append(0, np.cumsum(list(topics.values())))
    owner = np.full(start[-1], UNOWNED, np.int32)
    for member, entries in plan.items():
        for topic, partitions in entries:
            owner[start[int(topic[1:])] + np.asarray(partitions, np.int64)] = int(member[1:])
    return owner


def _time(surface: Surface, owners_file: Path, seconds: float, most_runs: int) -> None:
    spent, run = 0.0, 0
    while run < most_runs and (run < 3 or spent < seconds):
        before = 0
        if run == 0:
            gc.collect()
            before = _resident()
            _say(surface=surface.name, begins=True)
        cpu_start, start = time.thread_time(), time.perf_counter()
        result = surface.run()
        took, cpu = time.perf_counter() - start, time.thread_time() - cpu_start
        _say(surface=surface.name, ms=round(took * 1e3, 4), cpu_ms=round(cpu * 1e3, 4))
        if run == 0:
            _say(surface=surface.name, peak_kb=_status("VmHWM:") - before)
            if surface.owners is not None:
                surface.owners(result).astype(">i4").tofile(owners_file)
        spent += took
        run += 1
        del result


def _resident() -> int:
    """Forget the peak so far; what is resident now, in kB."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS:")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {field}")


def _say(**values: object) -> None:
    print(json.dumps(values), flush=True)


def main(arguments: list[str]) -> None:
    """Run the peer that the command line names."""
    peer, group_file, owners_file, seconds, runs = arguments
    logging.disable(logging.CRITICAL)
    for surface in PEERS[peer](Path(group_file)):
        _time(surface, Path(owners_file), float(seconds), int(runs))


if __name__ == "__main__":
    main(sys.argv[1:])
