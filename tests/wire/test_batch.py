"""The batch decoder of commits says of every row exactly what the row-wise decoder says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from counterpoise.wire.columns import BinaryColumn, not_utf8, pack_slices
from counterpoise.wire.offsets_topic import batch as batch_module
from counterpoise.wire.offsets_topic.batch import CommitBatch, decode_commits
from counterpoise.wire.offsets_topic.batch_keys import decode_keys
from counterpoise.wire.offsets_topic.keys import OffsetKey, RecordType, encode_key
from counterpoise.wire.offsets_topic.records import Fault, Record, Tombstone, Undecodable, decode_record, encode_value
from counterpoise.wire.offsets_topic.values import ZERO_UUID, LegacyOffsetCommitValue, OffsetCommitValue
from tests.wire.strategies import bent, raw_records, texts, typed_values, versions

SHOP = Path(__file__).resolve().parents[2] / "examples" / "shop" / "consumer_offsets.parquet"
COMMIT_VERSIONS = st.sampled_from([(RecordType.OFFSET_COMMIT_LEGACY, 0), *((RecordType.OFFSET_COMMIT, n) for n in range(5))])

Row = tuple[bytes | None, bytes | None]


def decode(rows: list[Row]) -> tuple[CommitBatch, BinaryColumn, BinaryColumn]:
    distinct = sorted({key for key, _ in rows if key is not None})
    codes = np.array([-1 if key is None else distinct.index(key) for key, _ in rows], np.int32)
    keys, values = column(pa.array(distinct, pa.binary())), column(pa.array([value for _, value in rows], pa.binary()))
    return decode_commits(decode_keys(keys), codes, values), keys, values


def assert_equals_row_wise(rows: list[Row], batch: CommitBatch, keys: BinaryColumn, values: BinaryColumn) -> None:
    assert sorted([*batch.row.tolist(), *batch.rest.tolist()]) == list(range(len(rows)))
    at_of_row = {row: at for at, row in enumerate(batch.row.tolist())}
    for number, (key, value) in enumerate(rows):
        found = decode_record(key, value)
        if isinstance(found, Undecodable):
            assert number not in at_of_row, found
            judged = found.record_type in (None, 0, 1) or found.fault is Fault.UNKNOWN_TYPE
            assert batch.fault[number] == (found.fault if judged else Fault.NONE)
            continue
        assert batch.fault[number] == Fault.NONE
        assert (number in at_of_row) == (found.record_type <= 1)
        if found.record_type <= 1:
            assert_same_commit(found, batch, at_of_row[number], keys, values)


def assert_same_commit(found: Record | Tombstone, batch: CommitBatch, at: int, keys: BinaryColumn, values: BinaryColumn) -> None:
    assert isinstance(found.key, OffsetKey)
    code = int(batch.key[at])

    def slice_of(column: BinaryColumn, start: np.ndarray, length: np.ndarray, index: int) -> str:
        return column.data[start[index] : start[index] + length[index]].tobytes().decode()

    group = slice_of(keys, batch.keys.group_start, batch.keys.group_length, code)
    topic = slice_of(keys, batch.keys.topic_start, batch.keys.topic_length, code)
    assert OffsetKey(group, topic, int(batch.keys.partition[code])) == found.key
    assert batch.record_type[at] == found.record_type
    assert bool(batch.deleted[at]) == isinstance(found, Tombstone)
    value = found.value if isinstance(found, Record) else OffsetCommitValue(offset=-1, metadata="", commit_timestamp=-1)
    assert isinstance(value, OffsetCommitValue | LegacyOffsetCommitValue)
    whole = value if isinstance(value, OffsetCommitValue) else OffsetCommitValue(
        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
    )  # fmt: skip
    assert batch.version[at] == (found.version if isinstance(found, Record) else -1)
    assert batch.offset[at] == whole.offset
    assert batch.leader_epoch[at] == whole.leader_epoch
    assert slice_of(values, batch.metadata_start, batch.metadata_length, at) == whole.metadata
    assert batch.commit_timestamp[at] == whole.commit_timestamp
    assert batch.expire_timestamp[at] == whole.expire_timestamp
    assert batch.topic_id[at].tobytes() == whole.topic_id
    assert bool(batch.has_topic_id[at]) == (whole.topic_id != ZERO_UUID)


@given(st.lists(raw_records(COMMIT_VERSIONS), max_size=8))
def test_valid_commits_of_all_versions(rows: list[Row]) -> None:
    batch, keys, values = decode(rows)
    assert len(batch.row) == len(rows)
    assert_equals_row_wise(rows, batch, keys, values)


@given(st.data(), st.lists(raw_records(COMMIT_VERSIONS | versions), max_size=8))
def test_damaged_and_foreign_rows(data: st.DataObject, whole: list[Row]) -> None:
    rows: list[Row] = []
    for key, value in whole:
        kept = None if data.draw(st.integers(0, 9)) == 0 else key
        rows.append((kept if kept is None else data.draw(bent(kept)), None if value is None else data.draw(bent(value))))
    batch, keys, values = decode(rows)
    assert_equals_row_wise(rows, batch, keys, values)


@given(st.data(), COMMIT_VERSIONS)
def test_a_commit_cut_at_every_byte_and_with_every_byte_changed(data: st.DataObject, kind: tuple[RecordType, int]) -> None:
    key = encode_key(kind[0], data.draw(st.builds(OffsetKey, texts, texts, st.integers(0, 9))))
    value = encode_value(kind[0], data.draw(typed_values(*kind)), kind[1])
    byte = data.draw(st.integers(0, 255))
    rows: list[Row] = [(key, value[:end]) for end in range(len(value))]
    rows += [(key, value[:at] + bytes([byte]) + value[at + 1 :]) for at in range(len(value))]
    rows += [(key[:end], value) for end in range(len(key))]
    rows += [(key[:at] + bytes([byte]) + key[at + 1 :], value) for at in range(len(key))]
    batch, keys, values = decode(rows)
    assert_equals_row_wise(rows, batch, keys, values)


def test_metadata_of_any_length_whatever_the_width_of_its_varint() -> None:
    key = encode_key(RecordType.OFFSET_COMMIT, OffsetKey("g", "t", 0))
    texts_ = ["", "a", "x" * 126, "x" * 127, "ü" * 64, "y" * 16382, "y" * 16383, "z" * 32767, "\n", "end"]
    rows: list[Row] = []
    for version in range(5):
        for text in texts_:
            value = OffsetCommitValue(
                offset=5, metadata=text, commit_timestamp=6, topic_id=b"i" * 16 if version == 4 else ZERO_UUID
            )
            rows.append((key, encode_value(RecordType.OFFSET_COMMIT, value, version)))
    long_varint = b"\x00\x04" + bytes(12) + b"\x82\x80\x80\x80\x00" + b"m" + bytes(8) + b"\x00"
    rows.append((key, long_varint))
    batch, keys, values = decode(rows)
    assert len(batch.row) == len(rows)
    assert_equals_row_wise(rows, batch, keys, values)
    offsets, packed = pack_slices(values.data, batch.metadata_start, batch.metadata_length)
    joined = pa.StringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(packed)).to_pylist()
    assert joined == [*(texts_ * 5), "m"]


TAG_BLOCKS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 16, 17]) | st.integers(0, 3)), max_size=3).map(
    lambda tags: bytes([len(tags)]) + b"".join(bytes([tag, size]) + b"i" * size for tag, size in tags)
)


@given(st.data(), st.lists(TAG_BLOCKS, min_size=1, max_size=6))
def test_tagged_fields_of_any_number_and_order(data: st.DataObject, blocks: list[bytes]) -> None:
    key = encode_key(RecordType.OFFSET_COMMIT, OffsetKey("g", "t", 0))
    plain = encode_value(RecordType.OFFSET_COMMIT, OffsetCommitValue(offset=1, metadata="m", commit_timestamp=2), 4)[:-1]
    rows: list[Row] = [(key, plain + block) for block in (*blocks, *(data.draw(bent(block)) for block in blocks))]
    batch, keys, values = decode(rows)
    assert_equals_row_wise(rows, batch, keys, values)


def test_a_new_tagged_field_or_long_metadata_does_not_need_the_row_wise_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    key = encode_key(RecordType.OFFSET_COMMIT, OffsetKey("g", "t", 0))
    plain = encode_value(RecordType.OFFSET_COMMIT, OffsetCommitValue(offset=1, metadata="m", commit_timestamp=2), 4)[:-1]
    rows: list[Row] = [(key, plain + b"\x02\x00\x10" + b"i" * 16 + b"\x07\x02ab"), (key, plain + b"\x01\x07\x00")]
    long = OffsetCommitValue(offset=2, metadata="m" * 20000, commit_timestamp=2)
    rows.append((key, encode_value(RecordType.OFFSET_COMMIT, long, 4)))
    monkeypatch.setattr(batch_module, "decode_value", None)
    batch, _, _ = decode(rows)
    assert (batch.has_topic_id.tolist(), batch.offset.tolist()) == ([True, False, False], [1, 1, 2])


def test_null_metadata_and_a_zero_topic_id_that_is_written_out() -> None:
    key = encode_key(RecordType.OFFSET_COMMIT, OffsetKey("g", "t", 0))
    plain = encode_value(RecordType.OFFSET_COMMIT, OffsetCommitValue(offset=1, metadata="", commit_timestamp=0), 4)[:-1]
    rows: list[Row] = [(key, plain + b"\x01\x00\x10" + bytes(16)), (key, plain[:14] + bytes(9)), (key, plain[:14] + bytes(10))]
    batch, keys, values = decode(rows)
    assert (batch.row.tolist(), batch.has_topic_id.tolist()) == ([0], [False])
    assert_equals_row_wise(rows, batch, keys, values)


def test_rows_in_more_than_one_block_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "_BLOCK", 3)
    key = encode_key(RecordType.OFFSET_COMMIT, OffsetKey("g", "t", 0))
    rows: list[Row] = []
    for at in range(20):
        value = OffsetCommitValue(offset=at, metadata="m" * at, commit_timestamp=at, topic_id=bytes([at]) * 16)
        rows.append((key, None if at % 7 == 3 else encode_value(RecordType.OFFSET_COMMIT, value, at % 5)))
    rows[4], rows[9], rows[13] = (key, b"\x00\x04"), (key[:5], rows[9][1]), (b"\x00\x02\x00\x01g", None)
    batch, keys, values = decode(rows)
    assert len(batch.row) == 17
    assert_equals_row_wise(rows, batch, keys, values)


def test_an_empty_batch_and_a_batch_without_commits() -> None:
    for rows in ([], [(None, None)], [(b"\x00\x02\x00\x01g", None)]):
        batch, _, _ = decode(list(rows))
        assert (len(batch.row), batch.rest.tolist()) == (0, list(range(len(rows))))


def test_the_capture_through_arrow_buffers_sliced_as_a_pipeline_gets_them() -> None:
    table = pq.read_table(SHOP, columns=["key", "value"]).combine_chunks()
    rows: list[Row] = list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
    whole, found = [0, 0], 0
    for start in range(0, len(rows), 5000):
        keys = table["key"].chunk(0).slice(start, 5000)
        encoded = keys.dictionary_encode()
        key_column, value_column = column(encoded.dictionary), column(table["value"].chunk(0).slice(start, 5000))
        batch = decode_commits(decode_keys(key_column), np.asarray(encoded.indices.fill_null(-1)), value_column)
        assert_equals_row_wise(rows[start : start + 5000], batch, key_column, value_column)
        whole[0] += len(batch.row) - int(batch.deleted.sum())
        whole[1] += int(batch.deleted.sum())
        found += int(batch.has_topic_id.sum())
    assert whole == [23844, 48]
    assert found == 23844 - 1187, "all but the transactional commits carry a topic id"


def column(array: pa.BinaryArray) -> BinaryColumn:
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    valid = None if array.null_count == 0 else np.asarray(array.is_valid())
    return BinaryColumn(starts, np.frombuffer(b"" if data is None else data, np.uint8), valid)


@example([b"\xc3", b"\xa9"])
@example([b"ok", b"\xc3", b"", b"\xa9", "é".encode()])
@given(st.lists(st.binary(max_size=6) | texts.map(str.encode), max_size=8))
def test_slices_that_are_not_utf8_are_found_one_by_one(slices: list[bytes]) -> None:
    packed = column(pa.array(slices, pa.binary()))
    bad = not_utf8(packed.data, packed.offsets[:-1].astype(np.int64), np.diff(packed.offsets).astype(np.int64))
    assert bad.tolist() == [raw.decode("utf-8", "replace").encode() != raw for raw in slices]
