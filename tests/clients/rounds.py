"""Random groups played through the hosts' real classes, round by round, every plan and every state held against the laws.

python -m tests.clients.rounds HOST COUNT [FIRST_SEED]      # as a program: for versions of a host that live elsewhere
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from inspect import signature
from typing import Any

from counterpoise.laws import check_owners
from counterpoise.model.problem import UNOWNED
from counterpoise.planning.lead import Lead
from counterpoise.wire.consumer_protocol import decode_assignment, decode_subscription
from tests.clients.hosts import Answer, HostMember, host_member
from tests.clients.programs.own import own_assignors

__all__ = ["STRATEGIES", "assignment_bytes", "play"]

STRATEGIES = {
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
    "constrained-cooperative-sticky": "ConstrainedCooperativeStickyAssignor",
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
}
_LAWS = {"range": ["valid", "complete"], "roundrobin": ["valid", "complete"]}
_OPTIMAL = ["valid", "complete", "balanced", "sticky"]
_MOST_ROUNDS = 4


class _Group:
    """One random group of one host."""

    def __init__(self, host: str, strategy: str, rng: random.Random, beside_own: bool) -> None:
        self.host, self.strategy, self.rng, self.beside_own = host, strategy, rng, beside_own
        self.own: set[str] = set()
        self.answer = Answer()
        self.leads: list[Lead] = []
        self.members: list[HostMember] = []
        self.instance_of: dict[str, str | None] = {}
        self.event = "join"
        self.lost: set[str] = set()
        self.generation = 0
        self.made = 0
        self._grow_topics(rng.randint(1, 5))
        if rng.random() < 0.3:
            self.answer.brokers = {1: "r1", 2: "r2"}
        for _ in range(rng.randint(1, 6)):
            self.join()

    @property
    def remembers(self) -> bool:
        """Whether members keep what they have: not on an eager host under `cooperative-sticky`, where they may claim nothing."""
        eager = self.host == "aiokafka" or import_module("kafka").__version__.startswith("2.")
        return "sticky" in self.strategy and not (eager and self.strategy == "cooperative-sticky")

    def _grow_topics(self, count: int) -> None:
        for _ in range(count):
            self.answer.topics[f"t{len(self.answer.topics)}"] = self.rng.randint(0, 8)

    def join(self) -> None:
        """A new member, on some of the topics (also one that does not exist), static or not."""
        topics = sorted(self.answer.topics)
        if self.rng.random() < 0.5:
            topics = [each for each in topics if self.rng.random() < 0.7]
        if not topics or self.rng.random() < 0.1:
            topics.append("later")
        assignor = getattr(import_module(f"counterpoise.clients.{self.host}"), STRATEGIES[self.strategy])
        given: dict[str, Any] = {"on_lead": self.leads.append}
        settings = signature(assignor).parameters
        if self.rng.random() < 0.3 and "rack" in settings:
            given["rack"] = self.rng.choice(["r1", "r2"])
        if self.rng.random() < 0.2 and "capacity" in settings:
            given["capacity"] = self.rng.randint(1, 3)
        name = f"{self.rng.choice('abc')}{self.made}"
        self.made += 1
        if self.beside_own and self.rng.random() < 0.4:
            # A class of its own for each: some hosts keep a member's state on the class.
            chosen = type("Own", tuple(own_assignors(self.host, [STRATEGIES[self.strategy]])), {})
            self.own.add(name)
        else:
            chosen = assignor(**given)
        self.members.append(host_member(self.host, name, topics, [chosen], self.answer))
        self.instance_of[name] = f"i{name}" if self.rng.random() < 0.3 else None

    def disturb(self) -> None:
        """One thing that happens to groups."""
        event = self.event = self.rng.choice(["join", "leave", "grow", "shrink", "lose", "join", "nothing"])
        if event == "join":
            self.join()
        elif event == "leave" and len(self.members) > 1:
            self.members.pop(self.rng.randrange(len(self.members)))
        elif event == "grow":
            self.answer.topics[self.rng.choice(sorted(self.answer.topics))] += self.rng.randint(1, 3)
        elif event == "shrink":
            topic = self.rng.choice(sorted(self.answer.topics))
            self.answer.topics[topic] = self.rng.randint(0, self.answer.topics[topic])
        elif event == "lose":
            member = self.rng.choice(self.members)
            member.lose()
            self.lost.add(member.id)

    def rebalance(self) -> None:
        """Rounds until no host wants another; then everything that can be owned is, once; nothing moves without a cause."""
        before = {member.id: member.owned() for member in self.members}
        for _ in range(12 if self.own else _MOST_ROUNDS):
            if not self.round():
                break
        else:
            raise AssertionError(f"still not stable after {_MOST_ROUNDS} rounds")
        owned = Counter(each for member in self.members for each in member.owned())
        subscribed = {topic for member in self.members for topic in member.topics}
        wanted = {(topic, at) for topic, count in self.answer.topics.items() if topic in subscribed for at in range(count)}
        assert owned == Counter(wanted), f"owned {sorted(owned.items())}, wanted {sorted(wanted)}"
        if self.event == "nothing" and self.remembers and not self.own:
            moved = [member.id for member in self.members if member.owned() != before[member.id]]
            assert not moved, f"nothing happened, and yet something moved to or from {moved}"

    def round(self) -> bool:
        """One JoinGroup and SyncGroup; True when a member will join again."""
        self.generation += self.rng.randint(1, 3)
        before = {member.id: member.owned() for member in self.members}
        sent = [(member.id, member.join()[self.strategy], self.instance_of[member.id]) for member in self.members]
        held = {member: _pairs(decode_subscription(data).owned) for member, data, _ in sent}
        really = {member.id: member.holds() for member in self.members}
        for member in self.members if not self.own else ():
            claimed, holds = held[member.id], really[member.id]
            assert claimed == holds, f"{member.id} claims {sorted(claimed)} while it holds {sorted(holds)}"
        self.rng.shuffle(sent)
        leader = self.rng.choice(self.members)
        assignments = leader.lead(self.strategy, self.generation, sent)
        given = {member: _pairs(decode_assignment(assignment_bytes(data)).partitions) for member, data in assignments.items()}
        self.check_given(given, really)
        if leader.id not in self.own:
            self.check_target(self.leads[-1], held, given, [each[1] for each in sent])
            if self.remembers and not self.own:
                self.check_history(self.leads[-1], before)
        self.lost.clear()
        again = [
            member.complete(self.strategy, self.generation, assignment_bytes(assignments[member.id])) for member in self.members
        ]
        return any(again)

    def check_given(self, given: dict[str, set[Any]], held: dict[str, set[Any]]) -> None:
        """Nothing is handed out twice, nor while another member holds it, whoever leads."""
        total = Counter(each for pairs in given.values() for each in pairs)
        assert all(count == 1 for count in total.values()), f"handed out twice: {total.most_common(3)}"
        assert set(given) == {member.id for member in self.members}
        for member, pairs in given.items():
            for other, kept in held.items():
                assert other == member or not pairs & kept, f"{member} gets {sorted(pairs & kept)} while {other} holds it"

    def check_target(self, led: Lead, held: dict[str, set[Any]], given: dict[str, set[Any]], sent: Sequence[bytes]) -> None:
        """Our leader's target obeys the laws, and nothing is withheld without need."""
        laws = _LAWS.get(self.strategy, _OPTIMAL)
        faults = check_owners(led.problem, led.target_owner, laws)
        assert not faults, f"{[str(each) for each in faults]}; sent {[each.hex() for each in sent]}"
        if not any(held.values()):
            assert sum(map(len, given.values())) == int((led.target_owner != UNOWNED).sum()), (
                "something is withheld that nobody holds"
            )

    def check_history(self, led: Lead, before: dict[str, set[tuple[str, int]]]) -> None:
        """The leader knows who had what, as far as it exists and its member still reads it and was not forgotten."""
        problem = led.joined.problem
        code = {member: at for at, member in enumerate(led.joined.member_ids)}
        for member in self.members:
            for topic, index in before[member.id] if member.id not in self.lost else ():
                if index < self.answer.topics[topic] and topic in member.topics:
                    at = int(problem.topic_start[led.joined.topics.names.index(topic)]) + index
                    known = int(problem.previous_owner[at])
                    assert known == code[member.id], f"the leader does not know that {member.id} had {topic}-{index}"


def _pairs(partitions: Any) -> set[tuple[str, int]]:
    return {(topic, index) for topic, indices in partitions for index in indices}


def assignment_bytes(data: Any) -> bytes:
    """Assignment bytes; kafka-python's own assignors give objects that encode themselves."""
    return bytes(data if isinstance(data, bytes) else data.encode())


def play(host: str, strategy: str, seed: int, *, beside_own: bool = False) -> None:
    """One random group through four rebalances, some members with the host's own assignor. AssertionError names the seed."""
    rng = random.Random(f"{strategy}-{seed}")
    group = _Group(host, strategy, rng, beside_own)
    try:
        for _ in range(4):
            group.rebalance()
            group.disturb()
        group.rebalance()
    except Exception as error:
        raise AssertionError(f"{host}, {strategy}, seed {seed}: {error!r}") from error


def main(host: str, count: int, first: int = 0) -> None:
    """Play `count` groups, the strategies in turn."""
    for seed in range(first, first + count):
        play(host, tuple(STRATEGIES)[seed % len(STRATEGIES)], seed)
    print(f"{host} {import_module('kafka' if host == 'kafka_python' else host).__version__}: {count} groups obey the laws")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
