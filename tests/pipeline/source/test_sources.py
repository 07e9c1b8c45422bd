"""Broken captures: one clear line each, or a counted row in `decode_errors`."""

from __future__ import annotations

import re
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.errors import CaptureError, MissingExtraError
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.capture.columns import ARROW, ENDS_FILE
from counterpoise.pipeline.capture.disk_series import DiskSeries
from counterpoise.pipeline.fold.new_samples import NewSamples
from counterpoise.pipeline.scan.read import RAW_SCHEMA
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source import capture
from counterpoise.pipeline.source.capture import CaptureFiles, read_capture
from counterpoise.pipeline.source.checks import parquet_files
from counterpoise.pipeline.source.parquet_rows import RAW_TYPES, read_rows, utc_micros
from counterpoise.pipeline.source.scope import AuditScope
from counterpoise.pipeline.source.spark_records import new_records
from counterpoise.pipeline.storage.files import join, write_bytes
from tests.pipeline.incremental.pieces import comparable_rows
from tests.pipeline.rows import commit_batch, errors_in, generation_rows
from tests.s3_server import upload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UTC_US, _UTC_MS = pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")


def rejected(path: Path) -> str:
    with pytest.raises(CaptureError) as caught:
        read_capture(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such file or folder"):
        read_capture(tmp_path / "nowhere")


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=re.escape("no consumer_offsets.parquet in this folder (it is empty)")):
        read_capture(tmp_path)


def test_a_folder_with_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(CaptureError, match=r"it holds notes\.txt"):
        read_capture(tmp_path)


def test_an_empty_folder_of_records(tmp_path: Path) -> None:
    (tmp_path / "consumer_offsets.parquet").mkdir()
    with pytest.raises(CaptureError, match="no Parquet files in this folder"):
        read_capture(tmp_path)


def test_what_spark_leaves_beside_its_files_is_no_record_and_a_stray_file_is_named(tmp_path: Path, shop: Path) -> None:
    records = tmp_path / "consumer_offsets.parquet"
    (records / "_temporary").mkdir(parents=True)
    shutil.copy(shop / "consumer_offsets.parquet", records / "part-0.parquet")
    for hidden in ("_SUCCESS", ".part-0.parquet.crc", ".part-1.parquet", "_temporary/part-2.parquet"):
        (records / hidden).write_text("no Parquet")
    read_capture(tmp_path)
    (records / "notes.txt").write_text("hello")
    with pytest.raises(CaptureError, match=r"notes\.txt: not a whole Parquet file .* or a stray one"):
        read_capture(tmp_path)


@pytest.mark.parametrize("keep", [0, 3, 100, 100_000, -1])
def test_a_truncated_file(tmp_path: Path, shop: Path, keep: int) -> None:
    whole = (shop / "consumer_offsets.parquet").read_bytes()
    (tmp_path / "consumer_offsets.parquet").write_bytes(whole[:keep])
    with pytest.raises(CaptureError, match="not a whole Parquet file") as caught:
        read_capture(tmp_path)
    assert "\n" not in str(caught.value)


def flipped(file: Path, column: str) -> None:
    """Change the last bit of the last page of a column; that it can still be unpacked is made sure of by not packing it."""
    about = pq.read_metadata(file).row_group(0)
    chunk = next(one for one in map(about.column, range(about.num_columns)) if one.path_in_schema == column)
    raw = bytearray(file.read_bytes())
    raw[min(at for at in (chunk.dictionary_page_offset, chunk.data_page_offset) if at) + chunk.total_compressed_size - 1] ^= 1
    file.write_bytes(raw)


def test_one_flipped_bit_in_a_page_with_a_checksum_is_one_error_that_names_the_file(
    spark: SparkSession, tmp_path: Path, shop: Path
) -> None:
    """In a task of Spark, and where the driver reads samples itself; without a checksum such a bit is not noticed."""
    file = tmp_path / "consumer_offsets.parquet"
    pq.write_table(pq.read_table(shop / file.name), file, compression="none", write_page_checksum=True)
    flipped(file, "value")
    with pytest.raises(CaptureError, match=rf"^{file}: damaged \(.*; record it again$") as caught:
        audit(spark, tmp_path, tmp_path / "out")
    assert "\n" not in str(caught.value)
    for name in ("topic", "log_start", "log_end", "sampled_at"):
        sampled = tmp_path / "log_offsets.parquet"
        pq.write_table(pq.read_table(shop / sampled.name), sampled, compression="none", write_page_checksum=True)
        flipped(sampled, name)
        with pytest.raises(CaptureError, match=rf"^{sampled}: damaged \("):
            NewSamples([str(sampled)])


