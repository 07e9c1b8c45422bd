"""Groups on a network that fails: a coordinator that moves between three brokers, slow and lost connections. The invariants hold.

Minutes: in the long profile.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition

from tests.clients.fleet import Fleet, fleet
from tests.clients.live_runs import GROUPS, Run, end, read_on, run_of, scale_out
from tests.clients.records import partition_of
from tests.faulty_network import Proxy, proxy
from tests.java import java_home
from tests.kafka_broker import Broker, free_ports

pytestmark = pytest.mark.kafka
OFFSETS_TOPIC = "__consumer_offsets"
SEED = 20_261_124
CUTS = 12


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[int, Broker]]:
    """Three brokers by node id, with three replicas of everything; only the first is a controller."""
    java = Path(java_home()) / "bin" / "java"
    settings = {
        "default.replication.factor": "3",
        "offsets.topic.replication.factor": "3",
        "auto.leader.rebalance.enable": "false",
    }
    folders = [tmp_path / f"node-{node}" for node in (1, 2, 3)]
    for folder in folders:
        folder.mkdir()
    first = Broker(folders[0], java, settings=settings)
    nodes = {1: first} | {node: Broker(folders[node - 1], java, settings=settings, beside=first, node=node) for node in (2, 3)}
    with ExitStack() as stack:
        for node in nodes.values():
            stack.callback(node.stop)
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(Broker.start, nodes.values()))
        yield nodes


class Coordinator:
    """Where the group's coordinator is, and how it is moved."""

    def __init__(self, nodes: dict[int, Broker], members: Fleet) -> None:
        self.nodes, self.members, self.admin = nodes, members, nodes[1].admin()
        self.place = TopicPartition(OFFSETS_TOPIC, partition_of(members.group))

    def partition(self) -> Any:
        """The partition of the offsets topic that belongs to the group, as metadata show it."""
        return self.admin.list_topics(OFFSETS_TOPIC, timeout=30).topics[OFFSETS_TOPIC].partitions[self.place.partition]

    def node(self) -> int:
        return int(self.partition().leader)

    def home(self) -> int:
        """Where it belongs: the first replica."""
        return int(self.partition().replicas[0])

    def moves_from(self, node: int) -> None:
        self.members.wait(lambda: self.node() not in (node, -1), f"the coordinator to move from node {node}")

    def come_home(self) -> None:
        """Wait until all replicas are in sync, and elect the preferred leader, while the one before is alive."""
        self.members.wait(lambda: len(self.partition().isrs) == 3, "all replicas to be in sync")
        self.admin.elect_leaders(ElectionType.PREFERRED, [self.place]).result(30)
        self.members.wait(lambda: self.node() == self.home(), "the coordinator to come home")


def named_away_from(first: Broker, kind: str) -> str:
    """A group's name whose coordinator is at home on another node than the first, which is the only controller."""
    admin, deadline = first.admin(), time.monotonic() + 120
    partitions: Any = {}
    while not (partitions and all(len(each.isrs) == 3 and each.leader > 0 for each in partitions.values())):
        assert time.monotonic() < deadline, partitions
        with suppress(KafkaException):  # the first question about a group creates the offsets topic
            admin.describe_consumer_groups(["nobody"], request_timeout=5)["nobody"].result(10)
        partitions = getattr(admin.list_topics(timeout=30).topics.get(OFFSETS_TOPIC), "partitions", {})
    names = (f"moving-{kind}-{at}".replace("_", "-") for at in range(99))
    return next(name for name in names if partitions[partition_of(name)].replicas[0] != 1)


@pytest.mark.parametrize(("group", "first"), [("cooperative-sticky", "kafka_python"), ("sticky", "aiokafka")])
def test_a_group_survives_a_coordinator_that_moves(cluster: dict[int, Broker], tmp_path: Path, group: str, first: str) -> None:
    """Stopped in order, elected away while it lives, killed; each with and without a member that joins meanwhile."""
    name = named_away_from(cluster[1], f"{group}-{first}")
    with fleet(cluster[1], tmp_path, name, 20_000) as members:
        run = run_of(cluster[1], members, group, first, name)
        scale_out(run)
        coordinator = Coordinator(cluster, members)
        assert coordinator.node() == coordinator.home() != 1
        for at, how in enumerate((Broker.stop, Broker.kill, Broker.stop, Broker.kill)):
            node = coordinator.node()
            joining = f"newcomer-{at}" if at > 1 else None
            if joining:
                run.start(joining, "kafka_python")
            how(cluster[node])
            coordinator.moves_from(node)
            read_on(run)
            cluster[node].start()
            if joining:
                members.stop(joining)
            coordinator.come_home()
            read_on(run)
        end(run)


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[tuple[Broker, Proxy]]:
    """A broker with a second listener, which is reached through the proxy only."""
    folder = tmp_path / "node"
    folder.mkdir()
    with proxy() as before:
        before.behind = free_ports(1)[0]
        node = Broker(folder, Path(java_home()) / "bin" / "java")
        file = folder / "server.properties"
        text = file.read_text()
        for name, port in (("listeners", before.behind), (r"advertised\.listeners", before.port)):
            text = re.sub(rf"^({name}=\S+)", rf"\1,PROXIED://127.0.0.1:{port}", text, flags=re.MULTILINE)
        file.write_text(text.replace("PLAINTEXT:PLAINTEXT", "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT"))
        try:
            node.start()
            yield node, before
        finally:
            node.stop()


@pytest.mark.parametrize(("group", "first"), [("cooperative-sticky", "kafka_python"), ("sticky", "aiokafka")])
def test_a_group_survives_a_network_that_fails(proxied: tuple[Broker, Proxy], tmp_path: Path, group: str, first: str) -> None:
    """Java is connected directly, all others by a network that is slow, loses connections, and is silent beyond the session."""
    (broker, network), rng = proxied, random.Random(SEED)
    name = f"network-{group}-{first}".replace("_", "-")
    with fleet(broker, tmp_path, name) as members:
        run = run_of(broker, members, group, first, name)
        run.settings = {kind: {"bootstrap": network.address} for kind in GROUPS[group] if kind != "java"}
        scale_out(run)
        network.delay_s = 0.15
        come_and_go(run, "late")
        network.delay_s = 0.0
        for at in range(CUTS):
            if at % 3 == 0:
                run.start(f"newcomer-{at}", rng.choice(GROUPS[group]))
            time.sleep(rng.uniform(0, 1))
            members.wait(lambda: network.cut() > 0, "a connection to cut")
            if at % 3 == 2:
                read_on(run)
                members.stop(f"newcomer-{at - 2}")
        read_on(run)
        be_silent(run, network)
        run.start("interrupted", "kafka_python")
        be_silent(run, network)
        end(run)


def come_and_go(run: Run, name: str) -> None:
    run.start(name, "kafka_python")
    run.settle()
    run.members.stop(name)
    run.settle()


def be_silent(run: Run, network: Proxy) -> None:
    """Until Java alone has everything, because the sessions of the others have run out; then what was held back arrives."""
    whole = {f"{run.topic}-{at}" for at in range(run.partitions)}
    network.hold()
    try:
        run.members.wait(lambda: run.members.owned("java") == whole, "Java to own everything")
    finally:
        network.release()
    read_on(run)
