"""A real Kafka broker for tests: one KRaft node on free loopback ports, gone for sure when the tests are.

`make kafka` fetches its jars. Import the `broker` fixture by naming this module in `pytest_plugins` (conftest does).
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.java import QUICK, java_home

__all__ = ["Broker", "broker", "free_ports", "own_broker"]

ROOT = Path(__file__).resolve().parent.parent
LIBS = ROOT / ".kafka" / "libs"
SETTINGS = ROOT / "tests" / "kafka"
HEAP = ("-Xms256m", "-Xmx1g", *QUICK)
# ApiVersions, version 0: length 15, key 18, version 0, correlation 7, client id "test", no body.
ASK_VERSIONS = bytes.fromhex("0000000e 0012 0000 00000007 0004 74657374")
START_WITHIN_S = 180.0
STOP_WITHIN_S = 60.0


class Broker:
    """One node with its data folder; `bootstrap` is its address. Starts in the constructor's folder, stops by `stop`.

    With `beside` it is another node, a broker only, of that node's cluster. `settings` replace those of
    tests/kafka/server.properties.
    """

    def __init__(
        self,
        folder: Path,
        java: Path,
        *,
        settings: Mapping[str, str] | None = None,
        beside: Broker | None = None,
        node: int = 2,
        port: int | None = None,
    ) -> None:
        self.folder = folder
        self.log = folder / "broker.log"
        self._java = java
        self._process: subprocess.Popen[bytes] | None = None
        self._out: IO[bytes] | None = None
        free, own_port = free_ports(2)
        self.port = port or free
        self.controller_port: int = beside.controller_port if beside else own_port
        self.cluster: str = beside.cluster if beside else _cluster_id()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._properties = folder / "server.properties"
        template = (SETTINGS / "server.properties").read_text()
        for name, value in (("PORT", self.port), ("CONTROLLER_PORT", self.controller_port), ("DATA", folder / "data")):
            template = template.replace(f"@{name}@", str(value))
        for name, given in (settings or {}).items():
            template += f"\n{name}={given}\n"
        if beside:
            # Of two lines with one name the later counts.
            template += f"\nprocess.roles=broker\nnode.id={node}\nlisteners=PLAINTEXT://127.0.0.1:{self.port}\n"
        self._properties.write_text(template)
        self._run("kafka.tools.StorageTool", "format", "-t", self.cluster, "-c", str(self._properties))

    def start(self) -> None:
        """Start the node and wait until it answers an ApiVersions request; fails with the end of its log when it does not."""
        if self._process is not None:
            raise RuntimeError("the broker runs already")
        self._out = self.log.open("ab")
        self._process = subprocess.Popen(
            [*self._command(), "kafka.Kafka", str(self._properties)],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_WITHIN_S
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the broker did not start; the end of its log:\n{self.log_end()}")
            time.sleep(0.2)

    def stop(self) -> None:
        """Stop in good order; kill what has not ended after a minute. Returns when the process is gone."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Stop at once, as a crash would. Returns when the process is gone."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop in good order and start again on the same ports and data."""
        self.stop()
        self.start()

    def answers(self) -> bool:
        """Whether the port answers an ApiVersions request as a Kafka broker does."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as link:
                link.sendall(ASK_VERSIONS)
                head = link.recv(10, socket.MSG_WAITALL)
        except OSError:
            return False
        return len(head) == 10 and head[4:8] == ASK_VERSIONS[8:12] and head[8:10] == b"\x00\x00"

    def admin(self) -> AdminClient:
        """A fresh admin client of this broker."""
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Create a topic, with the cluster's number of replicas, and wait until every partition has a leader."""
        topic = NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(config))
        self._create(topic, name, partitions)

    def create_topic_on(self, name: str, nodes: list[int]) -> None:
        """Create a topic with one partition on each of these nodes; the same wait."""
        topic = NewTopic(name, num_partitions=len(nodes), replica_assignment=[[node] for node in nodes])
        self._create(topic, name, len(nodes))

    def _create(self, topic: NewTopic, name: str, partitions: int) -> None:
        admin = self.admin()
        admin.create_topics([topic])[name].result(30)
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(KafkaException):
                known = admin.list_topics(name, timeout=10).topics[name].partitions
                if len(known) == partitions and all(partition.leader >= 0 for partition in known.values()):
                    return
            if time.monotonic() > deadline:
                raise RuntimeError(f"topic {name} has no leaders after 30 s; the end of the broker's log:\n{self.log_end()}")
            time.sleep(0.1)

    def log_end(self) -> str:
        """The last lines of the broker's log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def _command(self) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={SETTINGS / 'log4j2.properties'}"
        return [str(self._java), *HEAP, logging, "-cp", f"{LIBS}/*"]

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command(), *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            # The whole process group: a child must not live on and answer in the next broker's place.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, how)
            try:
                process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if self._out is not None:
            self._out.close()
            self._out = None


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker per test run, started by the first test that asks for it; fails in one line without its jars or Java."""
    yield from _running_broker(tmp_path_factory)


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of one test, which may crash it: on a shared one, transactions that stay open would hide later records."""
    yield from _running_broker(tmp_path_factory)


def _running_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if not LIBS.is_dir():
        pytest.fail("the jars of the test broker are missing: run `make kafka`", pytrace=False)
    node = Broker(tmp_path_factory.mktemp("kafka"), Path(java_home()) / "bin" / "java")
    try:
        node.start()
        yield node
    finally:
        node.stop()


def _cluster_id() -> str:
    """As Kafka writes them: 16 bytes in base64 without padding; a leading dash would be an option to its tool."""
    return "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]
