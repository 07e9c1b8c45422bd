"""Single properties of live members on a real broker: versions, static members, patterns, weights, new topics, migration."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clients.fleet import Fleet, fleet
from tests.clients.invariants import one_owner_by_journals, one_owner_by_record
from tests.clients.records import group_history
from tests.kafka_broker import Broker

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = itertools.count()
LONG = os.environ.get("COUNTERPOISE_PROFILE") == "long"


def topic_of(broker: Broker, partitions: int) -> str:
    name = f"one-{next(NAMES)}"
    broker.create_topic(name, partitions)
    return name


def loads(members: Fleet) -> dict[str, int]:
    return {name: len(members.owned(name)) for name in members.processes}


def test_the_oldest_versions_join_a_group_with_java(broker: Broker, tmp_path: Path) -> None:
    """kafka-python 2.2 and 2.3 and aiokafka 0.12, led by the first of them: one sticky group with Java, then Java leads."""
    topic = topic_of(broker, 12)
    kinds = [("kafka-python-2.2.0", "kafka_python"), ("kafka-python-2.3.0", "kafka_python"), ("aiokafka-0.12.0", "aiokafka")]
    with fleet(broker, tmp_path, topic) as members:
        for version, kind in kinds:
            members.start(version, kind, ["StickyAssignor"], [topic], client=ROOT / ".oldest" / version)
            members.wait_settled(topic, 12)
        before = {name: members.owned(name) for name in members.processes}
        members.start("java", "java", ["StickyAssignor"], [topic])
        members.wait_settled(topic, 12)
        assert all(members.owned(name) < had for name, had in before.items())
        for version, _ in kinds[:2]:
            before = {name: members.owned(name) for name in members.processes if name != version}
            members.stop(version)
            members.wait_settled(topic, 12)
            assert all(members.owned(name) > had for name, had in before.items())
        one_owner_by_journals(members)
        one_owner_by_record(group_history(broker, topic))


@pytest.mark.parametrize("kind", ["kafka_python", "aiokafka"])
def test_a_static_member_comes_back_to_what_it_had(broker: Broker, tmp_path: Path, kind: str) -> None:
    """Stopped and started again within its session: no rebalance, the same partitions."""
    topic = topic_of(broker, 6)
    with fleet(broker, tmp_path, topic, session_ms=30_000) as members:
        for name in ("one", "two"):
            members.start(name, kind, ["StickyAssignor"], [topic], config={"group_instance_id": name})
            members.wait_settled(topic, 6)
        had, generations = members.owned("two"), len(members.events("one"))
        members.kill("two")
        members.start("two", kind, ["StickyAssignor"], [topic], config={"group_instance_id": "two"})
        members.wait(
            lambda: sum(event["event"] == "started" for event in members.events("two")) == 2, "the static member to start"
        )
        members.wait(lambda: members.events("two")[-1]["event"] == "owns", "the static member to own again")
        assert members.owned("two") == had
        assert len(members.events("one")) == generations, "the other member was disturbed"


@pytest.mark.parametrize("kind", ["kafka_python", "aiokafka"])
def test_a_pattern_takes_in_a_topic_that_comes_later(broker: Broker, tmp_path: Path, kind: str) -> None:
    topic = topic_of(broker, 4)
    with fleet(broker, tmp_path, topic) as members:
        for name in ("one", "two"):
            members.start(name, kind, ["StickyAssignor"], [], pattern=f"^{topic}(-more)?$")
        members.wait_settled(topic, 4)
        broker.create_topic(f"{topic}-more", 4)
        both = {f"{each}-{at}" for each in (topic, f"{topic}-more") for at in range(4)}
        members.wait(lambda: members.settled(both), "both topics to be owned")


@pytest.mark.parametrize(
    ("strategy", "foreign"),
    [("StickyAssignor", "java"), ("CooperativeStickyAssignor", "confluent")] + [("CooperativeStickyAssignor", "java")] * LONG,
)
def test_a_weight_counts_with_our_leader_and_is_harmless_to_others(
    broker: Broker, tmp_path: Path, strategy: str, foreign: str
) -> None:
    """Led by Java or librdkafka a member of weight 2 is one like any other; led by ours it has twice the load."""
    topic = topic_of(broker, 12)
    with fleet(broker, tmp_path, topic) as members:
        members.start(foreign, foreign, [strategy], [topic])
        members.wait_settled(topic, 12)
        members.start("heavy", "kafka_python", [strategy], [topic], options={"capacity": 2})
        members.wait_settled(topic, 12)
        members.start("light", "aiokafka", [strategy], [topic])
        members.wait_settled(topic, 12)
        members.stop(foreign)
        members.wait(lambda: loads(members) == {"heavy": 8, "light": 4}, "loads as weighted")
        one_owner_by_record(group_history(broker, topic))


@pytest.mark.parametrize("strategy", ["StickyAssignor", "CooperativeStickyAssignor"])
def test_a_topic_made_again_smaller_is_shared_anew(broker: Broker, tmp_path: Path, strategy: str) -> None:
    """Deleted and created with fewer partitions while everybody runs: the claims on what is gone do no harm."""
    topic = topic_of(broker, 8)
    with fleet(broker, tmp_path, topic) as members:
        for kind in ("kafka_python", "java"):
            members.start(kind, kind, [strategy], [topic])
            members.wait_settled(topic, 8)
        admin = broker.admin()
        admin.delete_topics([topic])[topic].result(30)
        members.wait(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic to be gone")
        broker.create_topic(topic, 4)
        members.wait_settled(topic, 4)


@pytest.mark.parametrize(
    ("strategy", "first"),
    [("RangeAssignor", "kafka_python"), ("RoundRobinAssignor", "aiokafka")]
    + [("RangeAssignor", "java"), ("RangeAssignor", "confluent")] * LONG,
)
def test_range_and_roundrobin_mix_with_every_library(broker: Broker, tmp_path: Path, strategy: str, first: str) -> None:
    topic = topic_of(broker, 8)
    with fleet(broker, tmp_path, topic) as members:
        for kind in sorted(["kafka_python", "aiokafka", "java", "confluent"], key=lambda each: each != first):
            members.start(kind, kind, [strategy], [topic])
            members.wait_settled(topic, 8)
        members.stop(first)
        members.wait_settled(topic, 8)


@pytest.mark.parametrize("kind", ["kafka_python", "aiokafka"])
def test_classes_work_like_instances(broker: Broker, kind: str) -> None:
    """Two consumers of one process, given the class: each keeps its own history."""
    topic = topic_of(broker, 6)
    done = subprocess.run(
        [sys.executable, "-m", "tests.clients.programs.two_in_one", kind, broker.bootstrap, topic],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "one kept 2 or more, two kept 2 or more\n", done.stderr[-3000:]
    one_owner_by_record(group_history(broker, topic))


def test_the_rolling_upgrade_of_the_examples_runs(broker: Broker) -> None:
    """From kafka-python's own range to cooperative-sticky in two bounces; at no time is a partition without an owner for good."""
    topic = topic_of(broker, 6)
    command = [sys.executable, "examples/rolling_upgrade.py", "--bootstrap-server", broker.bootstrap, "--topic", topic]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["before", "first bounce", "second bounce"]
    protocols = [each.protocol for each in group_history(broker, f"{topic}-upgrade").generations]
    assert protocols[0] == "range"
    assert protocols[-1] == "cooperative-sticky"
    assert protocols == sorted(protocols, key=["range", "cooperative-sticky"].index)


