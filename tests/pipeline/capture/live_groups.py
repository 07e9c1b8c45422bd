"""A group of Java and kafka-python members that come and go until they are stopped; and what they say they were given."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupState

from tests.clients.fleet import Fleet
from tests.kafka_broker import Broker

__all__ = ["LiveGroup", "Seen"]

Seen = tuple[str, int, frozenset[str]]
"""Client id, generation, partitions."""
CALM_S = (1.0, 3.0)


class LiveGroup:
    """One group by a seeded plan: a Java and a kafka-python member stay, another of each joins and leaves again and again."""

    def __init__(self, broker: Broker, folder: Path, topic: str, group: str, seed: int) -> None:
        folder.mkdir()
        self.group, self._broker = group, broker
        self._fleet = Fleet(broker, folder, group)
        self._topic, self._rng = topic, random.Random(seed)
        self._done = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """End all members in good order, until the broker has written that the group is empty; raises what went wrong."""
        self._done.set()
        self._thread.join(300)
        assert not self._thread.is_alive()
        if self._failed:
            raise self._failed.pop()
        admin, deadline = self._broker.admin(), time.monotonic() + 60
        # A rebalance that has begun may wait for a member that has left meanwhile.
        while admin.describe_consumer_groups([self.group])[self.group].result(30).state != ConsumerGroupState.EMPTY:
            assert time.monotonic() < deadline, "the group is not empty"
            time.sleep(0.1)

    def wait(self, generations: int, within_s: float = 180.0) -> None:
        """Until both kinds of members have been given something in so many generations."""
        deadline = time.monotonic() + within_s
        while (
            min(len({g for name, g, _ in self.assignments() if name.startswith(kind)}) for kind in ("java", "kafka_python"))
            < generations
        ):
            assert not self._failed, self._failed
            assert time.monotonic() < deadline, f"only {sorted({g for _, g, _ in self.assignments()})}"
            time.sleep(0.2)

    def assignments(self) -> list[Seen]:
        """Every assignment a member says it was given, with its generation."""
        events: list[dict[str, Any]] = [each for name in list(self._fleet.journals) for each in self._fleet.events(name)]
        return [
            (each["member"], each["generation"], frozenset(each["partitions"])) for each in events if each["event"] == "assigned"
        ]

    def _run(self) -> None:
        try:
            for name in ("java-1", "kafka_python-1"):
                self._start(name)
            while not self._done.wait(self._rng.uniform(*CALM_S)):
                name = self._rng.choice(["java-2", "kafka_python-2"])
                self._fleet.stop(name) if name in self._fleet.processes else self._start(name)
        except BaseException as error:  # noqa: BLE001
            self._failed.append(error)
        finally:
            for name in [] if self._failed else list(self._fleet.processes):
                self._fleet.stop(name)
            self._fleet.close()

    def _start(self, name: str) -> None:
        self._fleet.start(name, name.partition("-")[0], ["StickyAssignor"], [self._topic])
