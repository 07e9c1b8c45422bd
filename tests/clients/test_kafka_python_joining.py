"""What is repaired in how a kafka-python 3 consumer with our assignors joins its group."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from threading import RLock
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.base import Generation, MemberState
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.structs import OffsetAndMetadata, TopicPartition
from kafka.util import Timer

from counterpoise.clients.kafka_python_joining import mend_joining
from counterpoise.clients.listener_core import ListenerCore

LOOPS: list[NetworkSelector] = []
OWNED = [TopicPartition("t", 0), TopicPartition("t", 1)]


class Coordinator(ConsumerCoordinator):  # type: ignore[misc]
    """The host's class and its event loop, with a broker that answers a JoinGroup when the test says so."""

    def __init__(self, protocol: Any = RebalanceProtocol.COOPERATIVE, auto_commit: bool = True, listener: Any = None) -> None:
        self._net = NetworkSelector()
        LOOPS.append(self._net)
        self._manager: Any = SimpleNamespace(call_soon=self._net.call_soon_with_future, _net=self._net)
        self._manager.wait_for = partial(KafkaConnectionManager.wait_for, self._manager)
        self.config = {"enable_auto_commit": auto_commit, "group_id": "g", "retry_backoff_ms": 1, "api_version": (4, 0)}
        self.owned = list(OWNED)
        self._subscription = SimpleNamespace(
            rebalance_listener=listener,
            assigned_partitions=lambda: set(self.owned),
            assign_from_subscribed=self._assign,
            subscription={each.topic for each in OWNED},
            all_consumed_offsets=lambda: {each: OffsetAndMetadata(5, "", -1) for each in self.owned},
        )
        self._rebalance_protocol = protocol
        self._generation = Generation(3, "m", "cooperative-sticky")
        self._join_task: Any = None
        self._lock = RLock()
        self.state = MemberState.REBALANCING
        self.rejoining, self.needed, self.joins_at_once = True, True, False
        self.answers: list[Future] = []
        self.completed: list[bytes] = []
        self.lost: list[TopicPartition] = []
        self.committed: list[Any] = []
        self.heartbeats = 0
        self.heartbeats_enabled = False

    def _assign(self, partitions: list[TopicPartition]) -> None:
        self.owned = partitions

    def __del__(self) -> None:
        pass

    def need_rejoin(self) -> bool:
        return self.needed

    def poll(self, timeout_ms: float | None = None) -> bool:
        timer = Timer(timeout_ms)
        return not self.needed or bool(self._net.run(self.join_group_async, timer.timeout_ms))

    def poll_heartbeat(self) -> None:
        self.heartbeats += 1

    async def ensure_coordinator_ready_async(self, timeout_ms: float | None = None) -> bool:  # noqa: ARG002
        return True

    async def _do_join_and_sync_async(self) -> Any:
        self.answers.append(Future())
        if self.joins_at_once:
            self.answers[-1].success(b"at once")
        return await self.answers[-1]

    async def _on_join_complete_async(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:  # noqa: ARG002
        self.needed = False
        self.completed.append(assignment)
        self.owned = OWNED[:1]

    async def _on_join_prepare_async(self, generation: int, member_id: str, timeout_ms: float | None = None) -> None:  # noqa: ARG002
        if self._generation.is_lost():
            self.lost, self.owned = self.owned, []

    def _disable_heartbeat(self) -> None:
        self.heartbeats_enabled = False

    def _enable_heartbeat(self) -> None:
        self.heartbeats_enabled = True

    def commit_offsets_async(self, offsets: Any, callback: Any = None) -> None:  # noqa: ARG002
        self.committed.append(offsets)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while LOOPS:
        LOOPS.pop().close()


def test_the_host_repeats_a_join_that_finished_between_two_polls() -> None:
    """What is mended here is still there: once it is not, the module can go."""
    coordinator = Coordinator()
    assert not coordinator.poll(timeout_ms=5)
    coordinator.answers[0].success(b"first")
    coordinator._net.poll(timeout_ms=5)
    assert not coordinator.poll(timeout_ms=5)
    assert (len(coordinator.answers), coordinator.completed) == (2, [])


@pytest.mark.parametrize("protocol", list(RebalanceProtocol))
def test_a_join_that_finished_between_two_polls_is_completed(protocol: Any) -> None:
    coordinator = Coordinator(protocol)
    mend_joining(coordinator)
    coordinator.poll(timeout_ms=5)
    coordinator.answers[0].success(b"first")
    coordinator._net.poll(timeout_ms=5)
    assert coordinator.poll(timeout_ms=5)
    assert (len(coordinator.answers), coordinator.completed) == (1, [b"first"])


@pytest.mark.parametrize(
    ("given", "fetches"),
    [
        pytest.param({}, True, id="automatic commits"),
        pytest.param({"auto_commit": False, "listener": ListenerCore(None, None, None, None)}, True, id="our listener commits"),
        pytest.param({"auto_commit": False}, False, id="the application may commit after each poll"),
        pytest.param({"protocol": RebalanceProtocol.EAGER}, False, id="eager"),
    ],
)
def test_records_may_be_fetched_while_a_join_is_pending(given: dict[str, Any], fetches: bool) -> None:
    coordinator = Coordinator(**given)
    mend_joining(coordinator)
    assert [coordinator.poll(timeout_ms=20) for _ in range(3)] == [fetches] * 3
    assert (len(coordinator.answers), coordinator.completed) == (1, [])
    assert coordinator.heartbeats == (2 if fetches else 0)


def test_a_member_that_was_forgotten_or_owns_nothing_waits_for_its_join() -> None:
    for name, value in (("_generation", Generation.NO_GENERATION), ("owned", [])):
        coordinator = Coordinator()
        setattr(coordinator, name, value)
        mend_joining(coordinator)
        assert not coordinator.poll(timeout_ms=5)


def test_what_was_received_during_a_join_of_a_revoked_partition_is_committed() -> None:
    coordinator = Coordinator()
    mend_joining(coordinator)
    assert coordinator.poll(timeout_ms=5)
    coordinator.answers[0].success(b"first")
    assert coordinator.poll(timeout_ms=5)
    assert [list(each) for each in coordinator.committed] == [OWNED[1:]]


@pytest.mark.parametrize("subscribed", [set(), None])
def test_partitions_that_a_join_begins_by_giving_up_are_not_committed_again(subscribed: Any) -> None:
    """Their topic is not subscribed any more: they may have a next owner when the join is complete."""
    coordinator = Coordinator()
    coordinator.rejoining, coordinator.joins_at_once = False, True
    coordinator._subscription.subscription = subscribed
    mend_joining(coordinator)
    assert coordinator.poll(timeout_ms=5)
    assert (coordinator.completed, coordinator.committed) == ([b"at once"], [])


def test_partitions_of_a_topic_that_was_dropped_during_a_join_are_committed_after_it() -> None:
    coordinator = Coordinator()
    mend_joining(coordinator)
    assert coordinator.poll(timeout_ms=5)
    coordinator._subscription.subscription = set()
    coordinator.answers[0].success(b"first")
    assert coordinator.poll(timeout_ms=5)
    assert [list(each) for each in coordinator.committed] == [OWNED[1:]]


def failed_between_polls(error: Exception) -> Coordinator:
    coordinator = Coordinator()
    mend_joining(coordinator)
    assert coordinator.poll(timeout_ms=5)
    coordinator.answers[0].failure(error)
    coordinator._net.poll(timeout_ms=5)
    return coordinator


@pytest.mark.parametrize("error", [RebalanceInProgressError(), KafkaTimeoutError(), ValueError("a leader's own")])
def test_a_join_that_failed_between_two_polls_is_tried_again(error: Exception) -> None:
    coordinator = failed_between_polls(error)
    assert coordinator.poll(timeout_ms=5)
    coordinator.answers[1].success(b"second")
    assert coordinator.poll(timeout_ms=5)
    assert coordinator.completed == [b"second"]


def test_heartbeats_begin_when_the_join_completes_though_the_application_is_busy() -> None:
    coordinator = Coordinator()
    mend_joining(coordinator)
    assert coordinator.poll(timeout_ms=20)
    assert coordinator.poll(timeout_ms=20)
    coordinator.answers[0].success(b"first")
    coordinator._net.poll(timeout_ms=5)
    assert (coordinator.heartbeats_enabled, coordinator.state, coordinator.completed) == (True, MemberState.STABLE, [])


def test_what_was_received_before_the_member_had_to_join_as_another_is_not_committed() -> None:
    coordinator = Coordinator()
    mend_joining(coordinator)
    assert coordinator.poll(timeout_ms=5)
    coordinator._generation = Generation(4, "another", "cooperative-sticky")
    coordinator.answers[0].success(b"first")
    assert coordinator.poll(timeout_ms=5)
    assert coordinator.committed == []


def test_a_completed_join_of_a_member_that_was_expelled_since_is_repeated() -> None:
    coordinator = Coordinator()
    mend_joining(coordinator)
    assert coordinator.poll(timeout_ms=5)
    coordinator.answers[0].success(b"first")
    coordinator._net.poll(timeout_ms=5)
    coordinator._generation = Generation.NO_GENERATION
    assert not coordinator.poll(timeout_ms=5)
    assert (len(coordinator.answers), coordinator.completed) == (2, [])


@pytest.mark.parametrize("protocol", list(RebalanceProtocol))
@pytest.mark.parametrize("mended", [False, True])
def test_a_member_that_is_expelled_while_it_joins_loses_its_partitions_first(protocol: Any, mended: bool) -> None:
    """The host alone keeps them, with the positions they had; once it does not, this repair can go."""
    coordinator = Coordinator(protocol)
    if mended:
        mend_joining(coordinator)
    coordinator.poll(timeout_ms=5)
    coordinator._generation = Generation.NO_GENERATION
    coordinator.answers[0].failure(UnknownMemberIdError())
    coordinator.poll(timeout_ms=20)
    assert len(coordinator.answers) == 2
    # An eager member's partitions were reported as revoked when it began to join.
    lost = OWNED if mended and protocol is RebalanceProtocol.COOPERATIVE else []
    assert (coordinator.lost, coordinator.owned) == (lost, [] if mended else OWNED)


@pytest.mark.parametrize("error", [FencedInstanceIdError(), GroupAuthorizationFailedError()])
def test_the_final_error_of_a_join_that_ended_between_two_polls_is_raised(error: Exception) -> None:
    coordinator = failed_between_polls(error)
    with pytest.raises(type(error)):
        coordinator.poll(timeout_ms=5)
    assert len(coordinator.answers) == 1


def test_mending_twice_changes_nothing_and_another_release_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = Coordinator()
    mend_joining(coordinator)
    before = coordinator.poll
    mend_joining(coordinator)
    assert coordinator.poll is before
    other = SimpleNamespace(poll=len, need_rejoin=len)
    mend_joining(other)
    assert other.poll is len
    assert "set heartbeat_interval_ms=300" in caplog.text
