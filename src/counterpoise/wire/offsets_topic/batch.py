"""Offset commits by the million: keys decoded once each, values by vectorised steps, nothing row by row.

What a row-wise decoder does field by field, this one does for all rows of one value version at a time, as long as a
row has a form that brokers write. Any other row (a very long varint, damage) goes to the row-wise decoder, so both always
agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.errors import WireError
from counterpoise.wire.columns import BinaryColumn, Bool, Int16, Int32, Int64, UInt8, gather, not_utf8
from counterpoise.wire.offsets_topic.batch_keys import NO_TYPE, KeyColumns
from counterpoise.wire.offsets_topic.keys import RecordType
from counterpoise.wire.offsets_topic.records import VALUES, Fault, decode_value
from counterpoise.wire.offsets_topic.values import ZERO_UUID, LegacyOffsetCommitValue, OffsetCommitValue

__all__ = ["CommitBatch", "KeyColumns", "decode_commits"]

_NEWEST = VALUES[RecordType.OFFSET_COMMIT].newest
_BLOCK = 1 << 14
"""Rows per step: what one step touches stays in the CPU's cache."""


@dataclass(frozen=True, eq=False)
class CommitBatch:
    """The commits of a batch of n rows, as columns of length C."""

    keys: KeyColumns  # Of the distinct keys
    fault: UInt8  # uint8[n]: a `Fault` per row of the batch; NONE also in rows of other record types, which are not decoded here
    # int64[n-C]: rows that are not in `row`, ascending: other types, and all that is malformed or unknown. The row-wise decoder
    # says what each one is; a row of types 0 and 1 among them comes out `Undecodable` with the same fault.
    rest: Int64
    row: Int64  # int64[C]: rows that are commits or commit tombstones, ascending
    key: Int32  # int32[C]: index into `keys`
    # record_type, version (int16[C]): 0 or 1; version of the value, -1 in a tombstone
    record_type: Int16
    version: Int16
    deleted: Bool  # bool[C]: tombstones; their numbers below are -1, their metadata is empty
    # offset, commit_timestamp, expire_timestamp (int64[C]): timestamps in ms, -1 = none
    offset: Int64
    leader_epoch: Int32  # int32[C]: -1 = unknown
    # metadata_start, metadata_length (int64[C]): slices of the value column's data, valid UTF-8 (see `pack_slices`)
    metadata_start: Int64
    metadata_length: Int64
    commit_timestamp: Int64
    expire_timestamp: Int64
    topic_id: UInt8  # uint8[C, 16]: zero if there is none
    has_topic_id: Bool  # bool[C]


def decode_commits(
    keys: KeyColumns,  # Of the distinct keys
    codes: Int32,  # int32[n]: index into `keys` for every row; -1 = the key is null
    values: BinaryColumn,  # n values; null = tombstone
) -> CommitBatch:
    """Decode the offset commits of a batch; never raises, whatever the bytes.

    `row` and `rest` together hold every row once. Equal to the row-wise decoder on every row.

    O(K + n), vectorised; rows in a form that brokers do not write cost a row-wise decoding each.
    """
    type_of_row = np.append(keys.record_type, np.int16(NO_TYPE))[codes]
    fault = np.append(keys.fault, np.uint8(Fault.NULL_KEY))[codes]
    commit = (fault == Fault.NONE) & (type_of_row >= 0) & (type_of_row <= RecordType.OFFSET_COMMIT)
    row = np.flatnonzero(commit)
    record_type = type_of_row if len(row) == len(codes) else type_of_row[row]
    table = _blank_table(len(row))
    for first in range(0, len(row), _BLOCK):
        block = slice(first, first + _BLOCK)
        _decode_values(values, row[block], record_type[block], {name: column[block] for name, column in table.items()})
    table["topic_id"] = table["topic_id"].view(np.uint8).reshape(-1, 16)
    fault[row] = table.pop("fault")
    if fault[row].any():
        sound = fault[row] == Fault.NONE
        commit[row[~sound]] = False
        row, record_type = row[sound], record_type[sound]
        table = {name: column[sound] for name, column in table.items()}
    return CommitBatch(
        keys=keys,
        fault=fault,
        rest=np.flatnonzero(~commit),
        row=row,
        key=codes[row].astype(np.int32, copy=False),
        record_type=record_type,
        **table,
    )


def _blank_table(n: int) -> dict[str, npt.NDArray[Any]]:
    """Columns of `CommitBatch` and a `fault`, as tombstones have them."""
    return {
        "fault": np.zeros(n, np.uint8),
        "version": np.full(n, -1, np.int16),
        "deleted": np.zeros(n, np.bool_),
        "offset": np.full(n, -1, np.int64),
        "leader_epoch": np.full(n, -1, np.int32),
        "metadata_start": np.zeros(n, np.int64),
        "metadata_length": np.zeros(n, np.int64),
        "commit_timestamp": np.full(n, -1, np.int64),
        "expire_timestamp": np.full(n, -1, np.int64),
        "topic_id": np.zeros(n, "V16"),
        "has_topic_id": np.zeros(n, np.bool_),
    }


def _decode_values(values: BinaryColumn, row: Int64, record_type: Int16, table: dict[str, npt.NDArray[Any]]) -> None:
    """Fill the blank table of some rows of types 0 and 1."""
    start, length = values.spans(row)
    version, fault, deleted = table["version"], table["fault"], table["deleted"]
    if values.valid is not None:
        deleted[:] = ~values.valid[row]
    fault[~deleted] = Fault.BAD_VALUE
    typed = ~deleted & (length >= 2)
    version[typed] = gather(values.data, ">i2", start[typed])
    newest = np.where(record_type == RecordType.OFFSET_COMMIT, _NEWEST, 0)
    known = typed & (version >= 0) & (version <= newest)
    fault[typed & ~known] = Fault.UNKNOWN_VERSION
    for number in range(_NEWEST + 1):
        members = np.flatnonzero(known & (version == number))
        if len(members):
            _decode_version(number, values.data, start, length, members, table)
    _settle_doubtful(values, row, record_type, np.flatnonzero(known & (fault == Fault.BAD_VALUE)), table)


