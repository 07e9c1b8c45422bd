"""Distinct keys of a batch, decoded as far as offset commits need them, in vectorised steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.wire.columns import BinaryColumn, Int16, Int32, Int64, UInt8, gather, not_utf8
from counterpoise.wire.offsets_topic.keys import RecordType
from counterpoise.wire.offsets_topic.records import Fault

__all__ = ["NO_TYPE", "KeyColumns", "decode_keys"]

NO_TYPE = -1
"""Record type of a key that has none."""


@dataclass(frozen=True, eq=False)
class KeyColumns:
    """Distinct keys, decoded as far as commits need them."""

    record_type: Int16  # int16[K]: -1 if the key is null or has no two bytes
    fault: UInt8  # uint8[K]: a `Fault`; of keys that are no commits only the type is checked
    # group_start, group_length, topic_start, topic_length (int64[K]): slices of the key column's data, valid UTF-8; 0 if the key
    # is no sound commit key
    group_start: Int64
    group_length: Int64
    topic_start: Int64
    topic_length: Int64
    partition: Int32  # int32[K]


def decode_keys(keys: BinaryColumn) -> KeyColumns:
    """Decode the distinct keys of a batch; O(K) vectorised; never raises."""
    start, length = keys.spans(np.arange(len(keys)))
    valid = np.ones(len(keys), np.bool_) if keys.valid is None else keys.valid
    typed = valid & (length >= 2)
    record_type = np.full(len(keys), NO_TYPE, np.int16)
    record_type[typed] = gather(keys.data, ">i2", start[typed])
    fault = np.where(valid, np.where(typed, Fault.NONE, Fault.BAD_KEY), Fault.NULL_KEY).astype(np.uint8)
    fault[typed & ~np.isin(record_type, list(RecordType))] = Fault.UNKNOWN_TYPE
    commit = np.flatnonzero((fault == Fault.NONE) & (record_type <= RecordType.OFFSET_COMMIT))
    fault[commit] = Fault.BAD_KEY
    spans = np.zeros((4, len(keys)), np.int64)
    partition = np.zeros(len(keys), np.int32)
    commit = commit[length[commit] >= 10]
    group_length = gather(keys.data, ">i2", start[commit] + 2).astype(np.int64)
    fits = (group_length >= 0) & (group_length + 10 <= length[commit])
    commit, group_length = commit[fits], group_length[fits]
    group_start = start[commit] + 4
    topic_length = gather(keys.data, ">i2", group_start + group_length).astype(np.int64)
    fits = (topic_length >= 0) & (group_length + topic_length + 10 == length[commit])
    commit, group_start, group_length, topic_length = (each[fits] for each in (commit, group_start, group_length, topic_length))
    topic_start = group_start + group_length + 2
    partition[commit] = gather(keys.data, ">i4", topic_start + topic_length)
    garbled = not_utf8(keys.data, group_start, group_length) | not_utf8(keys.data, topic_start, topic_length)
    spans[:, commit] = group_start, group_length, topic_start, topic_length
    spans[:, commit[garbled]] = 0
    fault[commit[~garbled]] = Fault.NONE
    return KeyColumns(record_type, fault, spans[0], spans[1], spans[2], spans[3], partition)
