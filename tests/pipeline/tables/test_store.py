"""Tables as they are kept: by cluster and day, appended to, no row twice; in folders and in a catalog."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from counterpoise.errors import CaptureError, OptionError
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.tables import catalog, store
from counterpoise.pipeline.tables.catalog import Catalog
from counterpoise.pipeline.tables.keyed import KEYS, stored
from counterpoise.pipeline.tables.paths import NO_DAY, table_files
from counterpoise.pipeline.tables.transaction import TableTransaction
from tests.pipeline.conftest import rows_of
from tests.pipeline.tables import targets
from tests.pipeline.tables.targets import Folder, Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
ODD = "2026 a/b=c"
"""A name of a cluster that is no word, and that a reader could take for a number or a path."""


def table(spark: SparkSession, name: str, *rows: Mapping[str, Any]) -> DataFrame:
    """Rows of a table; what is not given is null."""
    schema = from_arrow_schema(TABLES[name])
    return spark.createDataFrame([tuple(row.get(column) for column in schema.names) for row in rows], schema)


def commit(offset: int, hours: float, *, cluster: str = "east", group: str = "g") -> dict[str, Any]:
    place = {"cluster": cluster, "log_partition": 0, "log_offset": offset, "log_ts": MIDNIGHT + timedelta(hours=hours)}
    return {**place, "group_id": group, "topic": "t", "partition": 0, "committed_offset": offset, "deleted": False}


@pytest.fixture
def lake(spark: SparkSession) -> Iterator[Catalog]:
    """An empty schema of the session's own catalog."""
    spark.sql("CREATE DATABASE audits")
    yield Catalog("audits", "shop_")
    spark.sql("DROP DATABASE audits CASCADE")


