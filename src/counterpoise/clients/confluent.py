"""Confluent consumers that share topics by a plan: manual `assign()`, because the library has no hook for assignors.

    plan = share_out(config, ["orders"], ["worker-0", "worker-1"])      # once; Path("plan.json").write_text(plan.to_json())
    reader = PlannedConsumer(config, "plan.json", "worker-0")           # in each process
    record = reader.consumer.poll(1.0)

Nothing watches over such readers: no heartbeat, no rebalance. If a reader dies, nobody reads its partitions until it is
started again; two processes under one name read the same twice. To change the plan, call `give_up` in all readers first,
then `take_up` in all.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

from counterpoise.clients.member_side import pairs
from counterpoise.errors import MissingExtraError, OptionError, SnapshotError, SourceError, check_names
from counterpoise.extras import pip_install
from counterpoise.planning.assign import assign
from counterpoise.snapshot.checks import checked
from counterpoise.snapshot.group import Group, Member
from counterpoise.snapshot.names import Assignment
from counterpoise.snapshot.plan import PLAN_ADVICE, Plan, read_assignment

try:
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition
except ImportError as error:
    raise MissingExtraError(f"this consumer needs confluent-kafka: {pip_install('live')}") from error

__all__ = ["PlannedConsumer", "share_out"]

Shares = Mapping[str, Mapping[str, Sequence[int]]]
"""{member: {topic: [partitions]}}"""

_RESET = dict.fromkeys(("earliest", "smallest", "beginning"), OFFSET_BEGINNING) | dict.fromkeys(
    ("latest", "largest", "end"), OFFSET_END
)
_WITHOUT_EFFECT = ("group.instance.id", "group.protocol", "group.remote.assignor", "partition.assignment.strategy")


def share_out(
    config: Mapping[str, Any],
    topics: Iterable[str],
    members: Iterable[str],
    *,
    previous: Plan | Shares | str | Path | None = None,
    strategy: str = "sticky",
    timeout_s: float = 30.0,
) -> Plan:
    """A plan for readers of these names, from the topics as the broker has them now.

    Parameters
    ----------
    config : mapping
        As for `confluent_kafka.Consumer`.
    topics, members : iterables of str
    previous : Plan, mapping or path, optional
        The plan before: what a sticky strategy keeps.
    strategy : str
        Any registered one that needs no lag.
    timeout_s : float
        How long to wait for the broker.

    Raises
    ------
    SnapshotError
        A topic that does not exist; a previous plan that cannot be read.
    OptionError
        `topics` or `members` is one text, not a list.
    UnknownStrategyError
        There is no such strategy.
    SourceError
        The broker does not answer, or the principal has no Describe permission on the topics.
    """
    check_names("topics", topics)
    check_names("members", members)
    wanted, before = sorted(set(topics)), {} if previous is None else _shares(previous)
    with closing(Consumer({"log_level": 0, "group.id": "counterpoise", **config})) as consumer:
        counts = {topic: _partition_count(consumer, topic, timeout_s) for topic in wanted}
    readers = [Member(name, wanted, owned=before.get(name, {}), generation=0 if name in before else -1) for name in members]
    return assign(Group(counts, readers), strategy, protocol="eager")


class PlannedConsumer(AbstractContextManager["PlannedConsumer"]):
    """One reader of a plan.

    Parameters
    ----------
    config : mapping
        As for `confluent_kafka.Consumer`; its `group.id` says where offsets are committed; no subscribing consumer may use it.
    plan : Plan, mapping or path
        A plan of `share_out` or of `counterpoise.assign`, ``{member: {topic: [partitions]}}``, or a file with either as JSON.
    member : str
        Whose share this process reads.
    timeout_s : float
        How long to wait for the broker.

    Attributes
    ----------
    consumer : confluent_kafka.Consumer
        Poll and commit with it as usual; do not subscribe or assign.

    Raises
    ------
    OptionError
        No `group.id`, a setting of the group protocol (it would be ignored), a member the plan does not know.
    SnapshotError
        The plan does not hold each partition of its topics exactly once: one would be read by two or by nobody.
    SourceError
        The broker does not answer, or the principal has no Describe permission on the topics.
    """

    def __init__(
        self, config: Mapping[str, Any], plan: Plan | Shares | str | Path, member: str, *, timeout_s: float = 30.0
    ) -> None:
        if not config.get("group.id"):
            raise OptionError("group.id: missing; it says where offsets are committed")
        for name in _WITHOUT_EFFECT:
            if name in config:
                raise OptionError(f"{name}: has no effect without the group protocol; leave it out")
        self.member = member
        self._timeout_s = timeout_s
        self._reset = _RESET.get(str(config.get("auto.offset.reset", "latest")), OFFSET_INVALID)
        self._owned: frozenset[tuple[str, int]] = frozenset()
        self.consumer = Consumer(dict(config))
        try:
            self.take_up(plan)
        except BaseException:
            self.consumer.close()
            raise

    @property
    def owned(self) -> list[tuple[str, int]]:
        """The (topic, partition) pairs being read, sorted."""
        return sorted(self._owned)

    def give_up(self, plan: Plan | Shares | str | Path) -> list[tuple[str, int]]:
        """Stop reading what the new plan gives to others; returns it.

        Call it when everything polled has been processed: the offset after the last polled record of each partition is
        committed first, synchronously, except for topics that have been deleted. If the plan does not name this member, it
        gives up all its partitions.
        Raises `SourceError`, and gives up nothing, if the broker does not answer, or does not take the offsets.
        """
        shares = self._checked(plan)
        lost = sorted(self._owned.difference(pairs(shares.get(self.member, {}).items())))
        if lost:
            gone = {topic for topic in {topic for topic, _ in lost} if self._is_gone(topic)}
            there = [TopicPartition(topic, partition) for topic, partition in lost if topic not in gone]
            self._commit([each for each in self.consumer.position(there) if each.offset >= 0])
            self.consumer.incremental_unassign([TopicPartition(*each) for each in lost])
            self._owned -= frozenset(lost)
        return lost

    def take_up(self, plan: Plan | Shares | str | Path) -> list[tuple[str, int]]:
        """Begin to read what the new plan gives to this member, from the committed offsets; returns what is new.

        Call it when every other reader has given up its part.
        """
        shares = self._checked(plan)
        if self.member not in shares:
            raise OptionError(f"member: the plan has no {self.member!r}, only {', '.join(map(repr, sorted(shares)))}")
        now = frozenset(pairs(shares[self.member].items()))
        if self._owned - now:
            raise OptionError(
                f"plan: it gives {len(self._owned - now)} partitions of {self.member!r} to others; give_up(plan) first"
            )
        gained = sorted(now - self._owned)
        if gained:
            self.consumer.incremental_assign(self._starts(gained))
            self._owned = now
        return gained

    def _starts(self, partitions: list[tuple[str, int]]) -> list[TopicPartition]:
        """Where to begin: at the committed offsets, read here and waited for.

        If librdkafka fetched them itself, partitions would never start if the coordinator was not available at first.
        """
        until = time.monotonic() + self._timeout_s
        while True:
            try:
                found = self.consumer.committed([TopicPartition(*each) for each in partitions], timeout=self._timeout_s)
                said = next((each.error.str() for each in found if each.error), "")
            except KafkaException as error:
                said = error.args[0].str()
            if not said:
                return [each if each.offset >= 0 else TopicPartition(each.topic, each.partition, self._reset) for each in found]
            if time.monotonic() > until:
                raise SourceError(f"committed offsets cannot be read: {said}; is the group's coordinator up?")
            time.sleep(0.2)

    def _commit(self, offsets: list[TopicPartition]) -> None:
        """Commit these offsets, unless there are none; raises `SourceError` if the coordinator does not take all of them."""
        if not offsets:
            return
        try:
            errors = [each.error for each in self.consumer.commit(offsets=offsets, asynchronous=False) if each.error is not None]
        except KafkaException as error:  # librdkafka does not repeat a commit while the coordinator moves
            errors = [error.args[0]]
        if errors:
            denied = errors[0].code() in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
            advice = "this principal needs Read on the group and the topics" if denied else "try again"
            raise SourceError(f"nothing is given up: {errors[0].str()}; {advice}", transient=not denied)

    def _is_gone(self, topic: str) -> bool:
        error = _topic(self.consumer, topic, self._timeout_s).error
        return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART

    def close(self) -> None:
        """Close the consumer; with `enable.auto.commit` it commits what was polled."""
        self.consumer.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _checked(self, plan: Plan | Shares | str | Path) -> Shares:
        """The plan's shares, if each partition that the broker has is in one of them, once."""
        shares = _shares(plan)
        given: dict[str, list[int]] = {}
        for share in shares.values():
            for topic, indices in share.items():
                given.setdefault(topic, []).extend(indices)
        for topic, planned in sorted(given.items()):
            twice = [at for at, times in Counter(planned).items() if times > 1]
            if twice:
                raise SnapshotError(f"plan: {topic}-{min(twice)} is assigned more than once; assign it to one reader")
            count = _partition_count(self.consumer, topic, self._timeout_s)
            if sorted(planned) != list(range(count)):
                raise SnapshotError(
                    f"plan: topic {topic!r} has {count} partitions now, the plan gives out {len(planned)} (the last is "
                    f"{max(planned, default=-1)}); make a new plan: share_out(..., previous=plan)"
                )
        return shares


