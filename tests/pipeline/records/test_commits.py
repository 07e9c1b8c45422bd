"""The commit kernel on Arrow batches: every column, odd rows and slices."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from counterpoise.wire.offsets_topic.keys import OffsetKey, RecordType, encode_key
from counterpoise.wire.offsets_topic.records import encode_value
from counterpoise.wire.offsets_topic.values import OffsetCommitValue, uuid_text
from tests.pipeline.rows import commit_batch, undecided

STAMP = datetime(2026, 1, 1, tzinfo=UTC)
ID = bytes(range(16))


def batch(rows: list[tuple[bytes | None, bytes | None]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"key": key, "value": value, "partition": 3, "offset": at, "timestamp": STAMP} for at, (key, value) in enumerate(rows)],
        schema=pa.schema(
            [
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("partition", pa.int32()),
                ("offset", pa.int64()),
                ("timestamp", pa.timestamp("us", tz="UTC")),
            ]
        ),
    )


def key(group: str = "g", topic: str = "t", partition: int = 0) -> bytes:
    return encode_key(RecordType.OFFSET_COMMIT, OffsetKey(group, topic, partition))


def value(version: int = 4, **changes: object) -> bytes:
    fields: dict[str, object] = {"offset": 7, "leader_epoch": 2, "metadata": "note", "commit_timestamp": 1_767_225_600_000}
    fields |= {"expire_timestamp": 1_767_225_700_000} if version == 1 else {}
    fields |= {"topic_id": ID} if version == 4 else {}
    return encode_value(RecordType.OFFSET_COMMIT, OffsetCommitValue(**{**fields, **changes}), version)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_version_fills_its_columns(version: int) -> None:
    (row,) = commit_batch(batch([(key("groupe é", "t", 9), value(version))])).to_pylist()
    assert row == {
        "log_partition": 3,
        "log_offset": 0,
        "log_ts": STAMP,
        "group_id": "groupe é",
        "topic": "t",
        "partition": 9,
        "committed_offset": 7,
        "leader_epoch": 2 if version >= 3 else -1,
        "metadata": "note",
        "commit_ts": datetime(2026, 1, 1, tzinfo=UTC),
        "expire_ts": datetime(2026, 1, 1, 0, 1, 40, tzinfo=UTC) if version == 1 else None,
        "topic_id": uuid_text(ID) if version == 4 else None,
        "value_version": version,
        "deleted": False,
    }


def test_a_tombstone_has_a_key_and_nothing_else() -> None:
    (row,) = commit_batch(batch([(key(), None)])).to_pylist()
    assert row["deleted"]
    assert {name for name, cell in row.items() if cell is None} == {
        "committed_offset",
        "leader_epoch",
        "metadata",
        "commit_ts",
        "expire_ts",
        "topic_id",
        "value_version",
    }


def test_rows_that_cannot_be_decoded_are_left_out_and_undecided() -> None:
    raw = batch([(key(), value()), (key(), b"\x00\x63"), (b"\x00", None), (key(), value(4, offset=8))])
    rows = commit_batch(raw).to_pylist()
    assert [(row["log_offset"], row["group_id"], row["committed_offset"]) for row in rows] == [(0, "g", 7), (3, "g", 8)]
    assert undecided(raw).tolist() == [1, 2]


def test_a_time_that_no_calendar_has_is_null() -> None:
    (row,) = commit_batch(batch([(key(), value(4, commit_timestamp=2**62))])).to_pylist()
    assert row["commit_ts"] is None
    assert row["committed_offset"] == 7


def test_no_rows_at_all() -> None:
    assert commit_batch(batch([])).num_rows == 0


def test_a_slice_decodes_as_the_same_rows_of_the_whole(raw: pa.RecordBatch) -> None:
    whole = commit_batch(raw).to_pylist()
    by_place = {(row["log_partition"], row["log_offset"]): row for row in whole}
    part = commit_batch(raw.slice(1234, 777))
    assert part.num_rows == 777 - len(undecided(raw.slice(1234, 777))) > 0
    for row in part.to_pylist():
        assert row == by_place[row["log_partition"], row["log_offset"]]


def test_the_order_of_rows_does_not_matter(raw: pa.RecordBatch) -> None:
    some = raw.slice(5000, 400)
    order = list(range(400))
    random.Random(7).shuffle(order)
    shuffled = commit_batch(some.take(pa.array(order))).to_pylist()
    place = [(row["log_partition"], row["log_offset"]) for row in shuffled]
    expected = {(row["log_partition"], row["log_offset"]): row for row in commit_batch(some).to_pylist()}
    assert [expected[at] for at in place] == shuffled


def test_other_records_are_left_undecided(raw: pa.RecordBatch) -> None:
    kinds = [raw.column("key")[int(at)].as_py()[:2] for at in undecided(raw)]
    assert len(kinds) == 24174 - 23892
    assert b"\x00\x01" not in kinds
