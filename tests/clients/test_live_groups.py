"""Live groups of every kind of member on a real broker: whatever is done to them, the invariants of a run hold.

The long profile (`make soak`) does everything to a group under every leader, the others do all of it under one.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.cimpl import NewPartitions

from tests.clients.fleet import Fleet, fleet
from tests.clients.invariants import check_run, covered
from tests.clients.records import Feeder, group_history
from tests.kafka_broker import Broker

pytestmark = pytest.mark.kafka
LONG = os.environ.get("COUNTERPOISE_PROFILE") == "long"

KINDS = {
    "sticky": ["kafka_python", "aiokafka", "java"],
    "cooperative-sticky": ["kafka_python", "aiokafka", "java", "confluent"],
}
CLASS = {"sticky": "StickyAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}


@dataclass
class Run:
    """One group under test: its members, its topic, and what is being written into it."""

    broker: Broker
    members: Fleet
    strategy: str
    topic: str
    partitions: int
    feeder: Feeder
    keeps: set[str] = field(default_factory=set)
    before: dict[str, set[str]] = field(default_factory=dict)

    def start(self, name: str, kind: str, **settings: Any) -> None:
        """A member joins; members of kinds that have a history keep what they can."""
        self.members.start(name, kind, [CLASS[self.strategy]], [self.topic], **settings)
        if not (kind == "aiokafka" and self.strategy == "cooperative-sticky"):
            self.keeps.add(name)

    def settle(self, *, sticky: bool = True) -> None:
        """Wait until all is owned evenly; what a member had and could keep, it has kept."""
        self.members.wait_settled(self.topic, self.partitions)
        now = {name: self.members.owned(name) for name in self.members.processes}
        for name in self.keeps & self.before.keys() & now.keys() if sticky else ():
            had, has = self.before[name], now[name]
            assert len(had & has) == min(len(had), len(has)), f"{name} had {sorted(had)} and has {sorted(has)}"
        self.before = now

    def grow(self, more: int) -> None:
        """The topic gets more partitions."""
        self.partitions += more
        admin = self.broker.admin()
        admin.create_partitions([NewPartitions(self.topic, self.partitions)])[self.topic].result(30)
        self.feeder.partitions = self.partitions


def run_of(broker: Broker, members: Fleet, strategy: str, topic: str, partitions: int = 12) -> Run:
    broker.create_topic(topic, partitions)
    return Run(broker, members, strategy, topic, partitions, Feeder(broker, topic, partitions))


def scale_out(run: Run, first: str) -> None:
    """One member of each kind, the first of them leading."""
    kinds = [first, *(kind for kind in KINDS[run.strategy] if kind != first)]
    for kind in kinds:
        run.start(kind, kind, deadly=str(run.members.folder / f"{kind}.deadly"))
        # An eager member among cooperative ones that comes or goes lets nobody else keep less.
        run.settle()


def rolling_restart(run: Run) -> None:
    """Every member ends and comes back, one after the other."""
    for name in list(run.members.processes):
        run.members.stop(name)
        run.settle()
        run.start(f"{name}-again", run.members.kinds[name])
        run.settle()


def crash_in_mid_rebalance(run: Run, leader: str) -> None:
    """The leader dies by kill -9 between JoinGroup and SyncGroup (a Python one) or while the others join (any other)."""
    deadly = run.members.folder / f"{leader}.deadly"
    if leader in ("kafka_python", "aiokafka"):
        deadly.touch()
        run.start("newcomer", "kafka_python")
        process = run.members.processes.pop(leader)
        process.wait(60)
        assert process.returncode == -9
    else:
        run.members.pause(leader)
        run.start("newcomer", "kafka_python")
        run.members.wait(lambda: bool(run.members.events("newcomer")), "the newcomer to start")
        time.sleep(1)
        run.members.kill(leader)
    run.settle()


def sleep_beyond_the_session(run: Run, sleeper: str) -> None:
    """A member stops dead, is forgotten, its partitions go to others; then it wakes up, and nothing stays without an owner."""
    run.members.pause(sleeper)
    asleep = run.members.processes.pop(sleeper)
    try:
        run.settle()
    finally:
        run.members.processes[sleeper] = asleep
        run.members.resume(sleeper)
    run.before.pop(sleeper, None)
    run.settle()


def restart_the_broker(run: Run) -> None:
    """The coordinator goes and comes back; every member reads on."""
    run.broker.restart()
    back = time.time()

    def reading(name: str) -> bool:
        return any(event["event"] == "records" and event["time"] > back for event in run.members.events(name))

    run.members.wait(lambda: all(map(reading, run.members.processes)), "every member to read after the broker's restart")
    run.settle(sticky=False)


def finish(run: Run) -> None:
    """No more records; when all are processed, members leave; then the whole run is looked at."""
    delivered = run.feeder.stop()
    run.members.wait(lambda: covered(run.members, delivered), "every record to be processed")
    while len(run.members.processes) > 1:
        run.members.stop(next(iter(run.members.processes)))
        run.settle()
    run.members.stop(next(iter(run.members.processes)))
    check_run(run.members, delivered, group_history(run.broker, run.members.group))


EVERY = [(strategy, first) for strategy, kinds in KINDS.items() for first in kinds]
FULL = EVERY if LONG else [("cooperative-sticky", "kafka_python")]
SHORT = EVERY if LONG else [("sticky", "java"), ("cooperative-sticky", "aiokafka"), ("cooperative-sticky", "confluent")]


@pytest.mark.parametrize(("strategy", "first"), FULL)
def test_a_group_survives_all_that_happens_to_groups(broker: Broker, tmp_path: Path, strategy: str, first: str) -> None:
    """Scale out, growth, sleep, crash of the leader in mid-rebalance, broker restart, rolling restart, scale in."""
    name = f"all-{strategy}-{first}".replace("_", "-")
    with fleet(broker, tmp_path, name) as members:
        run = run_of(broker, members, strategy, name)
        scale_out(run, first)
        run.grow(3)
        run.settle()
        sleep_beyond_the_session(run, "kafka_python" if first != "kafka_python" else "java")
        crash_in_mid_rebalance(run, first)
        restart_the_broker(run)
        sleep_beyond_the_session(run, "newcomer")
        rolling_restart(run)
        finish(run)


@pytest.mark.parametrize(("strategy", "first"), SHORT)
def test_any_kind_of_member_may_lead_any_other(broker: Broker, tmp_path: Path, strategy: str, first: str) -> None:
    """Scale out under each leader, the leader's crash, scale in."""
    name = f"lead-{strategy}-{first}".replace("_", "-")
    with fleet(broker, tmp_path, name) as members:
        run = run_of(broker, members, strategy, name)
        scale_out(run, first)
        crash_in_mid_rebalance(run, first)
        finish(run)