@pytest.mark.parametrize(
    ("kinds", "wanted"),
    [(["kafka_python", "java"], "CooperativeStickyAssignor")] + [(["aiokafka", "java"], "StickyAssignor")] * LONG,
)
def test_two_bounces_take_a_mixed_group_to_another_strategy(
    broker: Broker, tmp_path: Path, kinds: list[str], wanted: str
) -> None:
    """Member by member, first with both strategies, then with the new one alone; everything stays owned on the way."""
    topic = topic_of(broker, 6)
    with fleet(broker, tmp_path, topic) as members:
        for step, assignors in enumerate([["RangeAssignor"], [wanted, "RangeAssignor"], [wanted]]):
            for kind in kinds:
                if step:
                    members.stop(f"{kind}-{step - 1}")
                    members.wait_settled(topic, 6)
                members.start(f"{kind}-{step}", kind, assignors, [topic])
                members.wait_settled(topic, 6)
        history = group_history(broker, topic)
        one_owner_by_record(history)
        protocols = [each.protocol for each in history.generations]
        name = {"CooperativeStickyAssignor": "cooperative-sticky", "StickyAssignor": "sticky"}[wanted]
        assert sorted(set(protocols)) == sorted(["range", name])
        assert protocols == sorted(protocols, key=["range", name].index)


@pytest.mark.parametrize("name", ["kafka_python_consumer", "aiokafka_consumer"])
def test_the_consumers_of_the_examples_read(broker: Broker, name: str) -> None:
    from confluent_kafka import Producer

    topic = topic_of(broker, 3)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(9):
        producer.produce(topic, str(number).encode(), partition=number % 3)
    assert producer.flush(30) == 0
    command = [sys.executable, f"examples/{name}.py", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--records", "9"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert lines[0] == f"gained {topic}-0, {topic}-1, {topic}-2"
    assert sorted(lines[1:10]) == sorted(f"{topic}-{number % 3}: {number}" for number in range(9))
    assert lines[10:] == [f"lost {topic}-0, {topic}-1, {topic}-2"]
    commits = group_history(broker, f"{topic}-readers").commits
    assert {partition: offsets[-1] for partition, offsets in commits.items()} == {f"{topic}-{at}": 3 for at in range(3)}


@pytest.mark.parametrize("kind", ["kafka_python", "aiokafka"])
def test_lag_decides_on_a_live_group(broker: Broker, tmp_path: Path, kind: str) -> None:
    """Two of four partitions are far behind: under `lag-sticky` each member gets one of them."""
    from confluent_kafka import Producer

    topic = topic_of(broker, 4)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(400):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0
    with fleet(broker, tmp_path, topic) as members:
        settings: dict[str, Any] = {"live_lag": True, "idle": True}
        members.start("one", kind, ["LagStickyAssignor"], [topic], **settings)
        members.wait_settled(topic, 4)
        members.start("two", kind, ["LagStickyAssignor"], [topic], **settings)
        members.wait_settled(topic, 4)
        behind = {f"{topic}-0", f"{topic}-1"}
        assert [len(members.owned(name) & behind) for name in ("one", "two")] == [1, 1]
        outcomes = [event["outcomes"] for name in ("one", "two") for event in members.events(name) if event["event"] == "lag"]
        assert any(each.get("read") for each in outcomes), outcomes
