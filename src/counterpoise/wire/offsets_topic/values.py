"""The values of all record types of the offsets topic, as frozen dataclasses that describe their own layout.

Fields stand in wire order. A version range in a `wire(...)` says which versions carry the field. In other versions the field
has its default. Topic ids are 16 raw bytes; `uuid_text` writes them as Kafka does. Long because it is one table.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from counterpoise.wire.offsets_topic.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    RAW,
    STRING,
    UINT16,
    UUID,
    Array,
    Flexible,
    Struct,
    wire,
)

__all__ = [
    "ZERO_UUID",
    "AssignedTopic",
    "ClassicMemberMetadata",
    "ClassicProtocol",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionValue",
    "CopartitionGroup",
    "Endpoint",
    "GroupMember",
    "GroupMetadataValue",
    "InitializedTopic",
    "KeyValue",
    "LegacyOffsetCommitValue",
    "NamedTopic",
    "OffsetCommitValue",
    "OwnedTasks",
    "PartitionRacks",
    "ShareGroupCurrentMemberAssignmentValue",
    "ShareGroupMemberMetadataValue",
    "ShareGroupMetadataValue",
    "ShareGroupStatePartitionMetadataValue",
    "StreamsGroupCurrentMemberAssignmentValue",
    "StreamsGroupMemberMetadataValue",
    "StreamsGroupMetadataValue",
    "StreamsGroupTargetAssignmentMemberValue",
    "StreamsGroupTopologyValue",
    "Subtopology",
    "TargetAssignmentMemberValue",
    "TargetAssignmentMetadataValue",
    "Tasks",
    "TopicInfo",
    "TopicMetadata",
    "TopicPartitionIds",
    "Value",
    "uuid_text",
]

ZERO_UUID = bytes(16)
"""The topic id that stands for none."""

_STRINGS = Array(STRING)
_INT32S = Array(INT32)
_EPOCHS = Array(INT32, nullable=True)


def uuid_text(raw: bytes) -> str:
    """A 16-byte id in Kafka's form: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Value(Flexible):
    """Base of the values themselves; nested structs derive from `Flexible`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyOffsetCommitValue(Value):
    """Type 0, version 0: a commit of Kafka before 0.9."""

    offset: int = wire(INT64)
    metadata: str = wire(STRING)
    commit_timestamp: int = wire(INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue(Value):
    """Type 1, versions 0-4: `offset` is the next one to read; timestamps in ms; -1 = unknown or none."""

    offset: int = wire(INT64)
    leader_epoch: int = wire(INT32, -1, since=3)
    metadata: str = wire(STRING)
    commit_timestamp: int = wire(INT64)
    expire_timestamp: int = wire(INT64, -1, since=1, until=1)
    topic_id: bytes = wire(UUID, ZERO_UUID, since=4, tag=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember(Flexible):
    """A member of a classic group; `subscription` and `assignment` are opaque to the broker; timeouts in ms."""

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(NULLABLE_STRING, None, since=3)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout: int = wire(INT32, -1, since=1)
    session_timeout: int = wire(INT32)
    subscription: bytes = wire(RAW)
    assignment: bytes = wire(RAW)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue(Value):
    """Type 2, versions 0-4: one generation of a classic group; `current_state_timestamp` in ms, -1 = unknown."""

    protocol_type: str = wire(STRING)
    generation: int = wire(INT32)
    protocol: str | None = wire(NULLABLE_STRING)
    leader: str | None = wire(NULLABLE_STRING)
    current_state_timestamp: int = wire(INT64, -1, since=2)
    members: tuple[GroupMember, ...] = wire(Array(Struct(GroupMember)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue(Value):
    """Type 3: the epoch of a KIP-848 group; `metadata_hash` 0 = not computed."""

    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64, 0, tag=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRacks(Flexible):
    """The racks of one partition's replicas."""

    partition: int = wire(INT32)
    racks: tuple[str, ...] = wire(_STRINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata(Flexible):
    """A subscribed topic as the group knew it."""

    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)
    num_partitions: int = wire(INT32)
    partition_metadata: tuple[PartitionRacks, ...] = wire(Array(Struct(PartitionRacks)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataValue(Value):
    """Type 4: the topics of a KIP-848 group, until Kafka 4.0."""

    topics: tuple[TopicMetadata, ...] = wire(Array(Struct(TopicMetadata)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol(Flexible):
    """A protocol that a classic member of a KIP-848 group offers."""

    name: str = wire(STRING)
    metadata: bytes = wire(RAW)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata(Flexible):
    """What makes a member of a KIP-848 group a classic one."""

    session_timeout_ms: int = wire(INT32)
    supported_protocols: tuple[ClassicProtocol, ...] = wire(Array(Struct(ClassicProtocol)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue(Value):
    """Type 5: a member of a KIP-848 group. Kafka writes the classic member's tag always, also when it is null."""

    instance_id: str | None = wire(NULLABLE_STRING)
    rack_id: str | None = wire(NULLABLE_STRING)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: tuple[str, ...] = wire(_STRINGS)
    subscribed_topic_regex: str | None = wire(NULLABLE_STRING)
    rebalance_timeout_ms: int = wire(INT32)
    server_assignor: str | None = wire(NULLABLE_STRING)
    classic_member_metadata: ClassicMemberMetadata | None = wire(  # noqa: RUF009 - a dataclasses.field
        Struct(ClassicMemberMetadata, nullable=True), None, tag=0, always=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentMetadataValue(Value):
    """Types 6, 12, 20: epoch of the target assignment; `assignment_timestamp` in ms, 0 = not given."""

    assignment_epoch: int = wire(INT32)
    assignment_timestamp: int = wire(INT64, 0, tag=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitionIds(Flexible):
    """Partitions of a topic that is named by its id."""

    topic_id: bytes = wire(UUID)
    partitions: tuple[int, ...] = wire(_INT32S)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentMemberValue(Value):
    """Types 7 and 13: the target assignment of one member."""

    topic_partitions: tuple[TopicPartitionIds, ...] = wire(Array(Struct(TopicPartitionIds)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTopic(TopicPartitionIds):
    """Partitions of a topic with the epochs at which they were assigned (None before Kafka 4.2)."""

    assignment_epochs: tuple[int, ...] | None = wire(_EPOCHS, None, tag=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue(Value):
    """Type 8: what a member owns now. state: 0 stable, 1 unrevoked partitions, 2 unreleased partitions, 127 unknown."""

    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    assigned_partitions: tuple[AssignedTopic, ...] = wire(Array(Struct(AssignedTopic)))
    partitions_pending_revocation: tuple[AssignedTopic, ...] = wire(Array(Struct(AssignedTopic)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue(Value):
    """Type 16: the topics a pattern matched at a version of the cluster's metadata; `timestamp` in ms."""

    topics: tuple[str, ...] = wire(_STRINGS)
    version: int = wire(INT64)
    timestamp: int = wire(INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMemberMetadataValue(Value):
    """Type 10: a member of a share group."""

    rack_id: str | None = wire(NULLABLE_STRING)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: tuple[str, ...] = wire(_STRINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMetadataValue(Value):
    """Type 11: the epoch of a share group; the hash is not a tagged field."""

    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupCurrentMemberAssignmentValue(Value):
    """Type 14: what a share member reads now; states as in type 8."""

    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    assigned_partitions: tuple[TopicPartitionIds, ...] = wire(Array(Struct(TopicPartitionIds)))


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopic(Flexible):
    """A topic by id and name."""

    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializedTopic(NamedTopic):
    """A topic with the partitions whose share state exists or is being made."""

    partitions: tuple[int, ...] = wire(_INT32S)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupStatePartitionMetadataValue(Value):
    """Type 15: how far a share group's state is initialized."""

    initializing_topics: tuple[InitializedTopic, ...] = wire(Array(Struct(InitializedTopic)))
    initialized_topics: tuple[InitializedTopic, ...] = wire(Array(Struct(InitializedTopic)))
    deleting_topics: tuple[NamedTopic, ...] = wire(Array(Struct(NamedTopic)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValue(Flexible):
    """A configuration entry: key and value."""

    key: str = wire(STRING)
    value: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMetadataValue(Value):
    """Type 17: the epoch of a streams group."""

    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64)
    validated_topology_epoch: int = wire(INT32, -1, tag=0)
    last_assignment_configs: tuple[KeyValue, ...] | None = wire(Array(Struct(KeyValue), nullable=True), None, tag=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Flexible):
    """Where a streams member answers interactive queries."""

    host: str = wire(STRING)
    port: int = wire(UINT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMemberMetadataValue(Value):
    """Type 19: a member of a streams group."""

    instance_id: str | None = wire(NULLABLE_STRING)
    rack_id: str | None = wire(NULLABLE_STRING)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout_ms: int = wire(INT32)
    topology_epoch: int = wire(INT32)
    process_id: str = wire(STRING)
    user_endpoint: Endpoint | None = wire(Struct(Endpoint, nullable=True))  # noqa: RUF009 - a dataclasses.field
    client_tags: tuple[KeyValue, ...] = wire(Array(Struct(KeyValue)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks(Flexible):
    """Tasks of one subtopology."""

    subtopology_id: str = wire(STRING)
    partitions: tuple[int, ...] = wire(_INT32S)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedTasks(Tasks):
    """Tasks of one subtopology with the epochs at which they were assigned (active tasks only, else None)."""

    assignment_epochs: tuple[int, ...] | None = wire(_EPOCHS, None, tag=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTargetAssignmentMemberValue(Value):
    """Type 21: the target tasks of one member."""

    active_tasks: tuple[Tasks, ...] = wire(Array(Struct(Tasks)))
    standby_tasks: tuple[Tasks, ...] = wire(Array(Struct(Tasks)))
    warmup_tasks: tuple[Tasks, ...] = wire(Array(Struct(Tasks)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupCurrentMemberAssignmentValue(Value):
    """Type 22: a member's tasks now. state: 1 stable, 2 unrevoked tasks, 3 unreleased tasks, 127 unknown (not type 8's)."""

    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    active_tasks: tuple[OwnedTasks, ...] = wire(Array(Struct(OwnedTasks)))
    standby_tasks: tuple[OwnedTasks, ...] = wire(Array(Struct(OwnedTasks)))
    warmup_tasks: tuple[OwnedTasks, ...] = wire(Array(Struct(OwnedTasks)))
    active_tasks_pending_revocation: tuple[OwnedTasks, ...] = wire(Array(Struct(OwnedTasks)))
    standby_tasks_pending_revocation: tuple[OwnedTasks, ...] = wire(Array(Struct(OwnedTasks)))
    warmup_tasks_pending_revocation: tuple[OwnedTasks, ...] = wire(Array(Struct(OwnedTasks)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo(Flexible):
    """An internal topic of a topology; 0 partitions or replicas = not fixed."""

    name: str = wire(STRING)
    partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    topic_configs: tuple[KeyValue, ...] = wire(Array(Struct(KeyValue)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CopartitionGroup(Flexible):
    """Indices, into the subtopology's lists, of topics that must have equally many partitions."""

    source_topics: tuple[int, ...] = wire(Array(INT16))
    source_topic_regex: tuple[int, ...] = wire(Array(INT16))
    repartition_source_topics: tuple[int, ...] = wire(Array(INT16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology(Flexible):
    """A connected part of a topology."""

    subtopology_id: str = wire(STRING)
    source_topics: tuple[str, ...] = wire(_STRINGS)
    source_topic_regex: tuple[str, ...] = wire(_STRINGS)
    state_changelog_topics: tuple[TopicInfo, ...] = wire(Array(Struct(TopicInfo)))
    repartition_sink_topics: tuple[str, ...] = wire(_STRINGS)
    repartition_source_topics: tuple[TopicInfo, ...] = wire(Array(Struct(TopicInfo)))
    copartition_groups: tuple[CopartitionGroup, ...] = wire(Array(Struct(CopartitionGroup)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTopologyValue(Value):
    """Type 23: the topology of a streams group."""

    epoch: int = wire(INT32)
    subtopologies: tuple[Subtopology, ...] = wire(Array(Struct(Subtopology)))
