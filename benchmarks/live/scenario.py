"""One line of the benchmark: a group of one library and strategy, through joins, leaves, a crash and rolling restarts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from confluent_kafka import Producer
from tests.java import jdk_home
from tests.kafka_broker import LIBS, SETTINGS, Broker

from benchmarks.live.figures import Received, Stopped, books, read_journals, stopped

__all__ = ["LINES", "Group", "Line", "Outcome", "Phase", "run"]

ROOT = Path(__file__).resolve().parent.parent.parent
MEMBERS = Path(__file__).resolve().parent / "members"
PARTITIONS, RECORDS_PER_S = 12, 200
HEARTBEAT_S = 3.0
SESSION_S = 10.0
SETTLE_S = 8.0
TWO_ROUNDS_S = 12.0
"""Two rounds of members that hear of each with their next heartbeat, and the start of a process."""
OURS = "counterpoise.clients"


@dataclass(frozen=True)
class Line:
    """A client library and its strategy; `older` names a folder of an older release under .oldest."""

    library: str
    strategy: str
    assignor: str
    program: str
    older: str | None = None

    @property
    def name(self) -> str:
        """The library and the strategy as one word: the name of the line's topic and group."""
        return re.sub(r"[^a-z0-9.-]+", "-", f"{self.library}.{self.strategy}".lower())

    @property
    def ours(self) -> bool:
        """Whether the strategy is counterpoise's."""
        return self.assignor.startswith(OURS)


def _kafka_python(library: str, older: str | None = None) -> list[Line]:
    own = "kafka.coordinator.assignors"
    lines = [
        Line(library, "own range", f"{own}.range.RangePartitionAssignor", "kafka_python", older),
        Line(library, "own sticky", f"{own}.sticky.sticky_assignor.StickyPartitionAssignor", "kafka_python", older),
        Line(library, "counterpoise sticky", f"{OURS}.kafka_python.StickyAssignor", "kafka_python", older),
    ]
    if older is None:
        cooperative = f"{own}.cooperative_sticky.CooperativeStickyAssignor"
        lines.insert(2, Line(library, "own cooperative-sticky", cooperative, "kafka_python"))
    ours = f"{OURS}.kafka_python.CooperativeStickyAssignor"
    return [*lines, Line(library, "counterpoise cooperative-sticky", ours, "kafka_python", older)]


_JAVA = "org.apache.kafka.clients.consumer"
_AIO = "aiokafka.coordinator.assignors"
LINES = [
    *_kafka_python("kafka-python 3.0"),
    *_kafka_python("kafka-python 2.3", "kafka-python-2.3.0"),
    Line("aiokafka 0.14", "own range", f"{_AIO}.range.RangePartitionAssignor", "aiokafka"),
    Line("aiokafka 0.14", "own sticky", f"{_AIO}.sticky.sticky_assignor.StickyPartitionAssignor", "aiokafka"),
    Line("aiokafka 0.14", "counterpoise sticky", f"{OURS}.aiokafka.StickyAssignor", "aiokafka"),
    Line("aiokafka 0.14", "counterpoise cooperative-sticky", f"{OURS}.aiokafka.CooperativeStickyAssignor", "aiokafka"),
    Line("librdkafka 2.x", "own range", "range", "confluent"),
    Line("librdkafka 2.x", "own cooperative-sticky", "cooperative-sticky", "confluent"),
    Line("librdkafka 2.x", "KIP-848", "consumer", "confluent"),
    Line("Java 4.3", "own range", f"{_JAVA}.RangeAssignor", "java"),
    Line("Java 4.3", "own sticky", f"{_JAVA}.StickyAssignor", "java"),
    Line("Java 4.3", "own cooperative-sticky", f"{_JAVA}.CooperativeStickyAssignor", "java"),
    Line("Java 4.3", "KIP-848", "consumer", "java"),
]


@dataclass(frozen=True)
class Phase:
    """A kind of change, summed over its occurrences."""

    name: str
    stopped: Stopped


