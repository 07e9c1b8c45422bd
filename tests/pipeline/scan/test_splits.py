"""Records in whatever Parquet files, and the splits that scan tasks read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.scan import read
from counterpoise.pipeline.scan.read import RAW_SCHEMA, newest_of_keys, plan_splits, raw_batches, rows_from, without_dictionaries
from counterpoise.pipeline.source.capture import read_capture
from counterpoise.pipeline.tables.paths import day_folder

RECORDS = "consumer_offsets.parquet"


def other_columns(rows: pa.Table, way: str) -> pa.Table:
    """The same records as something else writes them."""
    kinds = {
        "key": pa.large_binary(),
        "value": pa.large_binary(),
        "partition": pa.int64(),
        "timestamp": pa.timestamp("ns", "UTC"),
    }
    if way == "no zone":
        kinds = {"timestamp": pa.timestamp("us"), "offset": pa.int64(), "partition": pa.int16()}
    for name in kinds if way != "int96" else ():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, rows[name].cast(kinds[name]))
    return rows


@pytest.mark.parametrize("way", ["large and nanoseconds", "no zone", "int96", "partition folders"])
def test_records_of_other_types_are_read_as_the_same_records(shop: Path, tmp_path: Path, way: str) -> None:
    rows = pq.read_table(shop / RECORDS, columns=RAW_SCHEMA.names).slice(0, 3_000).cast(RAW_SCHEMA)
    folder = tmp_path / RECORDS
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    if way == "partition folders":
        for partition in sorted(set(rows["partition"].to_pylist())):
            place = folder / f"partition={partition}"
            place.mkdir()
            mine = rows.filter(pc.equal(rows["partition"], partition)).drop_columns(["partition"])
            pq.write_table(mine, place / "part-0.parquet")
    else:
        pq.write_table(other_columns(rows, way), folder / "part-0.bin", use_deprecated_int96_timestamps=way == "int96")
    local = read_capture(folder.parent).files
    found = [batch for split in plan_splits({"c": local.records}, 1, {})[0]["c"] for batch in raw_batches(split)]
    table = pa.Table.from_batches([without_dictionaries(batch) for batch in found])
    order = [("partition", "ascending"), ("offset", "ascending")]
    assert table.sort_by(order).equals(rows.sort_by(order))


def test_splits_hold_every_row_group_once_and_never_two_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last ones are the smallest: no core waits long for another one's."""
    monkeypatch.setattr(read, "_LEAST_ROWS", 50_000)
    rows = pa.table({name: pa.nulls(600_000, RAW_SCHEMA.field(name).type) for name in RAW_SCHEMA.names})
    for name in ("one", "two"):
        pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=50_000)
    files = {name: str(tmp_path / f"{name}.parquet") for name in ("one", "two")}
    planned, rows_of_all = plan_splits({name: (file,) for name, file in files.items()}, 6, {})
    assert rows_of_all == 1_200_000
    assert {(name, file) for name, listed in planned.items() for split in listed for file, _ in split} == set(files.items())
    sizes = [len(groups) for listed in planned.values() for split in listed for _, groups in split]
    assert sizes == [4, 4, 3, 1, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    for name in files:
        assert [at for split in planned[name] for _, groups in split for at in groups] == list(range(12))


def test_large_records_come_a_few_at_a_time(tmp_path: Path) -> None:
    large = pa.table({name: pa.nulls(100, RAW_SCHEMA.field(name).type) for name in RAW_SCHEMA.names})
    values = pa.array([bytes([at % 251]) * 1_000_000 for at in range(100)])
    pq.write_table(large.set_column(1, "value", values), tmp_path / "large.parquet", compression="none", use_dictionary=False)
    split = ((str(tmp_path / "large.parquet"), (0,)),)
    sizes = [batch.num_rows for batch in raw_batches(split)]
    assert sum(sizes) == 100
    assert max(sizes) <= 64


@pytest.mark.parametrize(
    ("row_groups", "batches"),
    [([100, 70, 30], [50, 50, 35, 35, 30]), ([20] * 3, [20] * 3), ([160], [54, 54, 52])],
    ids=str,
)
def test_row_groups_are_read_one_by_one_in_equal_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_groups: list[int], batches: list[int]
) -> None:
    monkeypatch.setattr(read, "_AT_ONCE", 64)
    file, first = tmp_path / "log.parquet", 0
    with pq.ParquetWriter(file, RAW_SCHEMA) as out:
        for size in row_groups:
            rows = [{"key": b"k", "partition": 0, "offset": at} for at in range(first, first + size)]
            out.write_table(pa.Table.from_pylist(rows, RAW_SCHEMA))
            first += size
    split = ((str(file), tuple(range(len(row_groups)))),)
    found = list(raw_batches(split))
    assert [batch.num_rows for batch in found] == batches
    assert [at for batch in found for at in batch.column("offset").to_pylist()] == list(range(sum(row_groups)))


