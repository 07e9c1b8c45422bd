"""Requests to a cluster of which some fail: what is left out, and what is an error."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError, KafkaException

from counterpoise.cli.app import exit_code_of
from counterpoise.errors import SourceError
from counterpoise.pipeline.capture.cluster import Cluster, source_error
from counterpoise.pipeline.capture.group_poll import poll_groups
from counterpoise.pipeline.capture.settings import Settings


def failing(error: Exception) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def cluster_whose(**answers: Any) -> Cluster:
    """A cluster with this admin client."""
    cluster = Cluster(Settings({"bootstrap.servers": "a:9092"}))
    vars(cluster)["admin"] = SimpleNamespace(**answers)
    return cluster


def with_topic_that(error: Exception) -> Cluster:
    about = SimpleNamespace(partitions=[SimpleNamespace(replicas=[])], topic_id="2y982t+TS6/rR86ysMbVdg", is_internal=False)
    described: Future[Any] = Future()
    described.set_result(about)
    listed = SimpleNamespace(topics={name: SimpleNamespace(error=None) for name in ("t", "u")})
    return cluster_whose(list_topics=lambda **_: listed, describe_topics=lambda _, **__: {"t": failing(error), "u": described})


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED])
def test_a_topic_that_was_deleted_or_may_not_be_described_is_left_out(code: int) -> None:
    topics = with_topic_that(KafkaException(KafkaError(code))).topics()
    assert {name: about["topic_id"] for name, about in topics.items()} == {"u": "2y982t-TS6_rR86ysMbVdg"}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KafkaException(KafkaError(KafkaError._TIMED_OUT)), "a:9092 does not answer"),
        (FutureTimeoutError(), "topic t: no answer"),
    ],
)
def test_a_topic_that_is_not_described_in_time_is_an_error(error: Exception, words: str) -> None:
    """A sample without its log ends would look like a time in which the broker was away."""
    with pytest.raises(SourceError, match=words) as raised:
        with_topic_that(error).topics()
    assert exit_code_of(raised.value) == 3


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (KafkaError(KafkaError._TRANSPORT), 3),
        (KafkaError(KafkaError._RESOLVE), 3),
        (KafkaError(KafkaError.LEADER_NOT_AVAILABLE), 3),
        (KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE), 3),
        (KafkaError(KafkaError._TRANSPORT, "SSL alert number 42"), 2),
        (KafkaError(KafkaError._SSL), 2),
        (KafkaError(KafkaError._AUTHENTICATION), 2),
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), 2),
        (KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), 2),
    ],
)
def test_what_may_pass_by_itself_has_another_exit_code_than_wrong_use(error: KafkaError, exit_code: int) -> None:
    assert exit_code_of(source_error(error, "t", Settings({"bootstrap.servers": "a:9092"}))) == exit_code


def test_groups_that_are_not_listed_in_time_are_an_error_of_one_line() -> None:
    with pytest.raises(SourceError, match="groups: no answer"):
        poll_groups(cluster_whose(list_consumer_groups=lambda **_: failing(FutureTimeoutError())))


def done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def test_of_a_partition_whose_commit_cannot_be_read_nothing_is_known() -> None:
    """The other partitions are read, one has no commit; and the fault is said."""
    refused = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    offsets = [("t", 0, 7, None), ("t", 1, -1001, None), ("u", 0, -1001, refused)]
    listed = [
        SimpleNamespace(topic=topic, partition=at, offset=offset, error=error, leader_epoch=None, metadata=None)
        for topic, at, offset, error in offsets
    ]
    about = SimpleNamespace(
        group_id="g", type=ConsumerGroupType.CLASSIC, state=ConsumerGroupState.EMPTY, members=[], partition_assignor=""
    )
    named = ["g"]
    cluster = cluster_whose(
        list_consumer_groups=lambda **_: done(SimpleNamespace(valid=[SimpleNamespace(group_id=one) for one in named], errors=[])),
        describe_consumer_groups=lambda names, **_: {name: done(about) for name in names},
        list_consumer_group_offsets=lambda _, **__: {"g": done(SimpleNamespace(topic_partitions=listed))},
    )
    poll = poll_groups(cluster)
    assert [group.commits for group in poll.groups] == [{("t", 0): (7, -1, ""), ("u", 0): None}]
    (fault,) = poll.faults
    assert fault.startswith("group g: cannot read commits of 1 partition(s), first u 0 (")
    named.append("")  # a commit of no group is valid in Kafka, and librdkafka refuses to ask for it
    poll = poll_groups(cluster)
    assert (poll.names, [each.group_id for each in poll.groups]) == ({"g"}, ["g"])
    assert "the group with an empty name: librdkafka cannot ask for it" in poll.faults
