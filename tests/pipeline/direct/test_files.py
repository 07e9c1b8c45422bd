"""Records in whatever Parquet files, what tasks are made of them, and which of the written files count."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.direct import direct, tasks
from counterpoise.pipeline.direct.commits.decoding import Wanted, decode_piece
from counterpoise.pipeline.direct.files import reading
from counterpoise.pipeline.direct.files.buckets import BUCKETS
from counterpoise.pipeline.direct.files.marked_file import marked_batches
from counterpoise.pipeline.direct.files.reading import RAW_SCHEMA, raw_batches
from counterpoise.pipeline.direct.groups.rest import mark_others
from counterpoise.pipeline.direct.tasks import Piece, Stretch, pieces_of
from counterpoise.pipeline.source.capture import Local
from counterpoise.pipeline.source.layout import check_source, local_files
from counterpoise.pipeline.stored.tables import day_folder

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
    local = local_files(folder, None)
    check_source(folder.parent)
    found = [batch for piece in pieces_of({"c": local}, 1) for batch in raw_batches(piece, RAW_SCHEMA.names)]
    table = pa.Table.from_batches([reading.plain(batch) for batch in found])
    order = [("partition", "ascending"), ("offset", "ascending")]
    assert table.sort_by(order).equals(rows.sort_by(order))


def test_pieces_hold_every_row_group_once_and_never_two_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last ones are the smallest: no core waits long for another one's."""
    monkeypatch.setattr(tasks, "_LEAST_ROWS", 50_000)
    rows = pa.table({name: pa.nulls(600_000, RAW_SCHEMA.field(name).type) for name in RAW_SCHEMA.names})
    for name in ("one", "two"):
        pq.write_table(rows, tmp_path / f"{name}.parquet", row_group_size=50_000)
    files = {name: str(tmp_path / f"{name}.parquet") for name in ("one", "two")}
    captures = {name: Local((file,)) for name, file in files.items()}
    pieces = pieces_of(captures, 6)
    assert {(piece.cluster, file) for piece in pieces for file, _ in piece.groups} == set(files.items())
    sizes = [len(groups) for piece in pieces for _, groups in piece.groups]
    assert sizes == [4, 4, 3, 1, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    for name, file in files.items():
        assert [
            at for piece in pieces if piece.cluster == name for of, groups in piece.groups if of == file for at in groups
        ] == list(range(12))


def test_large_records_come_a_few_at_a_time(tmp_path: Path) -> None:
    large = pa.table({name: pa.nulls(100, RAW_SCHEMA.field(name).type) for name in RAW_SCHEMA.names})
    values = pa.array([bytes([at % 251]) * 1_000_000 for at in range(100)])
    pq.write_table(large.set_column(1, "value", values), tmp_path / "large.parquet", compression="none", use_dictionary=False)
    sizes = [batch.num_rows for batch in raw_batches(Piece("c", ((str(tmp_path / "large.parquet"), (0,)),)), ["key", "value"])]
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
    monkeypatch.setattr(reading, "_AT_ONCE", 64)
    file, first = tmp_path / "log.parquet", 0
    with pq.ParquetWriter(file, RAW_SCHEMA) as out:
        for size in row_groups:
            rows = [{"key": b"k", "partition": 0, "offset": at} for at in range(first, first + size)]
            out.write_table(pa.Table.from_pylist(rows, RAW_SCHEMA))
            first += size
    piece = Piece("c", ((str(file), tuple(range(len(row_groups)))),))
    found = list(raw_batches(piece, ["key", "offset"]))
    assert [batch.num_rows for batch in found] == batches
    assert [at for batch in found for at in batch.column("offset").to_pylist()] == list(range(sum(row_groups)))


@pytest.mark.parametrize("different", [3, 5_000], ids=["few keys", "many keys"])
def test_a_batch_has_no_more_keys_than_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, different: int) -> None:
    """Few are read as codes into one dictionary; of many a row group's dictionary would be held all the time."""
    monkeypatch.setattr(reading, "_AT_ONCE", 500)
    keys = [b"\x00\x01%040d" % (at * 7 % different) for at in range(5_000)]
    rows = pa.table({name: pa.nulls(len(keys), RAW_SCHEMA.field(name).type) for name in RAW_SCHEMA.names})
    file = tmp_path / "log.parquet"
    pq.write_table(rows.set_column(0, "key", pa.array(keys, pa.binary())), file, dictionary_pagesize_limit=10_000)
    found = [batch.column("key") for batch in raw_batches(Piece("c", ((str(file), (0,)),)), ["key", "offset"])]
    assert [key for column in found for key in column.to_pylist()] == keys
    held = [len(column.dictionary if pa.types.is_dictionary(column.type) else column) for column in found]
    assert held == [min(different, 500)] * 10


