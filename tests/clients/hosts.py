"""Members made of the hosts' own classes - coordinator, subscription state, cluster, codecs - without a network.

A member goes through a rebalance as its host does it: prepare, metadata, (as a leader) assign, complete. The same code
drives every supported version; what differs between them is here, and nothing of counterpoise's is called directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

__all__ = ["Answer", "HostMember", "KafkaPython3Member", "host_member"]

Joined = tuple[str, bytes, str | None]
"""Member id, metadata, group.instance.id."""


@dataclass
class Answer:
    """What members share: the topics as the broker reports them, with their racks."""

    topics: dict[str, int] = field(default_factory=dict)
    replicas: dict[str, list[list[int]]] = field(default_factory=dict)
    brokers: dict[int, str | None] = field(default_factory=lambda: {1: None})


class HostMember:
    """One member; a subclass per host."""

    def __init__(self, member_id: str, topics: Sequence[str], assignors: Sequence[Any], answer: Answer) -> None:
        self.id, self.topics, self.assignors, self.answer = member_id, list(topics), list(assignors), answer
        self.generation = -1

    def join(self) -> dict[str, bytes]:
        """Revoke as the host does, and say by strategy what goes into JoinGroup."""
        raise NotImplementedError

    def lead(self, strategy: str, generation: int, members: Sequence[Joined]) -> dict[str, bytes]:
        """The host's work as a leader, up to the bytes in SyncGroup."""
        raise NotImplementedError

    def complete(self, strategy: str, generation: int, assignment: bytes) -> bool:
        """Take an assignment as the host does; True when the host will join again by itself."""
        raise NotImplementedError

    def lose(self) -> None:
        """The coordinator has forgotten this member."""
        raise NotImplementedError

    def owned(self) -> set[tuple[str, int]]:
        """What the host lets its application read."""
        raise NotImplementedError

    def holds(self) -> set[tuple[str, int]]:
        """What the host keeps while it joins: nothing when it is eager."""
        return set()


def host_member(host: str, *given: Any, **named: Any) -> HostMember:
    """A member of kafka_python or aiokafka, in whatever version is installed."""
    if host == "aiokafka":
        return _AioKafkaMember(*given, **named)
    from kafka.coordinator.assignors import abstract

    return (KafkaPython3Member if hasattr(abstract, "RebalanceProtocol") else _KafkaPython2Member)(*given, **named)


class _Cluster:
    """The parts of a client's ClusterMetadata that a coordinator and an assignor touch, on the shared topics."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.unauthorized_topics: set[str] = set()

    @property
    def _partitions(self) -> Mapping[str, Mapping[int, Any]]:
        return {
            topic: {
                index: SimpleNamespace(replicas=self._answer.replicas.get(topic, [[1]] * count)[index]) for index in range(count)
            }
            for topic, count in self._answer.topics.items()
        }

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        count = self._answer.topics.get(topic)
        return None if count is None else set(range(count))

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:  # noqa: ARG002 - the host's signature
        return set(self._answer.topics)

    def brokers(self) -> list[Any]:
        return [SimpleNamespace(nodeId=node, rack=rack) for node, rack in self._answer.brokers.items()]

    def request_update(self) -> None:
        pass

    def set_topics(self, topics: Any) -> None:
        pass


def _nothing(_: Any) -> None:
    pass


def _now(work: Any) -> Any:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the host waits for something")


class _KafkaPythonMember(HostMember):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        from kafka.consumer.subscription_state import SubscriptionState
        from kafka.coordinator.base import Generation
        from kafka.coordinator.consumer import ConsumerCoordinator

        class Coordinator(ConsumerCoordinator):  # type: ignore[misc]
            """The host's, without its connections."""

            def __init__(self) -> None:
                self._rejoin = False
                if not hasattr(type(self), "group_id"):
                    self.group_id = "g"

            def request_rejoin(self) -> None:
                self._rejoin = True

            def __del__(self) -> None:
                pass

        self._generation_class = Generation
        coordinator = self.coordinator = Coordinator()
        coordinator._subscription = SubscriptionState("earliest")
        coordinator._cluster = _Cluster(self.answer)
        coordinator._client = SimpleNamespace(set_topics=_nothing, cluster=coordinator._cluster)
        coordinator.config = {
            "group_id": "g", "enable_auto_commit": False, "assignors": self.assignors, "exclude_internal_topics": True,
            "api_version": (4, 0), "default_offset_commit_callback": None, "group_instance_id": None,
        }  # fmt: skip
        coordinator._metadata_snapshot = {}
        coordinator._assignment_snapshot = None
        coordinator._is_leader = False
        coordinator.auto_commit_interval = 5
        coordinator._generation = Generation.NO_GENERATION
        coordinator._subscription.subscribe(self.topics)

    def lose(self) -> None:
        self.coordinator._generation = self._generation_class.NO_GENERATION

    def owned(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self.coordinator._subscription.assigned_partitions()}

    def _metadata(self) -> dict[str, bytes]:
        listed = self.coordinator.group_protocols()
        return {name: bytes(data) if isinstance(data, bytes) else bytes(data.encode()) for name, data in listed}