@dataclass(frozen=True)
class Outcome:
    """What one line gave."""

    line: Line
    phases: tuple[Phase, ...]
    duplicates: int
    rewinds: int
    skipped: int


def run(line: Line, broker: Broker, folder: Path, phases: frozenset[str] | None = None) -> Outcome:
    """The whole scenario; takes minutes. Raises RuntimeError if the group does not read all partitions at first."""
    found: list[Phase] = []
    counted = [0, 0, 0]
    for static in (False, True):
        changes = [each for each in (_STATIC if static else _DYNAMIC) if phases is None or each in phases]
        if changes:
            group = Group(line, broker, folder / ("static" if static else "dynamic"), static)
            with group.producing():
                spans = [(change, *span) for change in changes for span in group.change(change)]
            received = group.received()
            found += _summed(received, spans)
            counted = [before + now for before, now in zip(counted, books(received), strict=True)]
    return Outcome(line, tuple(found), *counted)


@cache
def _compiled() -> str:
    """The folder of the Java member's class: compiled once, so that a restart takes no longer than that of an application."""
    folder = tempfile.mkdtemp(prefix="live-member-")
    command = [str(Path(jdk_home()) / "bin" / "javac"), "-cp", f"{LIBS}/*", "-d", folder, str(MEMBERS / "LiveMember.java")]
    subprocess.run(command, check=True)
    return folder


_DYNAMIC = ("joins and a leave", "heartbeats out of step", "crash", "rolling restart")
_STATIC = ("rolling restart, static members",)


def _summed(received: list[Received], spans: list[tuple[str, float, float]]) -> list[Phase]:
    names = dict.fromkeys(name for name, *_ in spans)
    result = []
    for name in names:
        parts = [stopped(received, start, end) for each, start, end in spans if each == name]
        total = Stopped(sum(p.all for p in parts), sum(p.kept for p in parts), max(p.longest for p in parts))
        result.append(Phase(name, total))
    return result


