"""A live group under test on a real broker: how it begins, what happens to it, and what must hold at its end."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.cimpl import NewPartitions

from tests.clients.fleet import Fleet
from tests.clients.invariants import came_and_went, check_run, covered
from tests.clients.records import Feeder, Generation, GroupHistory, group_history
from tests.kafka_broker import Broker

LONG = os.environ.get("COUNTERPOISE_PROFILE") == "long"
SESSION_MS = 10_000 if LONG else 6_000
"""In an hour of runs a busy machine stalls a member for longer than in a minute."""

GROUPS = {
    "sticky": ["kafka_python", "aiokafka", "java"],
    "cooperative-sticky": ["kafka_python", "aiokafka", "java", "confluent"],
    "constrained-cooperative-sticky": ["kafka_python", "aiokafka"],
    "sticky beside own": ["kafka_python_own", "aiokafka_own", "kafka_python", "aiokafka"],
    "cooperative-sticky beside own": ["kafka_python_own", "kafka_python", "aiokafka", "java", "confluent"],
}
CLASS = {
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
    "constrained-cooperative-sticky": "ConstrainedCooperativeStickyAssignor",
}
READS = {
    "kafka_python_own": {"sticky": {"kafka_python_own"}},
    "aiokafka_own": {"sticky": {"aiokafka_own", "kafka_python", "aiokafka"}},
}
"""Whose claims a leader reads that does not read all: kafka-python and aiokafka write and read different user data."""


@dataclass
class Run:
    """One group under test: its members, its topic, and what is being written into it."""

    broker: Broker
    members: Fleet
    group: str
    topic: str
    partitions: int
    feeder: Feeder
    first: str
    keeps: set[str] = field(default_factory=set)
    before: dict[str, set[str]] = field(default_factory=dict)
    settled: float = 0.0
    under_first: list[tuple[str, float]] = field(default_factory=list)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of members, by kind."""

    @property
    def strategy(self) -> str:
        """What the group runs."""
        return self.group.partition(" ")[0]

    def begins(self, event: str) -> None:
        """Something is about to happen to the group, while its first member leads."""
        self.under_first.append((event, time.time()))

    def start(self, name: str, kind: str, **more: Any) -> None:
        """A member joins; members of kinds that have a history keep what they can."""
        settings = self.settings.get(kind, {}) | more
        host = kind.removesuffix("_own")
        if host != kind:
            settings["own"] = True
        self.members.start(name, host, [CLASS[self.strategy]], [self.topic], **settings)
        if not (kind == "aiokafka" and self.strategy != "sticky"):
            self.keeps.add(name)

    def settle(self, *, sticky: bool = True) -> None:
        """Wait until all is owned evenly; what a member had and could keep, it has kept."""
        self.members.wait_settled(self.topic, self.partitions)
        now = {name: self.members.owned(name) for name in self.members.processes}
        for name in self.keeps & self.read_by_the_leader() & self.before.keys() & now.keys() if sticky else ():
            had, has = self.before[name], now[name]
            kept = len(had & has) == min(len(had), len(has))
            assert kept or came_and_went(self.since()), f"{name} had {sorted(had)} and has {sorted(has)}"
        self.before, self.settled = now, time.time()

    def since(self) -> list[Generation]:
        """The generation in which all was last owned evenly, and those after it."""
        generations = group_history(self.broker, self.members.group).generations
        return generations[max(at for at, each in enumerate(generations) if each.time < self.settled) :]

    def read_by_the_leader(self) -> set[str]:
        """The running members whose claims the leader can read."""
        running = set(self.members.processes)
        if "own" not in self.group:
            return running
        read = READS.get(self.members.kinds[leader_of(self)], {}).get(self.strategy)
        return {name for name in running if read is None or self.members.kinds[name] in read}


def run_of(broker: Broker, members: Fleet, group: str, first: str, topic: str, partitions: int = 12) -> Run:
    broker.create_topic(topic, partitions)
    return Run(broker, members, group, topic, partitions, Feeder(broker, topic, partitions), first)


def scale_out(run: Run) -> None:
    """One member of each kind, the first of them leading."""
    for kind in [run.first, *(kind for kind in GROUPS[run.group] if kind != run.first)]:
        if run.members.processes:
            run.begins(f"scale out by {kind}")
        run.start(kind, kind, deadly=str(run.members.folder / f"{kind}.deadly"))
        # An eager member among cooperative ones that comes or goes lets nobody else keep less.
        run.settle()


def grow(run: Run, more: int) -> None:
    """The topic gets more partitions."""
    run.begins("topic growth")
    run.partitions += more
    admin = run.broker.admin()
    admin.create_partitions([NewPartitions(run.topic, run.partitions)])[run.topic].result(30)
    run.feeder.partitions = run.partitions
    run.settle()