class KafkaPython3Member(_KafkaPythonMember):
    """kafka-python 3: knows the two protocols."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        made = [each() if isinstance(each, type) else each for each in self.assignors]
        # What the host sets when it connects; nothing here uses it, but without it the release counts as an unknown one.
        for name in ("_join_task", "_lock", "_manager", "_net", "state"):
            setattr(self.coordinator, name, None)
        self.coordinator._assignors = {each.name: each for each in made}
        self.coordinator._rebalance_protocol = self.coordinator._validate_rebalance_protocol()

    def join(self) -> dict[str, bytes]:
        generation = self.coordinator._generation
        self.coordinator._rejoin = False
        _now(self.coordinator._on_join_prepare_async(generation.generation_id, generation.member_id))
        return self._metadata()

    def holds(self) -> set[tuple[str, int]]:
        return self.owned() if self.coordinator._rebalance_protocol.name == "COOPERATIVE" else set()

    def lead(self, strategy: str, generation: int, members: Sequence[Joined]) -> dict[str, bytes]:
        from kafka.protocol.consumer import JoinGroupResponse

        self.coordinator._generation = self._generation_class(generation, self.id, strategy)
        joined = [
            JoinGroupResponse.JoinGroupResponseMember(member_id=member, group_instance_id=instance, metadata=metadata)
            for member, metadata, instance in members
        ]
        return dict(self.coordinator._perform_assignment(self.id, strategy, joined))

    def complete(self, strategy: str, generation: int, assignment: bytes) -> bool:
        self.coordinator._generation = self._generation_class(generation, self.id, strategy)
        self.coordinator._rejoin = False
        _now(self.coordinator._on_join_complete_async(generation, self.id, strategy, assignment))
        return bool(self.coordinator._rejoin)


class _KafkaPython2Member(_KafkaPythonMember):
    def join(self) -> dict[str, bytes]:
        generation = self.coordinator._generation
        self.coordinator._on_join_prepare(generation.generation_id, generation.member_id)
        return self._metadata()

    def lead(self, strategy: str, generation: int, members: Sequence[Joined]) -> dict[str, bytes]:
        from kafka.coordinator import base

        self.coordinator._generation = self._generation_class(generation, self.id, strategy)
        group_member = getattr(base, "GroupMember", None)
        raw = [group_member(member, instance, data) if group_member else (member, data) for member, data, instance in members]
        return dict(self.coordinator._perform_assignment(self.id, strategy, raw))

    def complete(self, strategy: str, generation: int, assignment: bytes) -> bool:
        self.coordinator._generation = self._generation_class(generation, self.id, strategy)
        self.coordinator._on_join_complete(generation, self.id, strategy, assignment)
        return False


class _AioKafkaMember(HostMember):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        from aiokafka.consumer.group_coordinator import GroupCoordinator
        from aiokafka.consumer.subscription_state import SubscriptionState

        class Coordinator(GroupCoordinator):  # type: ignore[misc]
            """The host's, without its connections and tasks."""

            def __init__(self) -> None:
                self.group_id = "g"

            async def _stop_commit_offsets_refresh_task(self) -> None:
                pass

            def start_commit_offsets_refresh_task(self, assignment: Any) -> None:
                pass

            async def _maybe_do_last_autocommit(self, assignment: Any) -> None:
                pass

            def _get_metadata_snapshot(self) -> dict[str, Any]:
                return {}

        async def waited() -> None:
            pass

        self._loop = asyncio.new_event_loop()
        coordinator = self.coordinator = Coordinator()
        coordinator._subscription = SubscriptionState(loop=self._loop)
        coordinator._cluster = _Cluster(self.answer)
        coordinator._client = SimpleNamespace(set_topics=_nothing, _maybe_wait_metadata=waited, api_version=(2, 6))
        coordinator._assignors = self.assignors
        coordinator.generation, coordinator.member_id = -1, ""
        coordinator._rebalance_timeout_ms, coordinator._group_instance_id = 60_000, None
        coordinator._session_timeout_ms, coordinator._heartbeat_interval_ms, coordinator._retry_backoff_ms = 60_000, 3_000, 100
        coordinator._heartbeat_task = None
        self._run(self._subscribe())

    async def _subscribe(self) -> None:
        self.coordinator._subscription.subscribe(set(self.topics))

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def join(self) -> dict[str, bytes]:
        from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance
        from aiokafka.errors import UnknownError

        subscription = self.coordinator._subscription
        self._run(self.coordinator._on_join_prepare(subscription.subscription.assignment))
        # Only the request is caught: all before it is the host's own code.
        asked: list[Any] = []

        async def refused(request: Any) -> None:
            asked.append(request)
            raise UnknownError

        self.coordinator._send_req = refused
        rebalance = CoordinatorGroupRebalance(self.coordinator, "g", 1, subscription, self.assignors, 10_000, 100)
        assert self._run(rebalance.perform_group_join()) is None
        return {name: bytes(data) for name, data in _protocols(asked[-1])}

    def lead(self, strategy: str, generation: int, members: Sequence[Joined]) -> dict[str, bytes]:
        from aiokafka.protocol import group

        self.coordinator.generation, self.coordinator.member_id = generation, self.id
        kind = getattr(group, "JoinGroupResponse_v5", None) or group.JoinGroupResponse
        listed = [(member, instance, metadata) for member, metadata, instance in members]
        response = _response(kind, strategy, listed)
        return dict(self._run(self.coordinator._perform_assignment(response)))

    def complete(self, strategy: str, generation: int, assignment: bytes) -> bool:
        self.coordinator.generation, self.coordinator.member_id = generation, self.id
        self._run(self.coordinator._on_join_complete(generation, self.id, strategy, assignment))
        return False

    def lose(self) -> None:
        self.coordinator.generation, self.coordinator.member_id = -1, ""

    def owned(self) -> set[tuple[str, int]]:
        subscription = self.coordinator._subscription
        if subscription.subscription.assignment is None:
            return set()
        return {(each.topic, each.partition) for each in subscription.assigned_partitions()}

    def __del__(self) -> None:
        self._loop.close()


def _protocols(request: Any) -> list[tuple[str, bytes]]:
    """The strategies in a JoinGroup request: 0.12 keeps them as a field, 0.14 under a private name."""
    found = [value for value in vars(request).values() if isinstance(value, list) and value and isinstance(value[0], tuple)]
    return list(found[0])


def _response(kind: type, strategy: str, members: list[Any]) -> Any:
    """A JoinGroup response of version 5 as aiokafka's leader sees it, of the host's class (it asks for its type)."""

    class Response(kind):  # type: ignore[misc]
        API_VERSION = 5

        def __init__(self) -> None:
            self.group_protocol = strategy
            self.members = members

    return Response()
