"""The records of ``__consumer_offsets``: every type and version Kafka 4.3.1 reads or writes.

    keys          record types and keys
    schema        how a dataclass says its own layout
    engine        reading and writing by that description
    values        the values of all types
    records       one record at a time
    batch_keys    keys of many commits
    batch_fields  metadata and tagged fields of many commits
    batch         offset commits by the million

A record comes out as a `Record`, a `Tombstone` or an `Undecodable`.
"""

from counterpoise.wire.offsets_topic.keys import (
    GroupKey,
    Key,
    MemberKey,
    OffsetKey,
    RecordType,
    RegexKey,
    decode_key,
    encode_key,
)
from counterpoise.wire.offsets_topic.records import (
    VALUES,
    Decoded,
    Fault,
    Record,
    Tombstone,
    Undecodable,
    decode_record,
    decode_value,
    encode_value,
)
from counterpoise.wire.offsets_topic.values import ZERO_UUID, uuid_text

__all__ = [
    "VALUES",
    "ZERO_UUID",
    "Decoded",
    "Fault",
    "GroupKey",
    "Key",
    "MemberKey",
    "OffsetKey",
    "Record",
    "RecordType",
    "RegexKey",
    "Tombstone",
    "Undecodable",
    "decode_key",
    "decode_record",
    "decode_value",
    "encode_key",
    "encode_value",
    "uuid_text",
]