def _decode_version(
    version: int, data: UInt8, start: Int64, length: Int64, at: Int64, table: dict[str, npt.NDArray[Any]]
) -> None:
    """Fill the rows `at`, all of one version, that have the usual form; the fault of the others stays."""
    head = 14 if version >= 3 else 10
    numbers = 16 if version == 1 else 8
    at = at[length[at] >= head + (1 if version >= 4 else 2) + numbers]
    metadata_start, metadata_length = _metadata_at(data, start[at] + head, compact=version >= 4)
    behind = metadata_start + metadata_length + numbers
    left = start[at] + length[at] - behind
    usual = (metadata_length >= 0) & (left >= 1 if version >= 4 else left == 0)
    at, metadata_start, metadata_length, behind, left = _select(usual, at, metadata_start, metadata_length, behind, left)
    if version >= 4:
        usual, id_start = _tags_at(data, behind, behind + left)
        at, metadata_start, metadata_length, behind, id_start = _select(
            usual, at, metadata_start, metadata_length, behind, id_start
        )
        tagged = np.flatnonzero(id_start >= 0)
        ids = gather(data, "V16", id_start[tagged])
        table["topic_id"][at[tagged]] = ids
        table["has_topic_id"][at[tagged]] = ids != np.void(ZERO_UUID)
    garbled = not_utf8(data, metadata_start, metadata_length)
    table["metadata_start"][at] = metadata_start
    table["metadata_length"][at] = metadata_length
    table["offset"][at] = gather(data, ">i8", start[at] + 2)
    if version >= 3:
        table["leader_epoch"][at] = gather(data, ">i4", start[at] + 10)
    table["commit_timestamp"][at] = gather(data, ">i8", behind - numbers)
    if version == 1:
        table["expire_timestamp"][at] = gather(data, ">i8", behind - 8)
    table["fault"][at[~garbled]] = Fault.NONE


def _metadata_at(data: UInt8, at: Int64, *, compact: bool) -> tuple[Int64, Int64]:
    """Start and length of the metadata strings whose length stands at `at`; length -1: null, or left to the row-wise decoder."""
    if not compact:
        return at + 2, gather(data, ">i2", at).astype(np.int64)
    first = data[at].astype(np.int64)
    start, length = at + 1, first - 1
    wide = np.flatnonzero(first >= 0x80)
    if len(wide):
        # Two or three bytes; at least eight bytes of timestamp follow, so they are there.
        second, third = data[at[wide] + 1].astype(np.int64), data[at[wide] + 2].astype(np.int64)
        two = second < 0x80
        start[wide] += np.where(two, 1, 2)
        number = (first[wide] & 0x7F) | (second & 0x7F) << 7 | np.where(two, 0, third << 14)
        length[wide] = np.where(two | (third < 0x80), number - 1, -1)
    return start, length


def _tags_at(data: UInt8, cursor: Int64, end: Int64) -> tuple[Bool, Int64]:
    """Tagged fields from `cursor` to `end`: sound ones, and where the topic id is (-1: none).

    Blocks in which a varint has more than one byte are not sound here: they are left to the row-wise decoder.
    """
    count = data[cursor]
    sound = count < 0x80
    cursor, last, id_start = cursor + 1, np.full(len(end), -1, np.int64), np.full(len(end), -1, np.int64)
    for number in range(128):
        open_ = np.flatnonzero(sound & (number < count))
        if not len(open_):
            break
        here = cursor[open_]
        fits = here + 2 <= end[open_]
        tag, size = (data[np.where(fits, here + each, 0)].astype(np.int64) for each in (0, 1))
        fits &= (tag < 0x80) & (size < 0x80) & (tag > last[open_]) & (here + 2 + size <= end[open_])
        fits &= (tag != 0) | (size == len(ZERO_UUID))
        id_start[open_[fits & (tag == 0)]] = here[fits & (tag == 0)] + 2
        sound[open_], last[open_], cursor[open_] = fits, tag, here + 2 + size
    return sound & (cursor == end), id_start


def _settle_doubtful(
    values: BinaryColumn, row: Int64, record_type: Int16, doubtful: Int64, table: dict[str, npt.NDArray[Any]]
) -> None:
    """Rows of a known version without the usual form: the row-wise decoder decides, one row at a time."""
    for at in doubtful.tolist():
        raw = values.row(int(row[at])) or b""
        try:
            _, value = decode_value(RecordType(int(record_type[at])), raw)
        except WireError:
            continue
        assert isinstance(value, OffsetCommitValue | LegacyOffsetCommitValue)
        text = value.metadata.encode()
        head = 14 if table["version"][at] >= 3 else 10
        found = raw.index(text, head)
        table["fault"][at] = Fault.NONE
        table["offset"][at] = value.offset
        table["commit_timestamp"][at] = value.commit_timestamp
        table["metadata_start"][at] = int(values.offsets[row[at]]) + found
        table["metadata_length"][at] = len(text)
        if isinstance(value, OffsetCommitValue):
            table["leader_epoch"][at] = value.leader_epoch
            table["expire_timestamp"][at] = value.expire_timestamp
            table["topic_id"][at] = np.void(value.topic_id)
            table["has_topic_id"][at] = value.topic_id != ZERO_UUID


def _select(mask: Bool, *columns: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    """The masked rows of each column; the columns themselves if all are."""
    return columns if mask.all() else tuple(column[mask] for column in columns)
