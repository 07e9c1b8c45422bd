"""Records `tests/data/recorded/kip848` anew: ``python -m tests.pipeline.record_epochs FOLDER``, two minutes.

Groups of a real broker under KIP-848: one that is upgraded and downgraded again, one of each of the broker's assignors (with
unlike subscriptions, a pattern, a topic that comes later), and one with static members.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer, Producer

from tests.java import java_home
from tests.kafka_broker import Broker

NEW = {"group.protocol": "consumer"}
OLD = {"partition.assignment.strategy": "cooperative-sticky"}


class Member:
    """One consumer in a thread of its own, which alone may ask it what it holds."""

    def __init__(self, broker: Broker, group: str, name: str, topics: Sequence[str], **settings: str) -> None:
        about = {"bootstrap.servers": broker.bootstrap, "group.id": group, "client.id": name, "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**about, "auto.commit.interval.ms": 500, **settings})
        self._consumer.subscribe(list(topics))
        self._done = False
        self.held = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._done:
            self._consumer.poll(0.2)
            self.held = len(self._consumer.assignment())
        self._consumer.close()

    def leave(self) -> None:
        self._done = True
        self._thread.join()


def settled(members: Sequence[Member], partitions: int) -> None:
    """Until all partitions are with these members, and a moment longer."""
    deadline = time.monotonic() + 60
    while sum(member.held for member in members) != partitions or not all(member.held for member in members):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{[member.held for member in members]} of {partitions} partitions after 60 s")
        time.sleep(0.2)
    time.sleep(1)


def moved_over(broker: Broker) -> None:
    """Two classic members, one of each kind beside the other, new ones alone, and all the way back."""
    members = [Member(broker, "moved-over", name, ["orders"], **OLD) for name in "ab"]
    settled(members, 6)
    for name, settings in (("c", NEW), ("", {}), ("", {}), ("d", NEW), ("e", OLD), ("", {}), ("", {}), ("f", OLD), ("", {})):
        if name:
            members.append(Member(broker, "moved-over", name, ["orders"], **settings))
        else:
            members.pop(0).leave()
        settled(members, 6)
    members.pop().leave()


def by_range(broker: Broker) -> list[Member]:
    """Four members, of which the last wants less; the first one leaves."""
    members: list[Member] = []
    for name, topics in (
        ("r0", ["orders", "views"]),
        ("r1", ["orders", "views"]),
        ("r2", ["orders", "views"]),
        ("r3", ["views"]),
    ):
        members.append(Member(broker, "by-range", name, topics, **NEW, **{"group.remote.assignor": "range"}))
        settled(members, 14)
    members.pop(0).leave()
    settled(members, 14)
    return members


def by_uniform(broker: Broker) -> list[Member]:
    """Members that want different topics, two of them by a pattern that comes to match another one."""
    members: list[Member] = []
    for name, topics, partitions in (("u0", ["^orders.*"], 10), ("u1", ["views"], 18), ("u2", ["orders", "views"], 18)):
        members.append(Member(broker, "by-uniform", name, topics, **NEW))
        settled(members, partitions)
    broker.create_topic("orders-us", 3)
    settled(members, 21)
    members.append(Member(broker, "by-uniform", "u3", ["^orders.*"], **NEW, **{"group.remote.assignor": "uniform"}))
    settled(members, 21)
    members.pop(0).leave()
    settled(members, 21)
    return members


def steady(broker: Broker) -> list[Member]:
    """Three static members, of which one is away for a moment; then one that is not."""

    def static(at: int) -> Member:
        return Member(broker, "steady", f"s{at}", ["views"], **NEW, **{"group.instance.id": f"i{at}"})

    members = [static(at) for at in range(3)]
    settled(members, 8)
    members[1].leave()
    time.sleep(2)
    members[1] = static(1)
    settled(members, 8)
    members.append(Member(broker, "steady", "s3", ["views"], **NEW))
    settled(members, 8)
    return members


def main(out: Path) -> None:
    """Everything, one group after the other; the captured topic goes to `out`."""
    with TemporaryDirectory() as folder:
        broker = Broker(Path(folder), Path(java_home()) / "bin" / "java")
        broker.start()
        try:
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            for topic, partitions in (("orders", 6), ("orders-eu", 4), ("views", 8)):
                broker.create_topic(topic, partitions)
                for _ in range(300):
                    producer.produce(topic, b"x")
            producer.flush()
            moved_over(broker)
            for member in [*by_range(broker), *by_uniform(broker), *steady(broker)]:
                member.leave()
            command = [str(Path(sys.executable).with_name("counterpoise")), "capture"]
            subprocess.run([*command, "--bootstrap-server", broker.bootstrap, "--out", str(out)], check=True)
        finally:
            broker.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