def test_a_damaged_file_of_a_data_frame_is_one_line(spark: SparkSession, tmp_path: Path, shop: Path) -> None:
    file = Path(shutil.copy(shop / "consumer_offsets.parquet", tmp_path / "records.parquet"))
    records = spark.read.parquet(str(file))
    file.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(CaptureError, match=r"^[^\n]*cannot be read as Parquet; it is damaged or cut short, record it again$"):
        audit(spark, records, tmp_path / "out")


@pytest.mark.parametrize("column", ["key", "value", "partition", "offset", "timestamp"])
def test_a_capture_is_written_with_checksums(tmp_path: Path, shop: Path, column: str) -> None:
    (tmp_path / "store").mkdir()
    series = DiskSeries(tmp_path / "t.parquet", tmp_path / "store", ARROW, "timestamp")
    series.append(pq.read_table(shop / "consumer_offsets.parquet").to_batches(), {})
    (file,) = (tmp_path / "t.parquet").iterdir()
    flipped(file, column)
    with pytest.raises(CaptureError, match=rf"^{file}: damaged \("):
        list(read_rows(str(file), {column: RAW_TYPES[column]}, 1000))


def test_a_missing_column_is_named(tmp_path: Path, shop: Path) -> None:
    table = pq.read_table(shop / "consumer_offsets.parquet").slice(0, 5).drop_columns(["offset", "value"])
    pq.write_table(table, tmp_path / "consumer_offsets.parquet")
    assert "columns value, offset missing" in rejected(tmp_path)


def test_a_column_that_is_there_twice_is_named(tmp_path: Path, shop: Path) -> None:
    """Arrow finds no column of such a name."""
    table = pq.read_table(shop / "consumer_offsets.parquet").slice(0, 5)
    pq.write_table(table.append_column("key", table["key"]), tmp_path / "consumer_offsets.parquet")
    assert "column key repeated; expected the columns of Spark's Kafka source" in rejected(tmp_path)


def test_a_column_of_the_wrong_type_is_named(tmp_path: Path, shop: Path) -> None:
    table = pq.read_table(shop / "consumer_offsets.parquet").slice(0, 5)
    table = table.set_column(table.schema.get_field_index("key"), "key", pa.array(["x"] * 5))
    pq.write_table(table, tmp_path / "consumer_offsets.parquet")
    assert "column key is string; expected binary" in rejected(tmp_path)


def test_damaged_companions_are_named(tmp_path: Path, shop: Path) -> None:
    shutil.copy(shop / "consumer_offsets.parquet", tmp_path)
    (tmp_path / "topics.json").write_text('{"orders": ')
    assert "topics.json: not JSON" in rejected(tmp_path)
    (tmp_path / "topics.json").write_text("[]")
    assert "topics.json: $: Expected `object`, got `array`" in rejected(tmp_path)


