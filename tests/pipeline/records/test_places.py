"""Records without a partition, an offset or a time: each is a counted row of `decode_errors`, and costs only itself."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pyarrow as pa
import pytest

from tests.pipeline.rows import commit_batch, errors_in, generation_rows, modern_rows, undecided


@pytest.fixture(scope="module")
def few(raw: pa.RecordBatch) -> pa.RecordBatch:
    """Some thirty records of each of three kinds."""
    kinds = [key[:2] for key in raw.column("key").to_pylist()]
    wanted = (b"\x00\x01", b"\x00\x02", b"\x00\x03")
    rows = chain.from_iterable([at for at, kind in enumerate(kinds) if kind == one][:30] for one in wanted)
    return raw.take(pa.array(list(rows)))


def first_of_each_kind(whole: pa.RecordBatch, hole: str) -> tuple[pa.RecordBatch, list[int]]:
    """All records, the first commit, generation and modern record with a null in one column; and where these are."""
    kinds = [key[:2] for key in whole.column("key").to_pylist()]
    at = [kinds.index(kind) for kind in (b"\x00\x01", b"\x00\x02", b"\x00\x03")]
    column = whole.column(hole).to_pylist()
    for row in at:
        column[row] = None
    where = whole.schema.get_field_index(hole)
    return whole.set_column(where, whole.schema.field(where), pa.array(column, whole.schema.field(where).type)), at


@pytest.mark.parametrize("hole", ["timestamp", "offset", "partition"])
def test_a_record_without_a_place_is_an_error_and_nothing_else_is(few: pa.RecordBatch, hole: str) -> None:
    batch, _ = first_of_each_kind(few, hole)
    errors = errors_in(batch)
    assert Counter([row["record_type"] for row in errors]) == {1: 1, 2: 1, 3: 1}
    stamp = " (or a time outside the years 1 to 9999)" if hole == "timestamp" else ""
    assert {row["reason"] for row in errors} == {f"null {hole}{stamp}: the record has no place in the log"}
    assert commit_batch(batch).num_rows == commit_batch(few).num_rows - 1
    assert len(undecided(batch)) == len(undecided(few)) + 1
    assert len(list(generation_rows(batch))) == len(list(generation_rows(few))) - 1
    assert len(list(modern_rows(batch))) == len(list(modern_rows(few))) - 1


def test_a_commit_without_a_time_is_no_row_and_undecided(few: pa.RecordBatch) -> None:
    batch, (commit, *_) = first_of_each_kind(few, "timestamp")
    about = batch.slice(commit, 1)
    assert (commit_batch(about).num_rows, undecided(about).tolist()) == (0, [0])


def test_what_is_damaged_besides_says_so_first() -> None:
    columns = {"key": pa.binary(), "value": pa.binary(), "partition": pa.int32(), "offset": pa.int64()}
    schema = pa.schema([*columns.items(), ("timestamp", pa.timestamp("us", tz="UTC"))])
    rows = [{"key": b"\xff\xff", "value": None}, {"key": None, "value": None}]
    errors = errors_in(pa.RecordBatch.from_pylist(rows, schema=schema))
    assert [row["record_type"] for row in errors] == [-1, None]
    assert all("no place" not in reason for reason in [row["reason"] for row in errors])