class Group:
    """The processes of one group and what they journal."""

    def __init__(self, line: Line, broker: Broker, folder: Path, static: bool) -> None:
        folder.mkdir(parents=True)
        self._line, self._broker, self._folder, self._static = line, broker, folder, static
        self._name = f"{line.name}{'.static' if static else ''}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._journals: dict[str, Path] = {}
        self._started = 0
        broker.create_topic(self._name, PARTITIONS)

    @contextlib.contextmanager
    def producing(self) -> Iterator[None]:
        """Three members read while records come; all processes are gone at the end."""
        done = threading.Event()
        thread = threading.Thread(target=self._produce, args=(done,))
        thread.start()
        try:
            for slot in range(3):
                self.start(slot)
            self._wait_for_all_partitions()
            time.sleep(SETTLE_S)
            yield
        finally:
            done.set()
            thread.join()
            time.sleep(2)
            for process in self._running.values():
                process.kill()
                process.wait()

    def received(self) -> list[Received]:
        """Every record that a member received."""
        return read_journals(self._journals)

    def change(self, kind: str) -> list[tuple[float, float]]:
        """Make the changes of a phase; returns the span of time of each."""
        if kind in ("joins and a leave", "heartbeats out of step"):
            spans = [self._span(kind, partial(self.start, slot)) for slot in (3, 4, 5)]
            spans.append(self._span(kind, partial(self.stop, 1)))
            if kind != _DYNAMIC[0]:
                return spans
            for slot in (3, 4, 5):  # back to three members
                self.stop(slot)
            self.start(1)
            time.sleep(SETTLE_S)
        elif kind == "crash":
            if len(self._running) > 4:  # four members of three partitions each: the loss does not depend on who crashes
                self.stop(5)
                time.sleep(SETTLE_S)
            spans = [self._span(kind, partial(self.kill, 0), SESSION_S + SETTLE_S)]
        else:
            slots = sorted(int(name.split("-")[0]) for name in self._running)
            spans = [self._span(kind, partial(self.restart, slot)) for slot in slots]
        return spans

    def _span(self, kind: str, act: Callable[[], None], seconds: float = SETTLE_S) -> tuple[float, float]:
        if kind == "heartbeats out of step":
            self._put_out_of_step()
            seconds = TWO_ROUNDS_S
        start = time.time()
        act()
        time.sleep(seconds)
        return start, time.time()

    def _put_out_of_step(self) -> None:
        """Spread the members' heartbeats evenly over an interval, as they are in a group that has run for a day.

        A heartbeat that falls due while a process sleeps is sent when it wakes, and the next one an interval later.
        """
        running = list(self._running.values())
        begin = time.monotonic() + 0.1
        wakes = [begin + HEARTBEAT_S + 0.2 + at * HEARTBEAT_S / len(running) for at in range(len(running))]
        acts = sorted(
            [(wake - HEARTBEAT_S - 0.2, signal.SIGSTOP, each) for wake, each in zip(wakes, running, strict=True)]
            + [(wake, signal.SIGCONT, each) for wake, each in zip(wakes, running, strict=True)],
            key=lambda act: act[0],
        )
        for at, what, process in acts:
            time.sleep(max(0.0, at - time.monotonic()))
            process.send_signal(what)
        time.sleep(HEARTBEAT_S + 1)

    def _produce(self, done: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": self._broker.bootstrap, "linger.ms": 0})
        begin, sent = time.monotonic(), 0
        while not done.is_set():
            while sent < (time.monotonic() - begin) * RECORDS_PER_S:
                producer.produce(self._name, b"record", partition=sent % PARTITIONS)
                sent += 1
            producer.poll(0)
            time.sleep(0.005)
        producer.flush(10)

    def _wait_for_all_partitions(self) -> None:
        deadline = time.monotonic() + 60
        while {each.partition for each in self.received()} != set(range(PARTITIONS)):
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in self._folder.glob("*.log"))
                raise RuntimeError(f"{self._line.library}, {self._line.strategy}: not all partitions are read after 60 s\n{logs}")
            time.sleep(0.5)

    def start(self, slot: int) -> None:
        """Start a member."""
        self._started += 1
        name = f"{slot}-{self._started}"
        self._journals[name] = self._folder / f"{name}.txt"
        given = {
            "bootstrap": self._broker.bootstrap,
            "group": self._name,
            "topic": self._name,
            "assignor": self._line.assignor,
            "session_ms": str(round(SESSION_S * 1000)),
            "journal": str(self._journals[name]),
            "instance": f"slot-{slot}" if self._static else "",
        }
        older = ROOT / ".oldest" / self._line.older if self._line.older else None
        paths = os.pathsep.join(map(str, [*filter(None, [older]), ROOT / "src"]))
        with (self._folder / f"{name}.log").open("wb") as output:
            self._running[name] = subprocess.Popen(
                self._command(given),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONPATH": paths},
            )

    def _command(self, given: dict[str, str]) -> list[str]:
        if self._line.program != "java":
            return [sys.executable, str(MEMBERS / f"{self._line.program}_member.py"), json.dumps(given)]
        order = ("bootstrap", "group", "topic", "assignor", "session_ms", "journal", "instance")
        return [
            *(str(Path(jdk_home()) / "bin" / "java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            f"-Dlog4j2.configurationFile={SETTINGS / 'log4j2.properties'}",
            *("-cp", f"{LIBS}/*:{_compiled()}", "LiveMember"),
            *(given[name] for name in order if given[name]),
        ]

    def restart(self, slot: int) -> None:
        """Stop a member in good order and start it again."""
        self.stop(slot)
        self.start(slot)

    def stop(self, slot: int) -> None:
        """Stop a member in good order."""
        process = self._running.pop(self._in_slot(slot))
        process.terminate()
        process.wait(60)

    def pause(self, slot: int) -> None:
        """Let a member sleep until it is killed."""
        self._running[self._in_slot(slot)].send_signal(signal.SIGSTOP)

    def kill(self, slot: int) -> None:
        """End a member as a crash would."""
        process = self._running.pop(self._in_slot(slot))
        process.kill()
        process.wait()

    def _in_slot(self, slot: int) -> str:
        return next(name for name in self._running if name.split("-")[0] == str(slot))
