"""A live group on a real broker: members, holdings and lag as they are; `counterpoise lag` on top of it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

from counterpoise.cli.app import app
from counterpoise.clients.live_group import LiveGroup, read_live_group
from counterpoise.errors import OptionError, SourceError
from counterpoise.model.lag import EXACT, RESET_POLICY
from counterpoise.snapshot import Group
from tests.java import java_home
from tests.kafka_broker import LIBS, Broker

GROUP, TOPIC = "lag-readers", "lag-orders"
PRODUCED = [900, 700, 30, 0]
COMMITTED = [100, 0, 30]


@pytest.fixture(scope="module")
def live(broker: Broker) -> Iterator[Broker]:
    """Two range members, who hold partitions 0-1 and 2-3, some commits, and nothing committed for the last partition."""
    broker.create_topic(TOPIC, 4)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for partition, count in enumerate(PRODUCED):
        for at in range(count):
            producer.produce(TOPIC, value=str(at), partition=partition)
        producer.flush(30)
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": GROUP,
        "enable.auto.commit": False,
        "partition.assignment.strategy": "range",
    }
    members = [Consumer({**settings, "client.id": name}) for name in ("lag-a", "lag-b")]
    for member in members:
        member.subscribe([TOPIC])
    deadline = time.monotonic() + 120
    while sorted(len(member.assignment()) for member in members) != [2, 2]:
        assert time.monotonic() < deadline, "the group did not settle"
        for member in members:
            member.poll(0.2)
    for member in members:
        held = [at.partition for at in member.assignment() if at.partition < len(COMMITTED)]
        member.commit(offsets=[TopicPartition(TOPIC, at, COMMITTED[at]) for at in held], asynchronous=False)
    yield broker
    for member in members:
        member.close()


def read(broker: Broker, reset: str = "latest") -> LiveGroup:
    return read_live_group({"bootstrap.servers": broker.bootstrap}, GROUP, reset=reset, timeout=30)


@pytest.mark.kafka
def test_lag_holders_and_offsets_are_read_as_they_are(live: Broker) -> None:
    found = read(live)
    assert (found.state, found.strategy, found.faults) == ("STABLE", "range", ())
    assert [(s.partition, s.committed, s.end, s.lag, s.quality) for s in found.partitions] == [
        (0, 100, 900, 800, EXACT),
        (1, 0, 700, 700, EXACT),
        (2, 30, 30, 0, EXACT),
        (3, -1, 0, 0, RESET_POLICY),
    ]
    assert sorted(found.client_ids.values()) == ["lag-a", "lag-b"]
    held = [sorted(member.owned[TOPIC]) for member in found.group.members]
    assert sorted(held) == [[0, 1], [2, 3]]


@pytest.mark.kafka
def test_without_a_reset_policy_an_uncommitted_partition_is_an_error(live: Broker) -> None:
    with pytest.raises(OptionError, match=f"nothing is committed for partition {TOPIC}-3"):
        read(live, reset="none")


@pytest.mark.kafka
def test_the_command_shows_who_holds_the_lag_and_what_would_help(live: Broker) -> None:
    words = ["lag", "--bootstrap-server", live.bootstrap, "--group", GROUP, "--timeout", "30"]
    result = CliRunner().invoke(app, [*words, "--partitions"])
    assert result.exit_code == 1
    assert "in all 1500 behind" in result.stdout
    assert "lag-sticky would cut the largest lag of a member from 1500 to 800 by moving " in result.stdout
    value = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert sorted(member["lag"] for member in value["members"]) == [0, 1500]
    assert value["not_read"] == []


@pytest.mark.kafka
@pytest.mark.parametrize(
    "words",
    [
        pytest.param([], id="offsets"),
        pytest.param(["--verbose"], id="verbose", marks=pytest.mark.long),
        pytest.param(["--members", "--verbose"], id="members"),
    ],
)
def test_the_text_of_kafkas_own_tool_gives_the_same_group(live: Broker, words: list[str]) -> None:
    command = [java_home() + "/bin/java", "-cp", f"{LIBS}/*", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"]
    asked = ["--bootstrap-server", live.bootstrap, "--describe", "--group", GROUP, *words]
    done = subprocess.run([*command, *asked], capture_output=True, text=True, timeout=120, check=True)
    group = Group.from_describe(done.stdout)
    found = read(live).group
    assert {member.id: sorted(member.owned[TOPIC]) for member in group.members} == {
        member.id: sorted(member.owned[TOPIC]) for member in found.members
    }
    assert group.topics[TOPIC].partitions == 4
    assert group.lag is None or list(group.lag[TOPIC]) == [800, 700, 0, 0]


@pytest.mark.kafka
def test_a_cluster_that_does_not_answer_is_one_clear_error() -> None:
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:1: group g: cannot be described"):
        read_live_group({"bootstrap.servers": "127.0.0.1:1"}, "g", timeout=1)
