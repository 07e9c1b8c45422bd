"""Members of one group as processes: started, paused, killed and read from their journals; gone for sure at the end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.java import QUICK, jdk_home
from tests.kafka_broker import LIBS, SETTINGS, Broker

__all__ = ["JAVA_ASSIGNORS", "Fleet", "fleet"]

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = Path(__file__).resolve().parent / "programs"
WITHIN_S = 120.0
JAVA_ASSIGNORS = {
    "StickyAssignor": "org.apache.kafka.clients.consumer.StickyAssignor",
    "CooperativeStickyAssignor": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "RangeAssignor": "org.apache.kafka.clients.consumer.RangeAssignor",
    "RoundRobinAssignor": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
}
_NO_COORDINATOR = re.compile(r"GroupCoordinator: Timed out 0 in-flight, 0 retry-queued, [1-9]")
"""What librdkafka prints if a request has waited a minute for a connection to the coordinator."""
_NO_SESSION = re.compile(r"%4\|([\d.]+)\|SESSTMOUT\|.*\(broker -1,")
"""What it prints, with the time, if its session ends while it knows no coordinator."""
_REJOINS_S = 30.0
LIBRDKAFKA_ASSIGNORS = {
    "CooperativeStickyAssignor": "cooperative-sticky",
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
}


@cache
def _java_member() -> tempfile.TemporaryDirectory[str]:
    """The folder of the compiled Java member: compiling it at every start costs more than starting it."""
    folder = tempfile.TemporaryDirectory()
    compiler = [str(Path(jdk_home()) / "bin" / "javac"), "-J-XX:TieredStopAtLevel=1", "-cp", f"{LIBS}/*", "-d", folder.name]
    subprocess.run([*compiler, str(PROGRAMS / "Member.java")], check=True)
    return folder


class Fleet:
    """The members of one group; names are the callers' own."""

    def __init__(self, broker: Broker, folder: Path, group: str, session_ms: int = 6000) -> None:
        self.broker, self.folder, self.group, self.session_ms = broker, folder, group, session_ms
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.journals: dict[str, Path] = {}
        self.kinds: dict[str, str] = {}
        self._again: dict[str, Callable[[], None]] = {}

    def start(
        self,
        name: str,
        kind: str,
        assignors: list[str],
        topics: list[str],
        *,
        client: Path | None = None,
        tree: Path = ROOT,
        **settings: Any,
    ) -> None:
        """Start a member of a kind: kafka_python, aiokafka, confluent or java; `client` holds another version of one.

        With `own=True` a Python member runs its client's assignors instead of counterpoise's, and its kind ends in `_own`.
        `tree` has the sources of another version of counterpoise; then its kind ends in `_old`.
        """
        self._again[name] = partial(self.start, name, kind, assignors, topics, client=client, tree=tree, **settings)
        self.journals[name] = self.folder / f"{name}.jsonl"
        self.kinds[name] = f"{kind}_own" if settings.get("own") else kind if tree == ROOT else f"{kind}_old"
        if kind == "java":
            command = self._java(name, assignors, topics, settings.get("config", {}))
        else:
            if kind == "confluent":
                assignors = [LIBRDKAFKA_ASSIGNORS[each] for each in assignors]
            given = {
                "bootstrap": self.broker.bootstrap,
                "group": self.group,
                "name": name,
                "assignors": assignors,
                "topics": topics,
                "session_ms": self.session_ms,
                "journal": str(self.journals[name]),
                **settings,
            }
            command = [sys.executable, "-m", f"tests.clients.programs.{kind}_member", json.dumps(given)]
        with (self.folder / f"{name}.log").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                command,
                cwd=tree,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [*filter(None, [client]), tree / "src", tree]))},
            )

    def _java(self, name: str, assignors: list[str], topics: list[str], config: dict[str, str]) -> list[str]:
        instance = config.get("group_instance_id")
        return [
            *(str(Path(jdk_home()) / "bin" / "java"), "-Xmx256m", *QUICK),
            f"-Dlog4j2.configurationFile={SETTINGS / 'log4j2.properties'}",
            *([f"-Dclient.rack={config['client_rack']}"] if "client_rack" in config else []),
            *("-cp", f"{_java_member().name}:{LIBS}/*", "Member", self.broker.bootstrap, self.group, name, ",".join(topics)),
            *(",".join(JAVA_ASSIGNORS[each] for each in assignors), str(self.session_ms), str(self.journals[name])),
            *([instance] if instance else []),
        ]

    def stop(self, name: str) -> None:
        """Ask a member to end in good order, and wait until it has."""
        self.processes[name].terminate()
        try:
            self.processes[name].wait(60)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} did not end on SIGTERM; {self.picture()}") from None
        del self.processes[name]

    def kill(self, name: str) -> None:
        """End a member as a crash would."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def replace_stuck(self) -> None:
        """Kill and start again librdkafka members that do not find the coordinator, as their operator would; each is a warning.

        When a broker restarts, one member in a thousand or more hangs in a synchronous commit, or loses its session without a
        coordinator (broker -1), and never rejoins.
        """
        for name in [name for name in self.processes if self.kinds[name] == "confluent"]:
            log = self.folder / f"{name}.log"
            said = log.read_text(errors="replace")
            if _NO_COORDINATOR.search(said) or self._stays_away(name, max(map(float, _NO_SESSION.findall(said)), default=None)):
                warnings.warn(f"a librdkafka member hangs: {name} of {self.group} was started again", stacklevel=2)
                self.kill(name)
                log.rename(log.with_suffix(".stuck"))
                self._again[name]()

    def _stays_away(self, name: str, lost: float | None) -> bool:
        """Whether a member that lost its session at this time has owned nothing since, for longer than a rebalance takes."""
        if lost is None or time.time() - lost <= _REJOINS_S:
            return False
        return not any(event["time"] > lost and event.get("partitions") for event in self.events(name))

    def pause(self, name: str) -> None:
        """Let a member sleep: its session runs out."""
        os.killpg(self.processes[name].pid, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Wake a sleeping member."""
        os.killpg(self.processes[name].pid, signal.SIGCONT)

    def paused(self, name: str) -> bool:
        """Whether a member's process is suspended by SIGSTOP, from `pause` or from itself."""
        return Path(f"/proc/{self.processes[name].pid}/stat").read_text().rpartition(") ")[2].startswith("T")

    def close(self) -> None:
        """Kill whatever still runs."""
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.processes.clear()

    def events(self, name: str) -> list[dict[str, Any]]:
        """A member's journal so far; a last line cut off by a crash is left out."""
        path = self.journals[name]
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")[:-1]
        return [{"member": name, **json.loads(line)} for line in lines if line]

    def all_events(self) -> list[dict[str, Any]]:
        """All journals as one, in the order of the machine's clock."""
        return sorted((event for name in self.journals for event in self.events(name)), key=lambda event: event["time"])

    def owned(self, name: str) -> set[str]:
        """What a member last said it owns."""
        return set(next((event["partitions"] for event in reversed(self.events(name)) if event["event"] == "owns"), ()))

    def owned_since_start(self, name: str) -> set[str] | None:
        """What a member said last since its last start; None: nothing yet."""
        events = self.events(name)
        begin = max(at for at, event in enumerate(events) if event["event"] == "started")
        return next((set(event["partitions"]) for event in reversed(events[begin:]) if event["event"] == "owns"), None)

    def log_end(self, name: str) -> str:
        """The last lines a member printed."""
        return "\n".join((self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-60:])

    def settled(self, partitions: set[str]) -> bool:
        """Whether the running members own exactly these partitions, each once, as evenly as can be."""
        held = [self.owned(name) for name in self.processes]
        even = max(map(len, held)) - min(map(len, held)) <= 1
        return even and sum(map(len, held)) == len(partitions) and set().union(*held) == partitions

    def each_once(self, partitions: set[str]) -> bool:
        """Whether each of these partitions is owned by one running member; they may own others."""
        held = [partition for name in self.processes for partition in self.owned(name) & partitions]
        return len(held) == len(partitions) == len(set(held))

    def wait_settled(self, topic: str, count: int, within_s: float = WITHIN_S) -> None:
        """Wait until the running members own the topic evenly."""
        wanted = {f"{topic}-{index}" for index in range(count)}
        self.wait(lambda: self.settled(wanted), f"{topic} with {count} partitions to be owned evenly", within_s)

    def wait(self, condition: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
        """Wait for a condition; on the way, no member may end by itself.

        The limit counts looks, ten a second: a machine that is too busy for them is too busy for the members as well.
        """
        looks = 0
        while not condition():
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise AssertionError(f"{name} ended by itself while waiting for {what}:\n{self.log_end(name)}")
            if looks % 10 == 0:
                self.replace_stuck()
            if looks > within_s * 10:
                raise AssertionError(f"waited {within_s:.0f} s in vain for {what}; {self.picture()}")
            looks += 1
            time.sleep(0.1)

    def picture(self) -> str:
        """Who owns what, with where the Python members are and the ends of all logs, for a failing test."""
        for name, process in self.processes.items():
            if self.kinds[name].startswith(("kafka_python", "aiokafka")) and self.events(name):
                process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        held = "\n".join(f"{name} owns {sorted(self.owned(name))}" for name in self.processes)
        logs = "\n".join(f"--- {name}\n{self.log_end(name)}" for name in self.processes)
        return f"members:\n{held}\n{logs}"


@contextlib.contextmanager
def fleet(broker: Broker, folder: Path, group: str, session_ms: int = 6000) -> Iterator[Fleet]:
    """A fleet that is gone at the end, whatever happens."""
    made = Fleet(broker, folder, group, session_ms)
    try:
        yield made
    finally:
        made.close()
