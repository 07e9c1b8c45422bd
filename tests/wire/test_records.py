"""Every record of a real cluster, the documented examples, and what a damaged or unknown record becomes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from counterpoise.errors import WireError
from counterpoise.wire.consumer_protocol import Assignment, Subscription, decode_assignment, decode_subscription
from counterpoise.wire.offsets_topic import values as v
from counterpoise.wire.offsets_topic.keys import GroupKey, MemberKey, OffsetKey, RecordType, RegexKey, encode_key
from counterpoise.wire.offsets_topic.records import (
    Fault,
    Record,
    Tombstone,
    Undecodable,
    decode_record,
    decode_value,
    encode_value,
)
from counterpoise.wire.offsets_topic.values import uuid_text

SHOP = Path(__file__).resolve().parents[2] / "examples" / "shop" / "consumer_offsets.parquet"

# Records and tombstones per type, as counted by an independent decoder.
COUNTS = {
    1: (23844, 48), 2: (156, 2), 3: (11, 0), 5: (7, 3), 6: (11, 0), 7: (18, 3), 8: (37, 3), 10: (2, 1), 11: (4, 0),
    12: (4, 0), 13: (5, 1), 14: (5, 1), 15: (2, 0), 16: (6, 0),
}  # fmt: skip


def shop_records() -> list[tuple[bytes, bytes | None]]:
    table = pq.read_table(SHOP, columns=["key", "value"]).to_pydict()
    return list(zip(table["key"], table["value"], strict=True))


def test_every_record_of_the_capture_decodes_and_is_written_with_the_same_bytes() -> None:
    values: Counter[int] = Counter()
    tombstones: Counter[int] = Counter()
    for key, value in shop_records():
        found = decode_record(key, value)
        assert not isinstance(found, Undecodable), found
        assert encode_key(found.record_type, found.key) == key
        if isinstance(found, Tombstone):
            assert value is None
            tombstones[int(found.record_type)] += 1
        else:
            assert encode_value(found.record_type, found.value, found.version) == value
            values[int(found.record_type)] += 1
    assert {number: (values[number], tombstones[number]) for number in values | tombstones} == COUNTS


def test_every_subscription_and_assignment_of_the_capture_decodes() -> None:
    subscriptions: Counter[int] = Counter()
    for key, value in shop_records():
        if value is None or key[:2] != b"\x00\x02":
            continue
        _, group = decode_value(RecordType.GROUP_METADATA, value)
        assert isinstance(group, v.GroupMetadataValue)
        if group.protocol_type != "consumer":
            continue
        for member in group.members:
            subscriptions[decode_subscription(member.subscription).version] += 1
            assert isinstance(decode_assignment(member.assignment), Assignment)
    assert set(subscriptions) == {0, 1, 3}


TOPIC_ID = bytes.fromhex("e8b036de441f4588becdeebb7f099ca6")
CATALOG_MEMBER = MemberKey("catalog-watcher", "eP4OZhz7S5-xwfoJc_7HqA")
EXAMPLES = [
    pytest.param(
        "0001000863726d2d73796e63001873686f702e637573746f6d65725f70726f66696c652e763200000003",
        "00040000000000000021ffffffff1f686f73743d63726d2d323b62617463683d303b6f72743d5ac3bc72696368000001a1fc45f002010010"
        "e8b036de441f4588becdeebb7f099ca6",
        Record(
            RecordType.OFFSET_COMMIT,
            OffsetKey("crm-sync", "shop.customer_profile.v2", 3),
            v.OffsetCommitValue(
                offset=33, metadata="host=crm-2;batch=0;ort=Zürich", commit_timestamp=1795233804290, topic_id=TOPIC_ID
            ),
            4,
        ),
        id="OffsetCommit v4 with topic id and UTF-8 metadata",
    ),
    pytest.param(
        "0001000a736574746c656d656e740009736869706d656e747300000006",
        "0004000000000000006e0000000001000001a1fc4653f500",
        Record(
            RecordType.OFFSET_COMMIT,
            OffsetKey("settlement", "shipments", 6),
            v.OffsetCommitValue(offset=110, leader_epoch=0, metadata="", commit_timestamp=1795233829877),
            4,
        ),
        id="transactional OffsetCommit v4",
    ),
    pytest.param(
        "0001000f72657475726e732d68616e646c6572000772657475726e7300000000",
        None,
        Tombstone(RecordType.OFFSET_COMMIT, OffsetKey("returns-handler", "returns", 0)),
        id="commit tombstone",
    ),
    pytest.param(
        "000200086d61696c2d6f7574",
        "0003000000000000ffffffff000001a1fc45eaba00000000",
        Record(
            RecordType.GROUP_METADATA,
            GroupKey("mail-out"),
            v.GroupMetadataValue(
                protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=1795233802938, members=()
            ),
            3,
        ),
        id="birth of a classic group",
    ),
    pytest.param(
        "0005000f636174616c6f672d7761746368657200166550344f5a687a3753352d7877666f4a635f37487141",
        "000000000563772d310b2f3132372e302e302e3101132873686f707c636174616c6f67295c2e2e2a0000ea600001000100",
        Record(
            RecordType.CONSUMER_GROUP_MEMBER_METADATA,
            CATALOG_MEMBER,
            v.ConsumerGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                client_id="cw-1",
                client_host="/127.0.0.1",
                subscribed_topic_names=(),
                subscribed_topic_regex="(shop|catalog)\\..*",
                rebalance_timeout_ms=60000,
                server_assignor=None,
            ),
            0,
        ),
        id="ConsumerGroupMemberMetadata",
    ),
    pytest.param(
        "00050009666c6565742d617069002c666c6565742d332d37303439333062332d633864612d343232312d393535302d363332323838643833323037",
        "0000000008666c6565742d330b2f3132372e302e302e31020e74656c656d657472792e726177010000ea600001006a01000027100213636f6f70"
        "657261746976652d737469636b794f000300000001000d74656c656d657472792e726177000000040000000300000001000d74656c656d657472"
        "792e726177000000050000000a0000000c0000000d0000000e0000000f00000003ffff0000",
        Record(
            RecordType.CONSUMER_GROUP_MEMBER_METADATA,
            MemberKey("fleet-api", "fleet-3-704930b3-c8da-4221-9550-632288d83207"),
            v.ConsumerGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                client_id="fleet-3",
                client_host="/127.0.0.1",
                subscribed_topic_names=("telemetry.raw",),
                subscribed_topic_regex="",
                rebalance_timeout_ms=60000,
                server_assignor=None,
                classic_member_metadata=v.ClassicMemberMetadata(
                    session_timeout_ms=10000,
                    supported_protocols=(
                        v.ClassicProtocol(
                            name="cooperative-sticky",
                            metadata=bytes.fromhex(
                                "000300000001000d74656c656d657472792e726177000000040000000300000001000d74656c656d65747279"
                                "2e726177000000050000000a0000000c0000000d0000000e0000000f00000003ffff"
                            ),
                        ),
                    ),
                ),
            ),
            0,
        ),
        id="ConsumerGroupMemberMetadata of a classic member",
    ),
    pytest.param(
        "0003000f636174616c6f672d77617463686572",
        "000000000002010008dbf8e228bb95e48d",
        Record(
            RecordType.CONSUMER_GROUP_METADATA,
            GroupKey("catalog-watcher"),
            v.ConsumerGroupMetadataValue(epoch=2, metadata_hash=0xDBF8E228BB95E48D - 2**64),
            0,
        ),
        id="ConsumerGroupMetadata",
    ),
    pytest.param(
        "0007000f636174616c6f672d7761746368657200166550344f5a687a3753352d7877666f4a635f37487141",
        "000002e8b036de441f4588becdeebb7f099ca605000000000000000100000002000000030000",
        Record(
            RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
            CATALOG_MEMBER,
            v.TargetAssignmentMemberValue(topic_partitions=(v.TopicPartitionIds(topic_id=TOPIC_ID, partitions=(0, 1, 2, 3)),)),
            0,
        ),
        id="ConsumerGroupTargetAssignmentMember",
    ),
    pytest.param(
        "0008000f636174616c6f672d7761746368657200166550344f5a687a3753352d7877666f4a635f37487141",
        "000000000002000000010002e8b036de441f4588becdeebb7f099ca60500000000000000010000000200000003010011050000000200000002"
        "00000002000000020100",
        Record(
            RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
            CATALOG_MEMBER,
            v.ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=2,
                previous_member_epoch=1,
                state=0,
                assigned_partitions=(
                    v.AssignedTopic(topic_id=TOPIC_ID, partitions=(0, 1, 2, 3), assignment_epochs=(2, 2, 2, 2)),
                ),
                partitions_pending_revocation=(),
            ),
            0,
        ),
        id="ConsumerGroupCurrentMemberAssignment",
    ),
    pytest.param(
        "00040009666c6565742d617069",
        None,
        Tombstone(RecordType.CONSUMER_GROUP_PARTITION_METADATA, GroupKey("fleet-api")),
        id="ConsumerGroupPartitionMetadata tombstone",
    ),
    pytest.param(
        "0010000f636174616c6f672d7761746368657200122873686f707c636174616c6f67295c2e2e2a",
        "0000021973686f702e637573746f6d65725f70726f66696c652e763200000000000000a7000001a1fc45d55d00",
        Record(
            RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION,
            RegexKey("catalog-watcher", "(shop|catalog)\\..*"),
            v.ConsumerGroupRegularExpressionValue(topics=("shop.customer_profile.v2",), version=167, timestamp=1795233797469),
            0,
        ),
        id="ConsumerGroupRegularExpression",
    ),
]


@pytest.mark.parametrize(("key", "value", "expected"), EXAMPLES)
def test_documented_example(key: str, value: str | None, expected: Record | Tombstone) -> None:
    raw = None if value is None else bytes.fromhex(value)
    assert decode_record(bytes.fromhex(key), raw) == expected
    assert encode_key(expected.record_type, expected.key).hex() == key
    if isinstance(expected, Record):
        assert encode_value(expected.record_type, expected.value, expected.version).hex() == value


def test_documented_example_of_a_generation_with_one_cooperative_member() -> None:
    value = (
        "00030008636f6e73756d6572000000010012636f6f70657261746976652d737469636b79003163616368652d6a6176612d312d3161383738"
        "3166322d333538362d343962312d396466332d383964303633633861316165000001a1fc462d9500000001003163616368652d6a6176612d"
        "312d31613837383166322d333538362d343962312d396466332d383964303633633861316165ffff000c63616368652d6a6176612d31000a"
        "2f3132372e302e302e310000ea60000027100000002000030000000100066f726465727300000004ffffffff00000000ffffffffffff0000"
        "004600030000000100066f72646572730000000c000000000000000100000002000000030000000400000005000000060000000700000008"
        "000000090000000a0000000bffffffff"
    )
    version, group = decode_value(RecordType.GROUP_METADATA, bytes.fromhex(value))
    assert isinstance(group, v.GroupMetadataValue)
    assert (version, group.protocol, group.generation, group.leader) == (
        3, "cooperative-sticky", 1, "cache-java-1-1a8781f2-3586-49b1-9df3-89d063c8a1ae",
    )  # fmt: skip
    (member,) = group.members
    assert (member.client_host, member.rebalance_timeout, member.session_timeout) == ("/127.0.0.1", 60000, 10000)
    assert decode_subscription(member.subscription) == Subscription(("orders",), b"\xff\xff\xff\xff")
    assert decode_assignment(member.assignment) == Assignment((("orders", tuple(range(12))),))
    assert encode_value(RecordType.GROUP_METADATA, group, 3).hex() == value


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, "0000 0000000000000007 0001 6d 0000000000000009"),
        (1, "0001 0000000000000007 0001 6d 0000000000000009 000000000000000b"),
        (2, "0002 0000000000000007 0001 6d 0000000000000009"),
        (3, "0003 0000000000000007 00000003 0001 6d 0000000000000009"),
        (4, "0004 0000000000000007 00000003 02 6d 0000000000000009 00"),
    ],
)
def test_an_offset_commit_in_every_version(version: int, expected: str) -> None:
    value = v.OffsetCommitValue(offset=7, leader_epoch=3, metadata="m", commit_timestamp=9, expire_timestamp=11)
    assert encode_value(RecordType.OFFSET_COMMIT, value, version).hex() == expected.replace(" ", "")


@pytest.mark.parametrize(
    ("version", "head", "member"),
    [
        (0, "0000 0001 70 00000005 0001 72 ffff", "00000001 0001 61 0001 63 0001 68 0000000a 00000001 01 00000000"),
        (1, "0001 0001 70 00000005 0001 72 ffff", "00000001 0001 61 0001 63 0001 68 0000000b 0000000a 00000001 01 00000000"),
        (
            2,
            "0002 0001 70 00000005 0001 72 ffff 000000000000000c",
            "00000001 0001 61 0001 63 0001 68 0000000b 0000000a 00000001 01 00000000",
        ),
        (
            3,
            "0003 0001 70 00000005 0001 72 ffff 000000000000000c",
            "00000001 0001 61 0001 69 0001 63 0001 68 0000000b 0000000a 00000001 01 00000000",
        ),
        (4, "0004 02 70 00000005 02 72 00 000000000000000c", "02 02 61 02 69 02 63 02 68 0000000b 0000000a 02 01 01 00 00"),
    ],
)
def test_a_generation_in_every_version(version: int, head: str, member: str) -> None:
    one = v.GroupMember(
        member_id="a", group_instance_id="i", client_id="c", client_host="h", rebalance_timeout=11, session_timeout=10,
        subscription=b"\x01", assignment=b"",
    )  # fmt: skip
    value = v.GroupMetadataValue(
        protocol_type="p", generation=5, protocol="r", leader=None, current_state_timestamp=12, members=(one,)
    )
    assert encode_value(RecordType.GROUP_METADATA, value, version).hex() == (head + member).replace(" ", "")


def test_ids_are_written_as_kafka_writes_them() -> None:
    assert uuid_text(bytes.fromhex("cbca745d5cc24332a350b648aaa43cdd")) == "y8p0XVzCQzKjULZIqqQ83Q"


KEY = encode_key(RecordType.OFFSET_COMMIT, OffsetKey("g", "t", 0))
VALUE = encode_value(RecordType.OFFSET_COMMIT, v.OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9), 4)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        pytest.param(None, VALUE, (None, None, Fault.NULL_KEY, "the key is null"), id="null key"),
        pytest.param(b"", VALUE, (None, 4, Fault.BAD_KEY, "record_type: needs 2 bytes"), id="empty key"),
        pytest.param(b"\x00\x09\x00\x01g", None, (9, None, Fault.UNKNOWN_TYPE, "record type 9 is not known"), id="type 9"),
        pytest.param(b"\x00\x18\x00\x01g", b"\x00\x01", (24, 1, Fault.UNKNOWN_TYPE, "type 24 is not known"), id="type 24"),
        pytest.param(b"\xff\xff", None, (-1, None, Fault.UNKNOWN_TYPE, "type -1 is not known"), id="negative type"),
        pytest.param(KEY[:-1], VALUE, (1, 4, Fault.BAD_KEY, "partition: needs 4 bytes, 3 are left"), id="short key"),
        pytest.param(KEY + b"\x00", VALUE, (1, 4, Fault.BAD_KEY, "1 bytes follow the last field"), id="long key"),
        pytest.param(b"\x00\x02\xff\xff", None, (2, None, Fault.BAD_KEY, "group: null is not allowed"), id="null group"),
        pytest.param(b"\x00\x02\x00\x01\xff", None, (2, None, Fault.BAD_KEY, "group: not UTF-8"), id="group that is not UTF-8"),
        pytest.param(KEY, b"", (1, None, Fault.BAD_VALUE, "version: needs 2 bytes"), id="empty value"),
        pytest.param(KEY, b"\x00\x05", (1, 5, Fault.UNKNOWN_VERSION, "version 5 of record type 1 is not known"), id="version 5"),
        pytest.param(KEY, b"\xff\xff", (1, -1, Fault.UNKNOWN_VERSION, "version -1 of record type 1"), id="version -1"),
        pytest.param(KEY, VALUE[:-1], (1, 4, Fault.BAD_VALUE, "tags: varint ends in the middle"), id="cut value"),
        pytest.param(KEY, VALUE + b"\x00", (1, 4, Fault.BAD_VALUE, "1 bytes follow the last field"), id="long value"),
        pytest.param(KEY, VALUE[:-1] + b"\x01\x00\x02ab", (1, 4, Fault.BAD_VALUE, "topic_id: needs 16 bytes"), id="short tag"),
        pytest.param(
            KEY,
            VALUE[:-1] + b"\x01\x00\x11" + b"i" * 17,
            (1, 4, Fault.BAD_VALUE, "1 bytes follow"),
            id="tag with a byte too many",
        ),
        pytest.param(
            KEY, VALUE[:-1] + b"\x02\x05\x00\x03\x00", (1, 4, Fault.BAD_VALUE, "tag 3 follows tag 5"), id="falling tags"
        ),
        pytest.param(
            KEY, VALUE[:-1] + b"\xff\xff\xff\xff\x1f", (1, 4, Fault.BAD_VALUE, "exceeds 32 bits"), id="varint beyond 32 bits"
        ),
        pytest.param(KEY, VALUE[:-1] + b"\x80" * 6, (1, 4, Fault.BAD_VALUE, "longer than 5 bytes"), id="endless varint"),
    ],
)
def test_an_undecodable_record_says_what_and_why(
    key: bytes | None, value: bytes | None, expected: tuple[int | None, int | None, Fault, str]
) -> None:
    found = decode_record(key, value)
    assert isinstance(found, Undecodable)
    assert (found.record_type, found.value_version, found.fault) == expected[:3]
    assert expected[3] in found.reason


def test_unknown_tagged_fields_are_kept_and_written_again() -> None:
    raw = VALUE[:-1] + b"\x01\x05\x03new"
    version, value = decode_value(RecordType.OFFSET_COMMIT, raw)
    assert value == v.OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9, unknown_tags=((5, b"new"),))
    assert encode_value(RecordType.OFFSET_COMMIT, value, version) == raw


def test_a_struct_is_marked_present_or_absent_by_nothing_else() -> None:
    member = v.StreamsGroupMemberMetadataValue(
        instance_id=None, rack_id=None, client_id="", client_host="", rebalance_timeout_ms=0, topology_epoch=0, process_id="",
        user_endpoint=None, client_tags=(),
    )  # fmt: skip
    raw = encode_value(RecordType.STREAMS_GROUP_MEMBER_METADATA, member, 0)
    assert raw.endswith(b"\xff\x01\x00")
    tagged = encode_value(
        RecordType.CONSUMER_GROUP_MEMBER_METADATA,
        v.ConsumerGroupMemberMetadataValue(
            instance_id=None, rack_id=None, client_id="", client_host="", subscribed_topic_names=(), subscribed_topic_regex=None,
            rebalance_timeout_ms=0, server_assignor=None,
        ),
        0,
    )  # fmt: skip
    assert tagged.endswith(b"\x01\x00\x01\x00"), "one tag, tag 0, of one byte: no struct"
    for record_type, wrong in (
        (RecordType.STREAMS_GROUP_MEMBER_METADATA, raw[:-3] + b"\x00" + raw[-2:]),
        (RecordType.STREAMS_GROUP_MEMBER_METADATA, raw[:-3] + b"\x02" + raw[-2:]),
        (RecordType.CONSUMER_GROUP_MEMBER_METADATA, tagged[:-1] + b"\x02"),
    ):
        with pytest.raises(WireError, match="marks neither a present nor an absent struct"):
            decode_value(record_type, wrong)


@pytest.mark.parametrize(
    ("record_type", "value", "version", "reason"),
    [
        (RecordType.OFFSET_COMMIT, v.OffsetCommitValue(offset=2**63, metadata="", commit_timestamp=0), 4, "does not fit 8 bytes"),
        (RecordType.OFFSET_COMMIT, v.OffsetCommitValue(offset=0, metadata="", commit_timestamp=0), 5, "5 of record type 1"),
        (RecordType.OFFSET_COMMIT, v.ConsumerGroupMetadataValue(epoch=1), 0, "is not the value of record type 1"),
        (
            RecordType.OFFSET_COMMIT,
            v.OffsetCommitValue(offset=0, metadata="x" * 40000, commit_timestamp=0),
            0,
            "exceed the 32767",
        ),
        (RecordType.OFFSET_COMMIT, v.OffsetCommitValue(offset=0, metadata="\ud800", commit_timestamp=0), 4, "lone surrogate"),
        (RecordType.OFFSET_COMMIT, v.OffsetCommitValue(offset=0, metadata="", commit_timestamp=0, topic_id=b"x"), 4, "16 bytes"),
    ],
)
def test_a_value_that_does_not_fit_is_not_written(record_type: RecordType, value: v.Value, version: int, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        encode_value(record_type, value, version)


def test_a_key_of_another_type_is_not_written() -> None:
    with pytest.raises(WireError, match="GroupKey is not the key of record type 1"):
        encode_key(RecordType.OFFSET_COMMIT, GroupKey("g"))