def capture_with(folder: Path, shop: Path, name: str, text: str) -> Path:
    """A capture of no records with one companion."""
    pq.write_table(pq.read_table(shop / "consumer_offsets.parquet").slice(0, 0), folder / "consumer_offsets.parquet")
    (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":3}', "$.a: Expected `object`, got `int`; expected topic -> "),
        ('{"b":{"partitions":"x"}}', "$.b.partitions: Expected `int`, got `str`"),
        ('{"b":{"topic_id":"x"}}', "$.b: Object missing required field `partitions`"),
        ('{"b":{"partitions":true}}', "$.b.partitions: Expected `int`, got `bool`"),
        ('{"b":{"partitions":2147483648}}', "$.b.partitions: Expected `int` <= 2147483647"),
        ('{"b":{"partitions":1,"topic_id":7}}', "$.b.topic_id: Expected `str | null`, got `int`"),
        ("3", "$: Expected `object`, got `int`"),
    ],
)
def test_topics_of_another_shape_are_reported(tmp_path: Path, shop: Path, text: str, message: str) -> None:
    with pytest.raises(CaptureError, match=re.escape(f"{tmp_path / 'topics.json'}: {message}")):
        read_capture(capture_with(tmp_path, shop, "topics.json", text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[1,2,{"a":3}]', "$[0]: Expected `array`, got `int`; expected pairs [partition, offset]"),
        ('[[1,2],{"a":3}]', "$[1]: Expected `array`, got `object`"),
        ("[[1,2],[1]]", "$[1]: Expected `array` of length 2, got 1"),
        ("[[1,2,3]]", "$[0]: Expected `array` of length 2, got 3"),
        ('[[1,"2"]]', "$[0][1]: Expected `int`, got `str`"),
        ("[[1,9223372036854775808]]", "$[0][1]: Expected `int` <= 9223372036854775807"),
        ("{}", "$: Expected `array`, got `object`"),
    ],
)
def test_aborted_offsets_of_another_shape_are_reported(tmp_path: Path, shop: Path, text: str, message: str) -> None:
    with pytest.raises(CaptureError, match=re.escape(f"{tmp_path / 'aborted_offsets.json'}: {message}")):
        read_capture(capture_with(tmp_path, shop, "aborted_offsets.json", text))


def log_ends(folder: Path, shop: Path, name: str, column: pa.Array) -> Path:
    """A capture of no records with five samples of log ends, one of its columns another one."""
    capture_with(folder, shop, "topics.json", "{}")
    table = pq.read_table(shop / "log_offsets.parquet").slice(0, 5)
    at = table.schema.get_field_index(name)
    pq.write_table(table.set_column(at, name, column), folder / "log_offsets.parquet")
    return folder


@pytest.mark.parametrize(
    ("name", "column", "wanted"),
    [
        ("log_end", pa.array(["x"] * 5), "string; expected bigint"),
        ("partition", pa.array([0.5] * 5), "double; expected int"),
        ("topic", pa.array([b"x"] * 5), "binary; expected string"),
        ("sampled_at", pa.array([7] * 5), "int64; expected timestamp"),
    ],
)
def test_log_ends_of_the_wrong_type_are_reported(tmp_path: Path, shop: Path, name: str, column: pa.Array, wanted: str) -> None:
    message = f"{tmp_path / 'log_offsets.parquet'}: column {name} is {wanted}"
    with pytest.raises(CaptureError, match=re.escape(message)):
        read_capture(log_ends(tmp_path, shop, name, column))


def test_log_ends_without_a_column_are_reported(tmp_path: Path, shop: Path) -> None:
    capture_with(tmp_path, shop, "topics.json", "{}")
    pq.write_table(pq.read_table(shop / "log_offsets.parquet").drop_columns(["log_end"]), tmp_path / "log_offsets.parquet")
    with pytest.raises(CaptureError, match=r"log_offsets\.parquet: column log_end missing"):
        read_capture(tmp_path)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        pytest.param("log_end", pa.array([1, None, 3, None, 5], pa.int64()), id="a null"),
        pytest.param("log_end", pa.array([1, 2**63 - 1, 3, -1, 5]), id="an offset that no log has"),
        pytest.param("log_start", pa.array([1, 2**48 + 1, 3, -(2**63), 2**48]), id="a start that no log has"),
        pytest.param("sampled_at", pa.array([1, -(2**63), 3, 2**63 - 1, 5]).cast(_UTC_US), id="a time that is no date"),
        pytest.param("sampled_at", pa.array([1, -(2**63), 3, 2**63 - 1, 5]).cast(_UTC_MS), id="a time in ms that is no date"),
    ],
)
def test_samples_that_cannot_be_used_are_left_out_and_counted(tmp_path: Path, shop: Path, name: str, column: pa.Array) -> None:
    folder = log_ends(tmp_path, shop, name, column)
    capture = read_capture(folder)
    assert any(note.startswith("log_offsets.parquet: 2 rows are left out") for note in capture.notes)
    whole = pq.read_table(folder / "log_offsets.parquet")["log_end"].to_pylist()
    ends = NewSamples(capture.files.ends, after=-1)
    assert [end for table in ends.tables() for end in table["log_end"].to_pylist()] == whole[::2]
    assert ends.counts.sum() == 3