@pytest.fixture(params=["folder", "lake"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """An empty folder, and an empty schema."""
    if request.param == "folder":
        return Folder(tmp_path / "tables")
    lake: Catalog = request.getfixturevalue("lake")
    return lake


def offsets(spark: SparkSession, target: Target) -> list[tuple[str, date, int]]:
    found = targets.read(spark, "offset_commits", target)
    assert found.columns == stored("offset_commits").names
    return sorted((row["cluster"], row["date"], row["log_offset"]) for row in found.collect())


def test_the_same_rows_again_add_nothing_and_later_ones_only_what_is_new(spark: SparkSession, target: Target) -> None:
    """Three rows on two days in UTC; then the last of them, a new one of the same day, and one of another cluster."""
    first = table(spark, "offset_commits", commit(1, -2), commit(2, -0.001), commit(3, 0))
    before, on = date(2026, 3, 1), date(2026, 3, 2)
    expected = [("east", before, 1), ("east", before, 2), ("east", on, 3)]
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
        targets.write(first, "offset_commits", target)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert offsets(spark, target) == expected
    targets.write(first, "offset_commits", target)
    assert offsets(spark, target) == expected
    more = [commit(3, 0), commit(4, 1), commit(3, 0, cluster=ODD, group="other")]
    targets.write(table(spark, "offset_commits", *more), "offset_commits", target)
    assert offsets(spark, target) == sorted([*expected, ("east", on, 4), (ODD, on, 3)])


def test_tables_of_the_end_of_a_recording_are_replaced_on_their_day_only(spark: SparkSession, target: Target) -> None:
    for day, rows in ((1, {"a": 1, "b": 1}), (2, {"a": 2, "b": 2}), (2, {"a": 3})):
        report = table(spark, "group_report", *({"cluster": "east", "group_id": g, "rebalances": n} for g, n in rows.items()))
        targets.write(report.withColumn("date", fn.lit(date(2026, 3, day))), "group_report", target)
    found = targets.read(spark, "group_report", target).collect()
    assert sorted((row["date"].day, row["group_id"], row["rebalances"]) for row in found) == [
        (1, "a", 1),
        (1, "b", 1),
        (2, "a", 3),
    ]


def test_rows_that_no_longer_hold_at_the_end_are_deleted_even_if_none_replace_them(spark: SparkSession, tmp_path: Path) -> None:
    kept = Folder(tmp_path / "tables")
    for day in (1, 2):
        found = table(spark, "findings", {"cluster": "east", "rank": 1}).withColumn("date", fn.lit(date(2026, 3, day)))
        targets.write(found, "findings", kept)
    with (work := TableTransaction(kept.out)).open():
        work.publish(*store.merge(spark, "findings", {}, work, {"cluster=east/date=2026-03-02"}), {})
    assert [row["date"].day for row in targets.read(spark, "findings", kept).collect()] == [1]


def test_rows_that_no_longer_hold_at_the_end_are_deleted_from_a_catalog(spark: SparkSession, lake: Catalog) -> None:
    for day, cluster in ((1, ODD), (2, ODD), (2, "it's \\"), (2, "west")):
        found = table(spark, "findings", {"cluster": cluster, "rank": 1}).withColumn("date", fn.lit(date(2026, 3, day)))
        catalog.add(found, "findings", lake)
    none = table(spark, "findings").withColumn("date", fn.lit(None).cast("date"))
    catalog.add(none, "findings", lake, {(ODD, date(2026, 3, 2)), ("it's \\", date(2026, 3, 2)), ("other", date(2026, 3, 2))})
    left = {(row["cluster"], row["date"].day) for row in targets.read(spark, "findings", lake).collect()}
    assert left == {(ODD, 1), ("west", 2)}


def test_a_format_that_cannot_replace_rows_gets_the_final_ones_of_an_update(
    spark: SparkSession, lake: Catalog, tmp_path: Path
) -> None:
    """What it lacks is said; a whole audit has final rows only."""
    names, empty = TableTransaction(str(tmp_path)).new_files, {"group_report": list[str](), "rebalances": list[str]()}
    steps = [table(spark, "rebalances", {**commit(offset, 0), "generation": 1}) for offset in (1, 2)]
    dated = [step.withColumn("date", fn.lit(MIDNIGHT.date())) for step in steps]
    files = [store.written(step, "rebalances", names) for step in dated]
    final, provisional = ({**empty, "rebalances": some} for some in files)
    assert store.add_to_catalog(spark, lake, final, empty) == []
    assert store.add_to_catalog(spark, lake, final, provisional, empty) == ["rebalances"]
    assert [row["log_offset"] for row in targets.read(spark, "rebalances", lake).collect()] == [1]


def test_folders_that_a_killed_audit_filled_unknown_to_the_catalog_are_not_filled_again(
    spark: SparkSession, lake: Catalog, tmp_path: Path
) -> None:
    """Spark writes the files of a day before it adds the day to its catalog."""
    rows = table(spark, "offset_commits", commit(1, 0), commit(2, 0))
    targets.write(rows, "offset_commits", lake)
    full = lake.table("offset_commits")
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {full}").where("col_name = 'Location'").first()
    assert described is not None
    day = Path(described["data_type"].removeprefix("file:")) / "cluster=east" / "date=2026-03-02"
    shutil.copytree(day, tmp_path / "day")
    spark.sql(f"ALTER TABLE {full} DROP PARTITION (cluster='east', date='2026-03-02')")
    shutil.copytree(tmp_path / "day", day)
    assert offsets(spark, lake) == []
    targets.write(rows, "offset_commits", lake)
    assert [offset for *_, offset in offsets(spark, lake)] == [1, 2]


def test_a_table_that_was_made_by_others_is_taken_in_its_own_format_and_refused_with_other_columns(
    spark: SparkSession, lake: Catalog
) -> None:
    full = lake.table("offset_commits")
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in reversed(stored("offset_commits").fields))
    spark.sql(f"CREATE TABLE {full} ({columns}) USING orc PARTITIONED BY (date, cluster)")
    for _ in range(2):
        targets.write(table(spark, "offset_commits", commit(1, 0)), "offset_commits", lake)
    (row,) = targets.read(spark, "offset_commits", lake).collect()
    assert (row["group_id"], row["topic"], row["committed_offset"], row["log_ts"].astimezone(UTC)) == ("g", "t", 1, MIDNIGHT)
    wrong = {"cluster string, date date": "no column log_partition, ", columns: "columns of its own: team"}
    for there, words in wrong.items():
        spark.sql(f"DROP TABLE {full}")
        spark.sql(f"CREATE TABLE {full} (team string, {there})")
        with pytest.raises(CaptureError, match=rf"^audits\.shop_offset_commits: has {words}.*another --table-prefix"):
            targets.write(table(spark, "offset_commits", commit(1, 0)), "offset_commits", lake)


def test_a_table_without_a_row_is_read_by_any_engine_and_takes_rows_later(spark: SparkSession, tmp_path: Path) -> None:
    """Of every other table in turn the empty file is in the folder of a day, or of none."""
    target = Folder(tmp_path / "tables")
    targets.write(table(spark, "offset_commits", commit(1, 0)), "offset_commits", target)
    with (work := TableTransaction(target.out)).open():
        days = dict(zip(TABLES, cycle(("2026-03-02", NO_DAY)), strict=False))
        none = [store.empty_file(name, ODD, day, work.new_files) for name, day in days.items() if name != "offset_commits"]
        work.publish(none, (), {})
    for name in TABLES:
        wanted = {field.name: field.dataType for field in stored(name).fields if field.name not in ("cluster", "date")}
        found = spark.read.parquet(f"{target.path}/{name}")
        assert {field.name: field.dataType for field in found.schema.fields if field.name in wanted} == wanted, name
        assert {"cluster", "date"} <= set(found.columns), name
        assert found.count() == len(rows_of(tmp_path, name)) == (name == "offset_commits"), name
    error = {"cluster": ODD, "log_partition": 0, "log_offset": 1, "log_ts": MIDNIGHT, "reason": "r", "key": b"k", "value": b"v"}
    for _ in range(2):
        targets.write(table(spark, "decode_errors", error), "decode_errors", target)
    assert [row["reason"] for row in rows_of(tmp_path, "decode_errors")] == ["r"]


def test_records_of_another_cluster_under_the_same_name_are_refused(spark: SparkSession, target: Target) -> None:
    targets.write(table(spark, "offset_commits", commit(1, 1), commit(2, 2)), "offset_commits", target)
    for stranger in (commit(2, 2.5), commit(2, 2, group="other")):
        with pytest.raises(CaptureError, match=r"another record of cluster east at partition 0, offset 2; two clusters need"):
            targets.write(table(spark, "offset_commits", commit(3, 3), stranger), "offset_commits", target)
    assert [offset for *_, offset in offsets(spark, target)] == [1, 2]


def test_one_capture_under_two_names_is_refused_in_one_audit_and_in_a_later_one(spark: SparkSession, tmp_path: Path) -> None:
    """Another offset, time or group is another record: clusters may have groups of one name."""
    target = Folder(tmp_path / "tables")
    words = r"cluster 2026 a/b=c is cluster east by another name \(offset_commits, log partition 0, offset 2\); one capture has"
    first = [commit(1, -1), commit(2, 1)]
    again = [{**row, "cluster": ODD} for row in first]
    with pytest.raises(CaptureError, match=words):
        targets.write(table(spark, "offset_commits", commit(2, 1), commit(2, 1, cluster=ODD)), "offset_commits", target)
    targets.write(table(spark, "offset_commits", *first), "offset_commits", target)
    with pytest.raises(CaptureError, match=rf"{words} one name: give --cluster east, or another --out$"):
        targets.write(table(spark, "offset_commits", again[1], commit(5, 3, cluster=ODD)), "offset_commits", target)
    others = [commit(1, -2), commit(2, 1, group="other"), commit(3, 1)]
    targets.write(table(spark, "offset_commits", *({**row, "cluster": ODD} for row in others)), "offset_commits", target)
    assert [(cluster, offset) for cluster, _, offset in offsets(spark, target)] == [
        *((ODD, offset) for offset in (1, 2, 3)),
        *(("east", offset) for offset in (1, 2)),
    ]


def test_records_of_a_cluster_that_is_alone_on_its_days_are_not_looked_at(tmp_path: Path) -> None:
    """There is nobody whose records they could be: no file is opened."""
    with (work := TableTransaction(str(tmp_path / "out"))).open():
        new = {"cluster=east/date=2026-03-01": ["nowhere.parquet"], "cluster=west/date=2026-03-02": ["nowhere.parquet"]}
        store.check_cluster_is_new("offset_commits", new, work)
        with pytest.raises(CaptureError, match="nowhere"):
            store.check_cluster_is_new("offset_commits", {**new, "cluster=west/date=2026-03-01": ["nowhere.parquet"]}, work)


def test_rows_without_a_time_are_kept_once(spark: SparkSession, target: Target) -> None:
    place = {"cluster": "east", "log_partition": 1, "reason": "null offset, timestamp", "key": b"k"}
    errors = table(spark, "decode_errors", place, {**place, "key": b"other"}, {**place, "log_offset": 7, "log_ts": MIDNIGHT})
    for _ in range(2):
        targets.write(errors, "decode_errors", target)
    found = targets.read(spark, "decode_errors", target).collect()
    assert sorted((row["date"] is None, bytes(row["key"])) for row in found) == [(False, b"k"), (True, b"k"), (True, b"other")]


def test_folders_are_read_without_spark_and_nothing_unfinished_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    target = Folder(tmp_path / "tables")
    targets.write(table(spark, "offset_commits", commit(1, 0, cluster=ODD)), "offset_commits", target)
    with (work := TableTransaction(target.out)).open():
        store.empty_file("offset_commits", "east", "2026-03-02", work.new_files)
        (row,) = rows_of(tmp_path, "offset_commits")
        assert targets.read(spark, "offset_commits", target).count() == 1
    assert (row["cluster"], row["log_offset"], row["log_ts"]) == (ODD, 1, MIDNIGHT)
    assert len(table_files(f"{target.path}/offset_commits")) == 1
    targets.write(table(spark, "metrics"), "metrics", target)
    assert rows_of(tmp_path, "metrics") == []
    assert targets.read(spark, "metrics", target).count() == 0


def test_a_table_on_an_object_store_is_appended_to_and_read(spark: SparkSession, s3: str) -> None:
    target = Folder(f"{s3}/out/tables")
    targets.write(table(spark, "offset_commits", commit(1, -2), commit(2, 0)), "offset_commits", target)
    targets.write(table(spark, "offset_commits", commit(2, 0), commit(3, 0, cluster=ODD)), "offset_commits", target)
    assert [(cluster, offset) for cluster, _, offset in offsets(spark, target)] == [(ODD, 3), ("east", 1), ("east", 2)]
    with pytest.raises(CaptureError, match="another record of cluster east at partition 0, offset 2"):
        targets.write(table(spark, "offset_commits", commit(2, 0.5)), "offset_commits", target)


def test_the_page_of_tables_has_every_column_in_its_order() -> None:
    """Each section of docs/tables.md, with the columns that most tables have, against the schema as stored."""
    page = (Path(__file__).parents[3] / "docs" / "tables.md").read_text(encoding="utf-8")
    head, *parts = page.split("\n## ")
    sections = {part.split("\n", 1)[0]: part for part in parts}
    assert list(sections) == [*TABLES, "Client libraries"]
    del sections["Client libraries"]
    common, places = {}, []
    for column, place in re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", head, re.MULTILINE):
        named = re.findall(r"`(\w+)`", place)
        if place != "the same":
            places = [name for name in TABLES if (name in named) is not place.startswith("all")]
        common[column] = places
    for name, part in sections.items():
        rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| [^|]{3,} \|$", part, re.MULTILINE)
        shared = {column for column, places in common.items() if name in places}
        stored_names = stored(name).names
        assert re.findall(r"\w+", " ".join(rows)) == [column for column in stored_names if column not in shared], name
        assert shared <= set(stored_names), name
        for column in KEYS.get(name, ()):
            assert f"`{column}`" in part.split("| column |")[0], (name, column)


def test_wrong_targets_get_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="--into nowhere: no such schema"):
        catalog.check_target(spark, Catalog("nowhere"))
    with pytest.raises(CaptureError, match="no such table; run the audit again"):
        targets.read(spark, "metrics", Folder(tmp_path))
    with pytest.raises(OptionError, match="kept in memory here and forgotten when the audit ends"):
        catalog.check_lasting(spark, Catalog("default"))
    catalog.check_lasting(spark, Catalog("lake.audits"))
    with pytest.raises(CaptureError, match=r"^audits\.a b_metrics: .*INVALID_SCHEMA_OR_RELATION_NAME"):
        catalog.add(table(spark, "metrics"), "metrics", Catalog("audits", "a b_"))