@pytest.mark.parametrize("different", [3, 5_000], ids=["few keys", "many keys"])
def test_a_batch_has_no_more_keys_than_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, different: int) -> None:
    """Few are read as codes into one dictionary; of many a row group's dictionary would be held all the time."""
    monkeypatch.setattr(read, "_AT_ONCE", 500)
    keys = [b"\x00\x01%040d" % (at * 7 % different) for at in range(5_000)]
    rows = pa.table({name: pa.nulls(len(keys), RAW_SCHEMA.field(name).type) for name in RAW_SCHEMA.names})
    file = tmp_path / "log.parquet"
    pq.write_table(rows.set_column(0, "key", pa.array(keys, pa.binary())), file, dictionary_pagesize_limit=10_000)
    split = ((str(file), (0,)),)
    found = [batch.column("key") for batch in raw_batches(split)]
    assert [key for column in found for key in column.to_pylist()] == keys
    held = [len(column.dictionary if pa.types.is_dictionary(column.type) else column) for column in found]
    assert held == [min(different, 500)] * 10


def test_folders_are_named_as_spark_names_them() -> None:
    assert day_folder("eu/west: 1%", "2026-11-21") == "cluster=eu%2Fwest%3A 1%25/date=2026-11-21"


def test_before_a_begin_no_record_counts_and_only_its_last_one_is_read(tmp_path: Path) -> None:
    """By the last one the capture is known again. All of a log partition that has no begin count, and none without a place."""
    places = [(partition, offset) for offset in range(40) for partition in (0, 1, 2)] + [(None, 5), (1, None)]
    rows = [{"partition": one, "offset": other} for one, other in places]
    file = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows, RAW_SCHEMA), file, row_group_size=30)

    def counted(begin: dict[int, int]) -> tuple[list[tuple[int | None, int | None]], list[int], int]:
        planned, n = plan_splits({"c": (str(file),)}, 1, {"c": begin})
        (split,) = planned["c"]
        found = [rows_from(batch, begin).select(["partition", "offset"]) for batch in raw_batches(split)]
        pairs = [pair for batch in found for pair in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
        return pairs, [at for _, groups in split for at in groups], n

    whole = [(one, other) for one, other in places if one is not None and other is not None]
    assert counted({}) == (places, [0, 1, 2, 3, 4], 122)
    assert counted({0: 20, 1: 35}) == ([one for one in whole if one[1] >= {0: 20, 1: 35, 2: 0}[one[0]]], [0, 1, 2, 3], 120)
    begin = {0: 21, 1: 22, 2: 23}
    assert counted(begin) == ([one for one in whole if one[1] >= begin[one[0]]], [2, 3], 60)
    pq.write_table(pa.Table.from_pylist(rows, RAW_SCHEMA), file, row_group_size=30, write_statistics=False)
    assert counted(begin)[1] == [0, 1, 2, 3, 4]


def test_the_last_record_of_a_log_partition_without_new_ones_is_read_again(tmp_path: Path) -> None:
    """Without it a file that was written anew looks as if it had lost records."""
    rows = [{"partition": partition, "offset": offset} for partition in (0, 1) for offset in range(40)]
    pq.write_table(pa.Table.from_pylist(rows, RAW_SCHEMA), tmp_path / "log.parquet", row_group_size=20)
    planned, _ = plan_splits({"c": (str(tmp_path / "log.parquet"),)}, 1, {"c": {0: 40, 1: 30}})
    assert [at for split in planned["c"] for _, groups in split for at in groups] == [1, 3]


def test_a_record_without_an_offset_is_not_the_newest_of_its_key() -> None:
    row = {"key": b"k", "value": b"", "partition": 0, "timestamp": datetime(2026, 1, 1, tzinfo=UTC)}
    batch = pa.RecordBatch.from_pylist([{**row, "offset": offset} for offset in (4, 5, None)], RAW_SCHEMA)
    (found,) = newest_of_keys([batch], 2**60, frozenset())
    assert found.column("offset").to_pylist() == [5]