def test_times_in_seconds_or_milliseconds_that_are_no_date_are_null_and_others_stay() -> None:
    for unit, parts in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        first, last = -62_135_510_400 * parts, 253_402_214_399 * parts
        inside = [0, 7 * parts] if unit == "ns" else [first, 0, 7 * parts, last]
        outside = [] if unit == "ns" else [first - 1, last + 1, -(2**63), 2**63 - 1]
        found = utc_micros(pa.array([*inside, *outside, None], pa.int64()).cast(pa.timestamp(unit)))
        assert found.cast(pa.int64()).to_pylist() == [one * 10**6 // parts for one in inside] + [None] * (len(outside) + 1)
        assert all(one is None or one.astimezone() for one in found.to_pylist())


def test_the_schema_of_records_is_reported_before_spark_starts(tmp_path: Path, shop: Path) -> None:
    table = pq.read_table(shop / "consumer_offsets.parquet").slice(0, 5)
    pq.write_table(table.drop_columns(["offset"]), tmp_path / "consumer_offsets.parquet")
    with pytest.raises(CaptureError, match="column offset missing"):
        read_capture(tmp_path)


def test_a_column_in_the_path_is_no_missing_one(tmp_path: Path, shop: Path) -> None:
    table = pq.read_table(shop / "consumer_offsets.parquet").slice(0, 5).drop_columns(["partition"])
    (tmp_path / "consumer_offsets.parquet" / "partition=5").mkdir(parents=True)
    pq.write_table(table, tmp_path / "consumer_offsets.parquet" / "partition=5" / "a.parquet")
    read_capture(tmp_path)


def test_a_capture_with_a_column_in_the_path_may_be_below_a_folder_of_that_name(tmp_path: Path, shop: Path) -> None:
    """The last folder of the name has the value."""
    folder = tmp_path / "partition=archive" / "consumer_offsets.parquet" / "partition=5"
    folder.mkdir(parents=True)
    table = pq.read_table(shop / "consumer_offsets.parquet").slice(0, 5).drop_columns(["partition"])
    pq.write_table(table, folder / "a.parquet")
    (file,) = read_capture(tmp_path / "partition=archive").files.records
    assert [batch["partition"].to_pylist() for batch in read_rows(file, RAW_TYPES, 1000)] == [[5] * 5]


def test_what_is_missing_is_noted(tmp_path: Path, shop: Path) -> None:
    shutil.copy(shop / "consumer_offsets.parquet", tmp_path)
    assert len(read_capture(tmp_path).notes) == 3


def test_damaged_records_are_counted_and_cost_only_themselves(shop: Path) -> None:
    """An unknown type, an unknown version, cut values, a null key and garbage inside a member: six rows, nothing else lost."""
    whole = pq.read_table(shop / "consumer_offsets.parquet").to_pylist()
    commit = next(row for row in whole if row["key"][:2] == b"\x00\x01" and row["value"])
    subscription = b"\x00\x03\x00\x00\x00\x01\x00\x06orders"
    group = next(row for row in whole if row["key"][:2] == b"\x00\x02" and subscription in (row["value"] or b""))
    inside = group["value"].replace(subscription, b"\x00\x03\x7f\xff\xff\xff\x00\x06orders", 1)
    bad = [
        {**commit, "key": b"\x00\x63abc"},
        {**commit, "value": b"\x00\x63" + commit["value"][2:]},
        {**commit, "value": commit["value"][:-3]},
        {**commit, "key": None},
        {**group, "value": group["value"][:-1]},
        {**group, "value": inside},
    ]
    records = pa.RecordBatch.from_pylist([*bad, commit, group], RAW_SCHEMA)
    errors = errors_in(records)
    assert len(errors) == 6
    assert all(row["reason"] for row in errors)
    assert sorted((row["record_type"] is None, row["record_type"]) for row in errors if row["record_type"] is not None) == [
        (False, kind) for kind in (1, 1, 2, 2, 99)
    ]
    assert commit_batch(records).num_rows == 1
    assert len(list(generation_rows(records))) == 2


def test_a_running_capture_may_merge_its_files_while_they_are_read(shop: Path, tmp_path: Path) -> None:
    for name in ("consumer_offsets.parquet", "log_offsets.parquet"):
        table = pq.read_table(shop / name).slice(0, 50)
        for number in ("1", "2"):
            (tmp_path / f"{name}-{number}").mkdir()
            pq.write_table(table, tmp_path / f"{name}-{number}" / f"{number}.parquet")
        (tmp_path / name).symlink_to(f"{name}-1")
    capture = read_capture(tmp_path)
    for name in ("consumer_offsets.parquet", "log_offsets.parquet"):
        (tmp_path / name).unlink()
        (tmp_path / name).symlink_to(f"{name}-2")
    assert [pq.read_table(list(files)).num_rows for files in (capture.files.records, capture.files.ends)] == [50, 50]


def test_a_capture_on_an_object_store_is_checked_as_on_a_disk(tmp_path: Path, shop: Path, s3: str) -> None:
    shutil.copytree(shop, tmp_path / "shop")
    (tmp_path / "shop" / "capture.json").write_text('{"source": "segments"}')
    folder = upload(tmp_path / "shop", join(s3, "history"))
    capture = read_capture(folder)
    assert capture.files == CaptureFiles(
        (join(folder, "consumer_offsets.parquet"),),
        (join(folder, "log_offsets.parquet"),),
        join(folder, "topics.json"),
        join(folder, "aborted_offsets.json"),
    )
    assert read_capture(folder.replace("s3://", "s3a://")).n_records == capture.n_records == read_capture(shop).n_records
    assert capture.notes == ("made from segment files: what compaction had removed is missing",)
    write_bytes(join(folder, "topics.json"), b"[]")
    with pytest.raises(CaptureError, match=rf"^{folder}/topics.json: \$: Expected `object`"):
        read_capture(folder)
    write_bytes(join(folder, "log_offsets.parquet"), b"PAR1")
    with pytest.raises(CaptureError, match=f"^{folder}/log_offsets.parquet: not a whole Parquet file"):
        read_capture(folder)
    with pytest.raises(CaptureError, match=f"^{s3}/nothing: no such file or folder"):
        read_capture(join(s3, "nothing"))


def test_a_folder_of_parquet_files_by_partition_is_taken_for_records(tmp_path: Path, shop: Path) -> None:
    (tmp_path / "partition=5").mkdir()
    pq.write_table(pq.read_table(shop / "consumer_offsets.parquet").slice(0, 5), tmp_path / "partition=5" / "a.parquet")
    (tmp_path / "_SUCCESS").touch()
    assert read_capture(tmp_path).files == CaptureFiles((str(tmp_path / "partition=5" / "a.parquet"),))


def test_workers_without_the_package_are_one_line(
    spark: SparkSession, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster where only the driver's Python has it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'counterpoise':\n"
        "            raise ModuleNotFoundError(f\"No module named '{name}'\")\n"
        "sys.meta_path.insert(0, Hidden())\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    with pytest.raises(MissingExtraError) as caught:
        audit(spark, shop, tmp_path / "out")
    assert str(caught.value).startswith(
        "the Python of Spark's workers has no counterpoise: install counterpoise[spark] there, or"
    )
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "out").glob("summary.json"))


