"""Single properties of live members on a real broker: versions, static members, patterns, weights, new topics, migration."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from counterpoise.clients import kafka_python
from tests.clients.fleet import Fleet, fleet
from tests.clients.invariants import (
    covered,
    nothing_is_taken_while_held,
    one_owner_by_journals,
    one_owner_by_record,
    plans_are_kept_and_optimal,
)
from tests.clients.records import Feeder, GroupHistory, group_history
from tests.kafka_broker import Broker

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = itertools.count()
LONG = os.environ.get("COUNTERPOISE_PROFILE") == "long"


def topic_of(broker: Broker, partitions: int) -> str:
    name = f"one-{next(NAMES)}"
    broker.create_topic(name, partitions)
    return name


def leaders(history: GroupHistory) -> set[str]:
    """Everybody who led a generation, by the coordinator's record."""
    return {each.clients[each.leader] for each in history.generations}


def make_smaller(broker: Broker, members: Fleet, topic: str, partitions: int) -> None:
    """Delete a topic and make it again."""
    admin = broker.admin()
    admin.delete_topics([topic])[topic].result(30)
    members.wait(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic to be gone")
    broker.create_topic(topic, partitions)


def wait_until_all_have_the_last_generation(members: Fleet) -> None:
    """Who owns what may be as it will stay before the last member has received its assignment of the last round."""

    def newest(name: str) -> int:
        return max((event["generation"] for event in members.events(name) if event["event"] == "assigned"), default=-1)

    def all_have_it() -> bool:
        last = group_history(members.broker, members.group).generations[-1].number
        return all(newest(name) == last for name in members.processes)

    members.wait(all_have_it, "every member to have the last generation")


def loads(members: Fleet) -> dict[str, int]:
    return {name: len(members.owned(name)) for name in members.processes}


PATIENT_MS = 30_000
"""The session in tests without a crash: no stall of a busy machine ends it, so the leader stays."""
OLD = ["kafka-python-2.2.0", "kafka-python-2.3.0", "aiokafka-0.12.0"]


@pytest.mark.parametrize("first", OLD if LONG else OLD[:1])
def test_the_oldest_versions_share_a_group_with_java_and_lead_it(broker: Broker, tmp_path: Path, first: str) -> None:
    """kafka-python 2.2 and 2.3 and aiokafka 0.12 in one sticky group with Java, led by each; everybody keeps all it can."""
    topic = topic_of(broker, 12)
    order = [first, *(each for each in OLD if each != first)]
    with fleet(broker, tmp_path, topic, session_ms=PATIENT_MS) as members:
        for version in order:
            kind = version.rpartition("-")[0].replace("-", "_")
            members.start(version, kind, ["StickyAssignor"], [topic], client=ROOT / ".oldest" / version)
            members.wait_settled(topic, 12)
        before = {name: members.owned(name) for name in members.processes}
        members.start("java", "java", ["StickyAssignor"], [topic])
        members.wait_settled(topic, 12)
        assert all(members.owned(name) < had for name, had in before.items())
        assert leaders(group_history(broker, topic)) == {first}
        for version in order[:2]:
            before = {name: members.owned(name) for name in members.processes if name != version}
            members.stop(version)
            members.wait_settled(topic, 12)
            assert all(members.owned(name) > had for name, had in before.items())
        one_owner_by_journals(members)
        history = group_history(broker, topic)
        one_owner_by_record(history)
        plans_are_kept_and_optimal(members, history)


@pytest.mark.parametrize("first", ["kafka-python-3.0.0", "java"] if LONG else ["kafka-python-3.0.0"])
def test_the_first_version_that_cooperates_shares_a_group_with_java(broker: Broker, tmp_path: Path, first: str) -> None:
    """kafka-python 3.0.0, Java and the newest kafka-python under cooperative-sticky: what stays does not stop."""
    topic = topic_of(broker, 12)
    names = {"kafka-python-3.0.0": "kafka_python", "java": "java", "newest": "kafka_python"}
    with fleet(broker, tmp_path, topic, session_ms=PATIENT_MS) as members:
        for name in sorted(names, key=lambda each: each != first):
            client = ROOT / ".oldest" / name if name == "kafka-python-3.0.0" else None
            before = {each: members.owned(each) for each in members.processes}
            members.start(name, names[name], ["CooperativeStickyAssignor"], [topic], client=client)
            members.wait_settled(topic, 12)
            assert all(members.owned(each) < had for each, had in before.items())
        history = group_history(broker, topic)
        assert leaders(history) == {first}
        one_owner_by_record(history)
        one_owner_by_journals(members)
        nothing_is_taken_while_held(members, history)
        plans_are_kept_and_optimal(members, history)


STATIC = [("kafka_python", "StickyAssignor", "two")]
STATIC_LONG = [
    ("aiokafka", "StickyAssignor", "two"),
    ("kafka_python", "CooperativeStickyAssignor", "two"),
    ("kafka_python", "CooperativeStickyAssignor", "one"),
    ("kafka_python", "StickyAssignor", "one"),
    ("aiokafka", "StickyAssignor", "one"),
]


@pytest.mark.parametrize(("kind", "strategy", "back"), STATIC + STATIC_LONG * LONG)
def test_a_static_member_comes_back_to_what_it_had(broker: Broker, tmp_path: Path, kind: str, strategy: str, back: str) -> None:
    """Killed and started again within its session, a follower or the leader: no rebalance, the same partitions."""
    topic = topic_of(broker, 6)
    with fleet(broker, tmp_path, topic, session_ms=PATIENT_MS) as members:
        for name in ("one", "two"):
            members.start(name, kind, [strategy], [topic], config={"group_instance_id": name})
            members.wait_settled(topic, 6)
        wait_until_all_have_the_last_generation(members)
        other = "one" if back == "two" else "two"
        had, events = members.owned(back), len(members.events(other))
        generations = [each.number for each in group_history(broker, topic).generations]
        members.kill(back)
        members.start(back, kind, [strategy], [topic], config={"group_instance_id": back})
        members.wait(lambda: sum(event["event"] == "started" for event in members.events(back)) == 2, f"{back} to start")
        members.wait(lambda: members.owned_since_start(back) == had, f"{back} to own {sorted(had)} again")
        assert len(members.events(other)) == events, "the other member was disturbed"
        assert {each.number for each in group_history(broker, topic).generations} == set(generations)


@pytest.mark.parametrize("kind", ["kafka_python", "aiokafka"])
def test_a_pattern_takes_in_a_topic_that_comes_later(broker: Broker, tmp_path: Path, kind: str) -> None:
    topic = topic_of(broker, 4)
    with fleet(broker, tmp_path, topic, session_ms=PATIENT_MS) as members:
        for name in ("one", "two"):
            members.start(name, kind, ["StickyAssignor"], [], pattern=f"^{topic}(-more)?$")
        members.wait_settled(topic, 4)
        broker.create_topic(f"{topic}-more", 4)
        both = {f"{each}-{at}" for each in (topic, f"{topic}-more") for at in range(4)}
        members.wait(lambda: members.settled(both), "both topics to be owned")


@pytest.mark.parametrize(
    ("strategy", "foreign"),
    [("StickyAssignor", "java")] + [("CooperativeStickyAssignor", "confluent"), ("CooperativeStickyAssignor", "java")] * LONG,
)
def test_a_weight_counts_with_our_leader_and_is_harmless_to_others(
    broker: Broker, tmp_path: Path, strategy: str, foreign: str
) -> None:
    """Led by Java or librdkafka a member of weight 2 is one like any other; led by ours it has twice the load."""
    topic = topic_of(broker, 12)
    with fleet(broker, tmp_path, topic, session_ms=PATIENT_MS) as members:
        members.start(foreign, foreign, [strategy], [topic])
        members.wait_settled(topic, 12)
        members.start("heavy", "kafka_python", [strategy], [topic], options={"capacity": 2})
        members.wait_settled(topic, 12)
        members.start("light", "aiokafka", [strategy], [topic])
        members.wait_settled(topic, 12)
        members.stop(foreign)
        members.wait(lambda: loads(members) == {"heavy": 8, "light": 4}, "loads as weighted")
        one_owner_by_record(group_history(broker, topic))


SHRINKING = [("CooperativeStickyAssignor", ["kafka_python", "java"])]
SHRINKING_LONG = [
    ("StickyAssignor", ["kafka_python", "java"]),
    ("StickyAssignor", ["aiokafka", "java", "kafka_python"]),
    ("CooperativeStickyAssignor", ["aiokafka", "confluent", "java"]),
    ("ConstrainedCooperativeStickyAssignor", ["kafka_python", "aiokafka"]),
]


@pytest.mark.parametrize(("strategy", "kinds"), SHRINKING + SHRINKING_LONG * LONG)
def test_a_topic_made_again_smaller_is_shared_anew(broker: Broker, tmp_path: Path, strategy: str, kinds: list[str]) -> None:
    """Deleted and created with fewer partitions while everybody runs: the claims on what is gone do no harm."""
    topic = topic_of(broker, 8)
    with fleet(broker, tmp_path, topic, session_ms=PATIENT_MS) as members:
        for kind in kinds:
            members.start(kind, kind, [strategy], [topic])
            members.wait_settled(topic, 8)
        assert leaders(group_history(broker, topic)) == {kinds[0]}
        make_smaller(broker, members, topic, 4)
        members.wait_settled(topic, 4)
        feeder = Feeder(broker, topic, 4)
        members.wait(lambda: len(feeder.delivered) == 4, "records in the new topic")
        delivered = feeder.stop()
        members.wait(lambda: covered(members, delivered), "the new topic's records to be processed")
        history = group_history(broker, topic)
        one_owner_by_record(history)
        one_owner_by_journals(members)
        plans_are_kept_and_optimal(members, history)


@pytest.mark.parametrize("others", [["kafka_python", "aiokafka"], ["aiokafka", "java"]] if LONG else [["kafka_python"]])
def test_a_librdkafka_leader_assigns_what_is_gone_until_ours_lead(broker: Broker, tmp_path: Path, others: list[str]) -> None:
    """It shares what there is, and leaves vanished partitions with whoever claims them. Ours drop such claims."""
    topic = topic_of(broker, 8)
    there = {f"{topic}-{index}" for index in range(4)}
    with fleet(broker, tmp_path, topic, session_ms=PATIENT_MS) as members:
        for kind in ["confluent", *others]:
            members.start(kind, kind, ["CooperativeStickyAssignor"], [topic])
            members.wait_settled(topic, 8)
        assert leaders(group_history(broker, topic)) == {"confluent"}
        make_smaller(broker, members, topic, 4)
        members.wait(lambda: members.each_once(there), "what is there to be owned once")
        members.stop("confluent")
        members.wait_settled(topic, 4)
        members.start("again", "confluent", ["CooperativeStickyAssignor"], [topic])
        members.wait_settled(topic, 4)
        history = group_history(broker, topic)
        one_owner_by_record(history)
        one_owner_by_journals(members)
        plans_are_kept_and_optimal(members, history)


@pytest.mark.long
@pytest.mark.parametrize(
    ("strategy", "others"),
    [("StickyAssignor", ["kafka_python", "aiokafka"]), ("CooperativeStickyAssignor", ["kafka_python", "confluent"])],
)
def test_when_a_smaller_topic_ends_a_java_leader_ours_take_over(
    broker: Broker, tmp_path: Path, strategy: str, others: list[str]
) -> None:
    """Java's assignors throw at claims on partitions that are gone; ours drop such claims and go on. Java may come back."""
    topic = topic_of(broker, 8)
    with fleet(broker, tmp_path, topic) as members:
        for kind in ["java", *others]:
            members.start(kind, kind, [strategy], [topic])
            members.wait_settled(topic, 8)
        assert leaders(group_history(broker, topic)) == {"java"}
        java = members.processes.pop("java")
        try:
            make_smaller(broker, members, topic, 4)
            members.wait(lambda: java.poll() is not None, "Java to end")
        finally:
            members.processes["java"] = java
        assert "No more unfilled consumers to be assigned" in members.log_end("java")
        members.kill("java")
        if "confluent" in others:  # who joins first leads, and librdkafka assigns what is gone
            members.stop("confluent")
            members.wait_settled(topic, 4)
            members.start("confluent-again", "confluent", [strategy], [topic])
        members.wait_settled(topic, 4)
        members.start("java-again", "java", [strategy], [topic])
        members.wait_settled(topic, 4)
        history = group_history(broker, topic)
        one_owner_by_record(history)
        one_owner_by_journals(members)
        plans_are_kept_and_optimal(members, history)


@pytest.mark.parametrize(
    ("strategy", "first"),
    [("RangeAssignor", "kafka_python")]
    + [("RoundRobinAssignor", "aiokafka"), ("RangeAssignor", "java"), ("RangeAssignor", "confluent")] * LONG,
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("kinds", "former", "wanted"),
    [
        (["kafka_python", "java"], "RangeAssignor", "CooperativeStickyAssignor"),
        (["aiokafka", "java"], "RangeAssignor", "StickyAssignor"),
        (["kafka_python", "aiokafka"], "RangeAssignor", "ConstrainedCooperativeStickyAssignor"),
        (["kafka_python", "kafka_python"], "CooperativeStickyAssignor", "ConstrainedCooperativeStickyAssignor"),
    ],
)
def test_two_bounces_take_a_mixed_group_to_another_strategy(
    broker: Broker, tmp_path: Path, kinds: list[str], former: str, wanted: str
) -> None:
    """Member by member, first with both strategies, then with the new one alone; everything stays owned on the way."""
    topic = topic_of(broker, 6)
    with fleet(broker, tmp_path, topic) as members:
        for step, assignors in enumerate([[former], [wanted, former], [wanted]]):
            for at, kind in enumerate(kinds):
                if step:
                    members.stop(f"{kind}-{at}-{step - 1}")
                    members.wait_settled(topic, 6)
                members.start(f"{kind}-{at}-{step}", kind, assignors, [topic])
                members.wait_settled(topic, 6)
        history = group_history(broker, topic)
        one_owner_by_record(history)
        one_owner_by_journals(members)
        if former != "RangeAssignor":
            # With `range` in its list a member is eager also under the new strategy: it has revoked all before it joins.
            nothing_is_taken_while_held(members, history)
        plans_are_kept_and_optimal(members, history)
        protocols = [each.protocol for each in history.generations]
        names = [getattr(kafka_python, each).name for each in (former, wanted)]
        assert sorted(set(protocols)) == sorted(names)
        assert protocols == sorted(protocols, key=names.index)


@pytest.mark.parametrize("kind", ["kafka_python", "aiokafka"])
def test_lag_decides_on_a_live_group(broker: Broker, tmp_path: Path, kind: str) -> None:
    """Two of four partitions are far behind: under `lag-sticky` each member gets one of them."""
    from confluent_kafka import Producer

    topic = topic_of(broker, 4)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(400):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0
    with fleet(broker, tmp_path, topic, session_ms=PATIENT_MS) as members:
        settings: dict[str, Any] = {"live_lag": True, "idle": True}
        members.start("one", kind, ["LagStickyAssignor"], [topic], **settings)
        members.wait_settled(topic, 4)
        members.start("two", kind, ["LagStickyAssignor"], [topic], **settings)
        members.wait_settled(topic, 4)
        behind = {f"{topic}-0", f"{topic}-1"}
        assert [len(members.owned(name) & behind) for name in ("one", "two")] == [1, 1]
        outcomes = [event["outcomes"] for name in ("one", "two") for event in members.events(name) if event["event"] == "lag"]
        assert any(each.get("read") for each in outcomes), outcomes


def test_a_group_that_ours_led_goes_to_the_protocol_consumer_and_back(broker: Broker, tmp_path: Path) -> None:
    """A broker upgrades a group online (KIP-848) only if the assignments of its leader have no user data, which would be lost."""
    topic = topic_of(broker, 6)
    feeder = Feeder(broker, topic, 6)
    with fleet(broker, tmp_path, topic) as members:
        for name in ("a", "b"):
            members.start(name, "kafka_python", ["CooperativeStickyAssignor"], [topic])
            members.wait_settled(topic, 6)
        members.start("upgraded", "java", [], [topic])
        members.wait_settled(topic, 6)
        members.stop("a")
        members.wait_settled(topic, 6)
        members.stop("upgraded")
        members.wait_settled(topic, 6)
        members.start("c", "kafka_python", ["CooperativeStickyAssignor"], [topic])
        members.wait_settled(topic, 6)
        delivered = feeder.stop()
        members.wait(lambda: covered(members, delivered), "every record to be processed")