def _shares(plan: Plan | Shares | str | Path) -> Shares:
    if isinstance(plan, Plan):
        return plan.target
    if isinstance(plan, Mapping):
        return checked(plan, Assignment, "plan", PLAN_ADVICE)
    try:
        return read_assignment(Path(plan).read_bytes())
    except OSError as error:
        raise SnapshotError(f"{plan}: cannot be read: {error.strerror}") from None
    except SnapshotError as error:
        raise SnapshotError(f"{plan}: {error}") from None


def _partition_count(consumer: Any, topic: str, timeout_s: float) -> int:
    """The partition count of a topic on the broker."""
    found = _topic(consumer, topic, timeout_s)
    if found.error is not None and found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        raise SourceError(f"topic {topic!r}: not allowed; this principal needs Describe and Read on it")
    if found.error is not None or not found.partitions:
        raise SnapshotError(f"topic {topic!r} does not exist on this cluster; create it, or leave it out")
    return len(found.partitions)


def _topic(consumer: Any, topic: str, timeout_s: float) -> Any:
    """A topic's metadata on the broker, or an error in it."""
    try:
        return consumer.list_topics(topic, timeout=timeout_s).topics[topic]
    except KafkaException as error:
        raise SourceError(f"the broker does not answer: {error.args[0].str()}; check bootstrap.servers") from None