def test_a_task_that_ran_twice_leaves_its_rows_once(shop: Path, tmp_path: Path) -> None:
    """Only files that were told of become part of the table; those of the other attempt stay where they are."""
    piece = Piece("c", ((str(shop / RECORDS), (0,)),))
    wanted = Wanted(str(tmp_path), (mark_others(piece, str(tmp_path))["marks"],))
    first, told = decode_piece(piece, wanted), decode_piece(piece, wanted)
    table = tmp_path / "table"
    days, others = (one["tables"]["offset_commits"]["days"] for one in (told, first))
    direct._place(days, table, "c")
    assert {file.name for file in table.rglob("*.parquet")} == {Path(file).name for file in days.values()}
    assert sum(pq.read_metadata(file).num_rows for file in table.rglob("*.parquet")) == told["decoded"] == first["decoded"]
    assert all(Path(file).exists() for file in others.values())


def test_commits_that_never_took_effect_are_in_the_table_and_in_no_sum(shop: Path, tmp_path: Path) -> None:
    piece = Piece("c", ((str(shop / RECORDS), (0,)),))
    pairs = json.loads((shop / "aborted_offsets.json").read_text())
    assert pairs
    wanted = {name: Wanted(str(tmp_path), (), aborted=name) for name in (None, str(shop / "aborted_offsets.json"))}
    told = [decode_piece(piece, one) for one in wanted.values()]
    counted = [sum(sum(row) for row in zip(*columns, strict=True)) for columns in map(_counts, told)]
    assert [one["decoded"] for one in told] == [counted[0]] * 2
    assert 0 < counted[0] - counted[1] <= len(pairs)


def _counts(told: dict[str, dict[str, list[int]]]) -> list[list[int]]:
    sums = pa.Table.from_batches(marked_batches([*told["sums"].items()], range(BUCKETS)))
    return [sums[name].to_pylist() for name in ("live", "dead")]


def test_folders_are_named_as_spark_names_them() -> None:
    assert day_folder("eu/west: 1%", "2026-11-21") == "cluster=eu%2Fwest%3A 1%25/date=2026-11-21"


def test_of_a_stretch_no_other_record_is_read(tmp_path: Path) -> None:
    """From a begin to an end, and all of a log partition that has no begin; row groups before it are not even opened."""
    places = [(partition, offset) for offset in range(40) for partition in (0, 1, 2)] + [(None, 5), (1, None)]
    rows = [{"key": b"k", "value": None, "partition": one, "offset": other, "timestamp": None} for one, other in places]
    file = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows, RAW_SCHEMA), file, row_group_size=30)
    capture = Local((str(file),))

    def read(begin: dict[int, int], end: dict[int, int]) -> tuple[list[tuple[int | None, int | None]], list[int]]:
        (piece,) = pieces_of({"c": capture}, 1, {"c": Stretch(begin, end)})
        batches = list(raw_batches(piece, ["partition", "offset"]))
        found = [pair for batch in batches for pair in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
        return found, [at for _, groups in piece.groups for at in groups]

    found, groups = read({0: 20, 1: 35}, {0: 30, 1: 38, 2: 12})
    begin, end = {0: 20, 1: 35, 2: 0}, {0: 30, 1: 38, 2: 12}
    whole = [(one, other) for one, other in places if one is not None and other is not None]
    assert found == [(one, other) for one, other in whole if begin[one] <= other < end[one]]
    assert groups == [0, 1, 2, 3]
    assert read({0: 20, 1: 21, 2: 22}, {0: 40, 1: 40, 2: 40})[1] == [2, 3]
    assert read({}, {0: 2, 1: 1})[0] == [(0, 0), (1, 0), (0, 1), (None, 5), (1, None)]
