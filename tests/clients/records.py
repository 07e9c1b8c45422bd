"""What went into a topic and what the coordinator recorded: the witnesses beside the members' own journals."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from counterpoise.wire.consumer_protocol import decode_assignment
from counterpoise.wire.offsets_topic.keys import OffsetKey
from counterpoise.wire.offsets_topic.records import Record, decode_record
from counterpoise.wire.offsets_topic.values import GroupMetadataValue, OffsetCommitValue
from tests.kafka_broker import Broker

_GROUP_METADATA = b"\x00\x02"
"""How the keys of its records begin."""

__all__ = ["Feeder", "Generation", "GroupHistory", "group_history", "partition_of"]


class Feeder:
    """Writes rising numbers into every partition of a topic until stopped; knows which of them the broker has."""

    def __init__(self, broker: Broker, topic: str, partitions: int) -> None:
        self.topic, self.partitions = topic, partitions
        self.delivered: dict[str, set[int]] = defaultdict(set)
        self.offsets: dict[tuple[str, int], int] = {}
        self._producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "log_level": 0, "topic.metadata.refresh.interval.ms": 1000}
        )
        self._end = threading.Event()
        self._next = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(0.2):
            for partition in range(self.partitions):
                # A partition that has just been made is unknown to the producer for a while.
                with suppress(KafkaException, BufferError):
                    self._producer.produce(self.topic, str(self._next).encode(), partition=partition, on_delivery=self._sent)
                    self._next += 1
            self._producer.poll(0)

    def _sent(self, error: Any, record: Any) -> None:
        if error is None:
            partition, value = f"{record.topic()}-{record.partition()}", int(record.value())
            self.delivered[partition].add(value)
            self.offsets[partition, value] = record.offset()

    def stop(self) -> dict[str, set[int]]:
        """End, and give what was delivered."""
        self._end.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        return dict(self.delivered)


@dataclass(frozen=True)
class Generation:
    """One generation as the coordinator recorded it; `time` is when it was appended, by the machine's clock."""

    number: int
    leader: str
    protocol: str
    clients: dict[str, str]
    assigned: dict[str, set[str]]
    raw: dict[str, bytes]
    time: float = 0.0


@dataclass(frozen=True)
class GroupHistory:
    """A group's generations with members, and its commits by partition, both in the order of the log."""

    generations: list[Generation]
    commits: dict[str, list[int]]


def group_history(broker: Broker, group: str, *, with_commits: bool = False) -> GroupHistory:
    """All generations of a group in the offsets topic and, with `with_commits`, its commits; most of the partition are commits.

    Uncommitted records are read too: a transaction that another test left open would hide all that follows it in the partition.
    """
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": f"reader-of-{group}", "enable.auto.commit": False}
    consumer = Consumer({**settings, "isolation.level": "read_uncommitted"})
    generations: list[Generation] = []
    commits: dict[str, list[int]] = defaultdict(list)
    place = TopicPartition("__consumer_offsets", partition_of(group), OFFSET_BEGINNING)
    try:
        _, end = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([place])
        at = 0
        while at < end:
            batch = consumer.consume(1000, 10)
            assert batch, "the offsets topic does not answer"
            for message in batch:
                assert message.error() is None, message.error()
                at = (message.offset() or 0) + 1
                key, appended = message.key() or b"", message.timestamp()[1] / 1000
                if with_commits or key.startswith(_GROUP_METADATA):
                    _take(decode_record(key, message.value()), group, appended, generations, commits)
    finally:
        consumer.close()
    return GroupHistory(generations, dict(commits))


def partition_of(group: str) -> int:
    """Where the coordinator keeps a group: Java's hash of its name, over the test broker's eight partitions."""
    total = 0
    for letter in group:
        total = (31 * total + ord(letter)) & 0xFFFFFFFF
    return abs(total - (1 << 32) if total >> 31 else total) % 8


def _take(record: Any, group: str, appended: float, generations: list[Generation], commits: dict[str, list[int]]) -> None:
    if not isinstance(record, Record) or getattr(record.key, "group", None) != group:
        return
    value = record.value
    if isinstance(value, OffsetCommitValue) and isinstance(record.key, OffsetKey):
        commits[f"{record.key.topic}-{record.key.partition}"].append(value.offset)
    elif isinstance(value, GroupMetadataValue) and value.members:
        raw = {member.member_id: member.assignment for member in value.members}
        assigned = {
            member: {f"{topic}-{at}" for topic, indices in decode_assignment(data).partitions for at in indices}
            for member, data in raw.items()
        }
        clients = {member.member_id: member.client_id for member in value.members}
        leader, protocol = value.leader or "", value.protocol or ""
        generations.append(Generation(value.generation, leader, protocol, clients, assigned, raw, appended))