def rolling_restart(run: Run) -> None:
    """Every follower ends and comes back, one after the other; the leader's turn is its crash."""
    for name in [each for each in run.members.processes if each != run.first]:
        run.begins(f"scale in by {name}")
        run.members.stop(name)
        run.settle()
        run.begins(f"restart of {name}")
        run.start(f"{name}-again", run.members.kinds[name])
        run.settle()


def crash_in_mid_rebalance(run: Run) -> None:
    """The leader dies by kill -9 between JoinGroup and SyncGroup (a Python one) or while the others join (any other)."""
    leader = run.first
    run.begins("crash in mid-rebalance")
    deadly = run.members.folder / f"{leader}.deadly"
    if leader in ("kafka_python", "aiokafka"):
        write_at_once(deadly, "KILL")
        run.start("newcomer", "kafka_python")
        assert run.members.processes[leader].wait(60) == -9
        run.members.processes.pop(leader)
        run.settle()
    else:
        run.members.pause(leader)
        run.start("newcomer", "kafka_python")
        run.members.wait(lambda: bool(run.members.events("newcomer")), "the newcomer to start")
        time.sleep(1)
        run.members.kill(leader)
        # Where its session ran out before the newcomer joined there were two rebalances: the second may keep what the first
        # has moved. Plans of Python leaders are held against the law of stickiness all the same.
        run.settle(sticky=False)


def sleep_in_mid_rebalance(run: Run) -> None:
    """The leader stops between JoinGroup and SyncGroup (a Python one), is expelled while it joins, and wakes up."""
    if run.first in ("kafka_python", "aiokafka"):
        run.begins("sleep in mid-rebalance")
        deadly = run.members.folder / f"{run.first}.deadly"
        write_at_once(deadly, "STOP")
        run.start("late", "kafka_python")
        run.members.wait(lambda: run.members.paused(run.first), "the leader to pause")
        sleep_beyond_the_session(run, run.first, sticky=False)


def write_at_once(path: Path, text: str) -> None:
    """The file is there with all of its text."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)


def sleep_beyond_the_session(run: Run, sleeper: str, *, sticky: bool = True) -> None:
    """A member stops dead, is forgotten, its partitions go to others; then it wakes up, and nothing stays without an owner."""
    run.members.pause(sleeper)
    asleep = run.members.processes.pop(sleeper)
    try:
        run.settle(sticky=sticky)
    finally:
        run.members.processes[sleeper] = asleep
        run.members.resume(sleeper)
    run.before.pop(sleeper, None)
    run.settle(sticky=sticky)


def leader_of(run: Run) -> str:
    """The running member that leads now."""
    newest = group_history(run.broker, run.members.group).generations[-1]
    return newest.clients[newest.leader]


def restart_the_broker(run: Run) -> None:
    """The coordinator goes and comes back; every member reads on."""
    run.begins("broker restart")
    run.broker.restart()
    read_on(run)


def read_on(run: Run) -> None:
    """Wait until every member reads what is written from now on, and all is owned evenly."""
    now = time.time()

    def reading(name: str) -> bool:
        return any(event["event"] == "records" and event["time"] > now for event in run.members.events(name))

    run.members.wait(lambda: all(map(reading, run.members.processes)), "every member to read on")
    run.settle(sticky=False)


def lead_again(run: Run) -> None:
    """A broker that was long away has forgotten its members, and another may lead: then the others leave and come back."""
    if leader_of(run) != run.first:
        others = [name for name in run.members.processes if name != run.first]
        for name in others:
            run.members.stop(name)
        run.settle(sticky=False)
        for name in others:
            run.start(f"{name}-back", run.members.kinds[name])
            run.settle()


def finish(run: Run) -> None:
    """The end of a run under one leader."""
    check_leader(run, end(run))


def end(run: Run) -> GroupHistory:
    """No more records; when all are processed, members leave; then the whole run is looked at."""
    delivered = run.feeder.stop()
    run.members.wait(lambda: covered(run.members, delivered), "every record to be processed")
    while len(run.members.processes) > 1:
        run.members.stop(next(iter(run.members.processes)))
        run.settle()
    run.members.stop(next(iter(run.members.processes)))
    history = group_history(run.broker, run.members.group, with_commits=True)
    check_run(run.members, delivered, history)
    return history


def check_leader(run: Run, history: GroupHistory) -> None:
    """The member the run is about led when each event began."""
    assert run.under_first
    for event, begin in run.under_first:
        last = [each for each in history.generations if each.time < begin][-1]
        assert last.clients[last.leader] == run.first, f"{event}: generation {last.number} was led by another member"


EVERY = [(group, first) for group, kinds in GROUPS.items() for first in kinds]