@pytest.mark.parametrize("way", ["path", "DataFrame"])
def test_a_record_that_is_there_twice_is_refused_in_whichever_log_partition_and_order(
    spark: SparkSession, tmp_path: Path, shop: Path, way: str
) -> None:
    """The records of all log partitions are out of order, and a record of the last one is there twice."""
    records = pq.read_table(shop / "consumer_offsets.parquet").slice(0, 3_000)
    last = records.filter(pc.equal(records["partition"], pc.max(records["partition"]))).slice(5, 1)
    mixed = records.take(pa.array(np.random.default_rng(1).permutation(len(records))))
    pq.write_table(pa.concat_tables([mixed, last]), tmp_path / "mixed.parquet")
    source = tmp_path / "mixed.parquet" if way == "path" else spark.read.parquet(str(tmp_path / "mixed.parquet"))
    where = f"{tmp_path}/mixed.parquet" if way == "path" else "cluster default"
    place = f"the first at offset {last['offset'][0]} of log partition {last['partition'][0]}"
    with pytest.raises(CaptureError, match=f"^{where}: records there more than once: 1, {place}; drop the repeats"):
        audit(spark, source, tmp_path / "out", strategies=["sticky"])


def test_sources_skip_what_was_read_and_give_the_last_records_of_it(
    spark: SparkSession, shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = spark.read.parquet(str(shop / "consumer_offsets.parquet"))
    new = new_records(whole, {0: 100, 4: 7})
    expected = whole.where("partition NOT IN (0, 4) OR (partition = 0 AND offset >= 99) OR (partition = 4 AND offset >= 6)")
    assert sorted(new.select("partition", "offset").collect()) == sorted(expected.select("partition", "offset").collect())
    assert new_records(whole, {}).count() == whole.count()
    new.explain()
    assert "PushedFilters: [Or(Or(Not(In(partition, [0,4])),And(EqualTo(partition,0)" in capsys.readouterr().out


SINCE, UNTIL = datetime(2026, 11, 21, 4, 6, tzinfo=UTC), datetime(2026, 11, 21, 4, 9, tzinfo=UTC)
WINDOW = AuditScope(since=SINCE, until=UNTIL)


def after_a_clock_fell(shop: Path) -> pa.Table:
    """Log partitions 0 and 4; of the first one a record among those in `WINDOW` has a time before it."""
    records = pq.read_table(shop / "consumer_offsets.parquet", columns=list(RAW_TYPES))
    records = records.filter(pc.is_in(records["partition"], pa.array([0, 4], pa.int32())))
    (offset,) = at_time(records.filter(pc.is_valid(records["value"])), 0, SINCE + timedelta(minutes=1))["offset"].to_pylist()
    fell = pc.and_(pc.equal(records["partition"], 0), pc.equal(records["offset"], offset))
    stamps = pc.if_else(fell, pa.scalar(SINCE - timedelta(seconds=1), _UTC_US), records["timestamp"])
    return records.set_column(records.schema.get_field_index("timestamp"), "timestamp", stamps)


def at_time(records: pa.Table, partition: int, time: datetime) -> pa.Table:
    """The first record of a log partition from a time on."""
    later = pc.greater_equal(records["timestamp"], pa.scalar(time, _UTC_US))
    return records.filter(pc.and_(pc.equal(records["partition"], partition), later)).slice(0, 1)


def test_a_record_that_is_there_twice_is_refused_if_the_clock_of_another_log_partition_fell(
    spark: SparkSession, tmp_path: Path, shop: Path
) -> None:
    records = after_a_clock_fell(shop)
    twice, outside = at_time(records, 4, SINCE), at_time(records, 4, UNTIL + timedelta(minutes=1))
    pq.write_table(pa.concat_tables([records, twice, outside]), tmp_path / "c.parquet")
    with pytest.raises(CaptureError, match=f"more than once: 1, the first at offset {twice['offset'][0]} of log partition 4;"):
        audit(spark, tmp_path / "c.parquet", tmp_path / "out", strategies=["sticky"], scope=WINDOW)


def test_records_that_are_there_twice_outside_the_window_change_nothing(spark: SparkSession, tmp_path: Path, shop: Path) -> None:
    records = after_a_clock_fell(shop)
    before, after = SINCE - timedelta(minutes=2), UNTIL + timedelta(minutes=1)
    twice = pa.concat_tables(at_time(records, partition, time) for partition in (0, 4) for time in (before, after))
    assert len(twice) == 4
    made = []
    for number, rows in enumerate((records, pa.concat_tables([records, twice]))):
        pq.write_table(rows, tmp_path / f"{number}.parquet")
        made.append(audit(spark, tmp_path / f"{number}.parquet", tmp_path / f"{number}", strategies=["sticky"], scope=WINDOW))
    one, other = made
    assert one.summary["records"] == other.summary["records"]
    assert [name for name in TABLES if comparable_rows(one.out, name) != comparable_rows(other.out, name)] == []


def test_a_first_sample_that_comes_while_a_capture_is_read_is_for_the_next_reader(
    tmp_path: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(shop, tmp_path / "c", ignore=shutil.ignore_patterns(ENDS_FILE))

    def then_it_comes(place: str) -> list[str]:
        found = parquet_files(place)
        if place.endswith(ENDS_FILE):
            shutil.copyfile(shop / ENDS_FILE, tmp_path / "c" / ENDS_FILE)
        return found

    monkeypatch.setattr(capture, "parquet_files", then_it_comes)
    assert read_capture(tmp_path / "c").files.ends == ()
