"""Random groups through the hosts' real classes, the newest and the oldest supported versions, obey the laws."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from counterpoise.clients import aiokafka, kafka_python
from counterpoise.wire.consumer_protocol import Assignment, decode_subscription, encode_assignment
from tests.clients.hosts import Answer, KafkaPython3Member, host_member
from tests.clients.rounds import STRATEGIES, play

ROOT = Path(__file__).resolve().parent.parent.parent
OLDEST = ROOT / ".oldest"
LONG = os.environ.get("COUNTERPOISE_PROFILE") == "long"
NEWEST_SEEDS = 2_000 if LONG else 15
OLDEST_GROUPS = 10_000 if LONG else 30


def play_all(host: str, strategy: str, seeds: int) -> None:
    for seed in range(seeds):
        play(host, strategy, seed)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("host", ["kafka_python", "aiokafka"])
def test_groups_of_the_newest_version_obey_the_laws(host: str, strategy: str) -> None:
    play_all(host, strategy, NEWEST_SEEDS)


@pytest.mark.parametrize(
    ("version", "host"),
    [
        ("kafka-python-2.0.2", "kafka_python"),
        ("kafka-python-2.1.0", "kafka_python"),
        ("kafka-python-2.2.0", "kafka_python"),
        ("kafka-python-2.3.0", "kafka_python"),
        ("kafka-python-3.0.0", "kafka_python"),
        ("aiokafka-0.12.0", "aiokafka"),
    ],
)
def test_groups_of_the_oldest_versions_obey_the_laws(version: str, host: str) -> None:
    folder = OLDEST / version
    assert folder.is_dir(), "older Kafka clients are missing: run `make .oldest/.ready`"
    done = subprocess.run(
        [sys.executable, "-m", "tests.clients.rounds", host, str(OLDEST_GROUPS)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT / "src"), str(ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == f"{host} {version.rpartition('-')[2]}: {OLDEST_GROUPS} groups obey the laws\n"


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "constrained-cooperative-sticky"])
def test_a_member_that_claims_nothing_while_it_owns_is_found_out(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_python._KafkaPythonAssignor, "_held", lambda _: ())
    with pytest.raises(AssertionError, match="while it holds"):
        play_all("kafka_python", strategy, NEWEST_SEEDS)


def test_a_member_that_still_claims_what_it_has_lost_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_python._KafkaPythonAssignor, "_held", lambda self: self._member.assigned)
    with pytest.raises(AssertionError, match="while it holds"):
        play_all("kafka_python", "cooperative-sticky", NEWEST_SEEDS)


def test_an_eager_member_that_claims_under_cooperative_sticky_leaves_partitions_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiokafka._AioKafkaAssignor, "_held", lambda self: self._member.assigned)
    with pytest.raises(AssertionError, match="while it holds"):
        play_all("aiokafka", "cooperative-sticky", NEWEST_SEEDS)


def test_a_leader_that_forgets_claims_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Any, *_: Any) -> None:
        self._member.received((), -1)

    monkeypatch.setattr(aiokafka._AioKafkaAssignor, "on_assignment", forgetful)
    with pytest.raises(AssertionError, match="the leader does not know"):
        play_all("aiokafka", "sticky", NEWEST_SEEDS)


def test_all_cooperative_assignors_of_a_consumer_claim_with_the_generation_of_its_last_assignment() -> None:
    """Only the elected one is told of an assignment."""
    listed = [kafka_python.ConstrainedCooperativeStickyAssignor(), kafka_python.CooperativeStickyAssignor()]
    member = host_member("kafka_python", "m", ["t"], listed, Answer({"t": 4}))
    for generation, elected, partitions in ((5, listed[1], (0, 1)), (9, listed[0], (2, 3))):
        member.join()
        member.complete(elected.name, generation, encode_assignment(Assignment((("t", partitions),))))
        claims = [decode_subscription(data) for data in member.join().values()]
        assert [(claim.owned, claim.generation) for claim in claims] == [((("t", partitions),), generation)] * 2


def test_a_join_that_outlasts_a_poll_is_not_forgotten() -> None:
    """kafka-python 3 would find nothing to do in its next poll: joining took away the reason for it."""
    member = host_member("kafka_python", "m", ["t"], [kafka_python.StickyAssignor()], Answer({"t": 1}))
    assert isinstance(member, KafkaPython3Member)
    member.join()
    assert member.coordinator._joined_subscription == member.coordinator._subscription.subscription
    assert member.coordinator._rejoin
