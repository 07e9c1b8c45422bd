"""Confluent consumers that read by a plan, on a real broker: nothing twice, nothing left out; a plan that misfits is refused."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.cimpl import NewPartitions

from counterpoise.clients.confluent import PlannedConsumer, share_out
from counterpoise.errors import OptionError, SnapshotError, SourceError
from tests.kafka_broker import Broker

NOBODY = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}


def settings(broker: Broker, topic: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "group.id": f"{topic}-readers",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }


def produce(broker: Broker, topic: str, values: Iterable[int], partitions: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, str(value).encode(), partition=value % partitions)
    assert producer.flush(30) == 0


def value_of(record: Any) -> int:
    return int(record.value())


def read(readers: list[PlannedConsumer], count: int) -> Counter[int]:
    """Poll the readers in turn until so many records have come, then once more, for those that should not."""
    seen: Counter[int] = Counter()
    for _ in range(300):
        for reader in readers:
            # A new broker's coordinator is not there at once; the library reports it, and tries again.
            seen.update(value_of(each) for each in reader.consumer.consume(100, 0.1) if not each.error())
        if sum(seen.values()) >= count:
            break
    for reader in readers:
        seen.update(map(value_of, reader.consumer.consume(100, 0.1)))
    return seen


@pytest.mark.kafka
def test_a_plan_is_read_once_by_all_changed_in_two_steps_and_taken_up_again_where_it_was_left(
    broker: Broker, tmp_path: Path
) -> None:
    topic, file = "planned", tmp_path / "plan.json"
    broker.create_topic(topic, 6)
    produce(broker, topic, range(60), 6)
    config = settings(broker, topic)
    plan = share_out(config, [topic], ["a", "b"])
    assert plan.certificate.balanced
    file.write_text(plan.to_json())
    readers = {name: PlannedConsumer(config, file, name) for name in ("a", "b")}
    assert [len(each.owned) for each in readers.values()] == [3, 3]
    assert read(list(readers.values()), 60) == Counter(range(60))

    wider = share_out(config, [topic], ["a", "b", "c"], previous=file)
    assert (wider.moved, wider.loads) == (2, {"a": 2, "b": 2, "c": 2})
    with pytest.raises(OptionError, match=r"gives 1 partitions of 'a' to others; give_up\(plan\) first"):
        readers["a"].take_up(wider)
    before = {name: set(each.owned) for name, each in readers.items()}
    given_up = [each for reader in readers.values() for each in reader.give_up(wider)]
    readers["c"] = PlannedConsumer(config, wider, "c")
    assert readers["c"].owned == sorted(given_up)
    assert [readers[name].take_up(wider) for name in ("a", "b")] == [[], []]
    assert all(set(readers[name].owned) < before[name] for name in ("a", "b"))
    produce(broker, topic, range(60, 120), 6)
    assert read(list(readers.values()), 60) == Counter(range(60, 120)), "something was read twice, or not at all"

    readers["c"].consumer.commit(asynchronous=False)
    readers.pop("c").close()
    produce(broker, topic, range(120, 180), 6)
    with PlannedConsumer(config, wider, "c") as again:
        assert read([again, *readers.values()], 60) == Counter(range(120, 180))
    for each in readers.values():
        each.close()


@pytest.mark.kafka
def test_a_topic_that_has_been_deleted_is_given_up_without_a_commit(broker: Broker) -> None:
    kept, gone = "planned-kept", "planned-gone"
    for topic in (kept, gone):
        broker.create_topic(topic, 1)
        produce(broker, topic, range(3), 1)
    config = settings(broker, kept)
    with PlannedConsumer(config, share_out(config, [kept, gone], ["a"]), "a") as reader:
        assert sum(read([reader], 6).values()) == 6
        admin = broker.admin()
        admin.delete_topics([gone])[gone].result(30)
        while admin.list_topics(gone, timeout=10).topics[gone].error is None:
            time.sleep(0.1)
        assert reader.give_up({"b": {kept: [0]}}) == [(gone, 0), (kept, 0)]
        assert reader.owned == []
        assert reader.consumer.committed([TopicPartition(kept, 0)], 30)[0].offset == 3


@pytest.mark.kafka
def test_a_plan_that_does_not_fit_the_topic_is_refused(broker: Broker) -> None:
    topic = "planned-misfit"
    broker.create_topic(topic, 2)
    config = settings(broker, topic)
    plan = share_out(config, [topic], ["a", "b"])
    admin = broker.admin()
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    while len(admin.list_topics(topic, timeout=10).topics[topic].partitions) < 3:
        time.sleep(0.1)
    with pytest.raises(SnapshotError, match=r"'planned-misfit' has 3 partitions now, the plan gives out 2 \(the last is 1\)"):
        PlannedConsumer(config, plan, "a")
    with pytest.raises(SnapshotError, match="planned-misfit-1 is assigned more than once"):
        PlannedConsumer(config, {"a": {topic: [0, 1]}, "b": {topic: [1, 2]}}, "a")
    with pytest.raises(OptionError, match="the plan has no 'c', only 'a', 'b'"):
        PlannedConsumer(config, {"a": {topic: [0, 1]}, "b": {topic: [2]}}, "c")
    with pytest.raises(SnapshotError, match="topic 'nowhere' does not exist"):
        share_out(config, ["nowhere"], ["a"])


class Refusing:
    """A consumer of a cluster that hides its topics, or whose coordinator does not take the second of two offsets, or any."""

    def __init__(self, error: int, *, hides: bool = False, some: bool = False) -> None:
        self.error, self.hides, self.some = KafkaError(error), hides, some

    def list_topics(self, topic: str, **_: object) -> Any:
        found = SimpleNamespace(error=self.error if self.hides else None, partitions={0: None, 1: None})
        return SimpleNamespace(topics={topic: found})

    def position(self, asked: list[TopicPartition], **_: object) -> list[TopicPartition]:
        return [TopicPartition(each.topic, each.partition, 9) for each in asked]

    committed = position

    def commit(self, **_: object) -> list[Any]:
        if not self.some:
            raise KafkaException(self.error)
        return [SimpleNamespace(error=error) for error in (None, self.error)]

    def incremental_assign(self, partitions: list[TopicPartition]) -> None: ...

    def close(self) -> None: ...


def test_a_topic_that_may_not_be_described_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = Refusing(KafkaError.TOPIC_AUTHORIZATION_FAILED, hides=True)
    monkeypatch.setattr("counterpoise.clients.confluent.Consumer", lambda _: hidden)
    with pytest.raises(SourceError, match="topic 't': not allowed; this principal needs Describe and Read on it"):
        share_out(NOBODY, ["t"], ["a"])


@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KafkaError.NOT_COORDINATOR, "coordinator.*; try again"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "uthorization.*; this principal needs Read on the group and the topics"),
    ],
)
def test_nothing_is_given_up_if_the_coordinator_does_not_take_all_offsets(
    error: int, words: str, some: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterpoise.clients.confluent.Consumer", lambda _: Refusing(error, some=some))
    with PlannedConsumer(NOBODY, {"a": {"t": [0, 1]}}, "a") as reader:
        with pytest.raises(SourceError, match=f"nothing is given up: .*{words}") as raised:
            reader.give_up({"b": {"t": [0, 1]}})
        assert (raised.value.transient, reader.owned) == ("try again" in words, [("t", 0), ("t", 1)])


def test_settings_that_would_be_ignored_are_refused() -> None:
    with pytest.raises(OptionError, match=r"group\.id: missing"):
        PlannedConsumer({"bootstrap.servers": "127.0.0.1:1"}, {}, "a")
    with pytest.raises(OptionError, match=r"partition\.assignment\.strategy: has no effect"):
        PlannedConsumer(NOBODY | {"partition.assignment.strategy": "range"}, {}, "a")


def test_what_cannot_be_read_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"absent.json: cannot be read: No such file"):
        PlannedConsumer(NOBODY, tmp_path / "absent.json", "a")
    (tmp_path / "list.json").write_text(json.dumps([1]))
    with pytest.raises(SnapshotError, match=r"list.json: plan: .*a plan is an object"):
        PlannedConsumer(NOBODY, tmp_path / "list.json", "a")
    with pytest.raises(SnapshotError, match=r"plan\.a: .*a plan is an object \{member: \{topic: \[partitions\]\}\}"):
        PlannedConsumer(NOBODY, {"a": ["t"]}, "a")  # type: ignore[dict-item]
    with pytest.raises(SourceError, match=r"the broker does not answer: .*check bootstrap.servers"):
        share_out(NOBODY, ["t"], ["a"], timeout_s=0.5)


def test_one_text_is_not_several_names() -> None:
    for topics, members in (("orders", ["a"]), (["orders"], "a")):
        with pytest.raises(OptionError, match=r"(topics|members): expected a list of names, not '(orders|a)'"):
            share_out(NOBODY, topics, members)
