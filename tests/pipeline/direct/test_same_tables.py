"""Captures that Arrow reads give the tables of captures that Spark reads, row by row, and the same summary.

Three clusters: a part of the shop in several files, with damaged commits and one that never took effect; a small made-up fleet
whose times are whole seconds, so that commits, samples and steps fall together; and recorded groups of KIP-848, one of which was
upgraded and downgraded.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.audit import AuditResult, audit
from counterpoise.pipeline.direct import direct
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.sources import read_capture
from counterpoise.pipeline.synthetic.capture import synthesize
from counterpoise.pipeline.synthetic.fleet import Fleet
from tests.pipeline.conftest import rows_of
from tests.pipeline.test_epochs import RECORDED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTERS = ("eu/west: 1", "made up", "by brokers")
LOG_PARTITIONS = (0, 1, 4)
"""With groups of both protocols, and one whose members polled too late."""
UNFILLED = ["rebalances_per_day", "suggested_strategy", "suggestion", "migration_note"]
"""Columns of `group_report` that only longer recordings or more strategies fill."""
ABORTED = 40


@pytest.fixture(scope="module")
def captures(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The captures by cluster."""
    out = tmp_path_factory.mktemp("captures")
    return dict(zip(CLUSTERS, (part_of_shop(shop, out / "shop"), whole_seconds(out / "fleet"), RECORDED), strict=True))


def part_of_shop(shop: Path, out: Path) -> Path:
    out.mkdir()
    whole = pq.read_table(shop / "consumer_offsets.parquet")
    records = whole.filter(pc.is_in(whole["partition"], pa.array(LOG_PARTITIONS, pa.int32())))
    odd = records.slice(0, 3).to_pylist()
    odd[0] |= {"key": b"\x00\x01\x00", "offset": 10_000_000}
    odd[1] |= {"value": b"\x00\x63", "offset": 10_000_001}
    odd[2] |= {"key": None, "offset": 10_000_002}
    records = pa.concat_tables([records, pa.Table.from_pylist(odd, records.schema)])
    folder = out / "consumer_offsets.parquet"
    folder.mkdir()
    third = len(records) // 3
    for at in range(3):
        # Not in the order of the log: a later file holds earlier records.
        pq.write_table(records.slice(third * (2 - at), third if at else None), folder / f"{at}.parquet", row_group_size=1500)
    shutil.copy(shop / "topics.json", out)
    pq.write_table(sampled_twice(pq.read_table(shop / "log_offsets.parquet")), out / "log_offsets.parquet", row_group_size=5000)
    commits = records.filter(pc.less(records["key"], b"\x00\x02")).slice(0, 100 * ABORTED).to_pylist()[::100]
    pairs = [[row["partition"], row["offset"]] for row in commits]
    (out / "aborted_offsets.json").write_text(json.dumps(pairs), encoding="utf-8")
    return out


def sampled_twice(ends: pa.Table) -> pa.Table:
    """As two recordings in one folder leave them: every tenth sample a second time, every hundredth with another end."""
    again = ends.take(pa.array(range(0, len(ends), 10)))
    odd = pa.array([at % 10 == 0 for at in range(len(again))])
    below = pc.if_else(odd, pc.subtract(again["log_end"], 1), again["log_end"])
    return pa.concat_tables([again.set_column(again.schema.get_field_index("log_end"), "log_end", below), ends])


def whole_seconds(out: Path) -> Path:
    synthesize(Fleet(records=6_000, groups=12, rebalances=90, seconds=900.0, sample_every=60.0, seed=3), out)
    records = pq.read_table(out / "consumer_offsets.parquet")
    seconds = pc.floor_temporal(records["timestamp"], unit="second")
    pq.write_table(
        records.set_column(records.schema.get_field_index("timestamp"), "timestamp", seconds), out / "consumer_offsets.parquet"
    )
    return out


def run(spark: SparkSession, captures: dict[str, Path], out: Path, *, direct: bool, **more: Any) -> AuditResult:
    read = {name: read_capture(spark, path) for name, path in captures.items()}
    assert all(capture.local is not None for capture in read.values())
    if not direct:
        read = {name: replace(capture, local=None) for name, capture in read.items()}
    return audit(spark, read, out, strategies=("sticky",), **more)


def rows(out: Path, name: str) -> list[str]:
    found = rows_of(out, name, *TABLES[name].names, "date")
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in found)


def differences(one: AuditResult, other: AuditResult) -> list[str]:
    """Tables and parts of the summary that differ."""
    parts = [part for part in {**one.summary, **other.summary} if one.summary.get(part) != other.summary.get(part)]
    return [name for name in TABLES if rows(one.out, name) != rows(other.out, name)] + [f"summary: {part}" for part in parts]


@pytest.fixture(scope="module")
def by_spark(spark: SparkSession, captures: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    """The audit without reading files by Arrow."""
    return run(spark, captures, tmp_path_factory.mktemp("spark") / "out", direct=False)


def test_the_tables_and_the_summary_are_the_same(
    spark: SparkSession, captures: dict[str, Path], by_spark: AuditResult, tmp_path: Path
) -> None:
    found = run(spark, captures, tmp_path / "out", direct=True)
    assert differences(found, by_spark) == []
    assert [name for name in TABLES if not rows(found.out, name)] == []
    report = rows_of(found.out, "group_report")
    assert [name for name in TABLES["group_report"].names if all(row[name] is None for row in report)] == UNFILLED
    assert any(row["skewed_topics"] for row in report)
    assert found.summary["records"]["errors"] == 3
    replayed = {row["group_id"] for row in rows_of(found.out, "metrics", "group_id")}
    assert replayed >= {"by-range", "by-uniform", "moved-over", "steady"}
    assert sorted(path.name for path in (found.out / "tables").iterdir()) == sorted(TABLES)
    lag = rows_of(found.out, "partition_lag", "cluster", "group_id", "topic", "partition", "at")
    assert len({tuple(row.values()) for row in lag}) == len(lag), "a row for each sample that is there twice"
    n = -(-pq.ParquetFile(captures[CLUSTERS[0]] / "log_offsets.parquet").metadata.num_rows // 110)
    told = f"{CLUSTERS[0]}: log_offsets.parquet: {n} samples are there more than once and differ; the largest log end counts"
    assert told in found.summary["notes"]


def test_where_tasks_know_no_samples_spark_finds_lag_and_the_tables_are_the_same(
    spark: SparkSession, captures: dict[str, Path], by_spark: AuditResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "sampled_in", lambda *_: None)
    assert differences(run(spark, captures, tmp_path / "out", direct=True), by_spark) == []


def test_hashed_names_are_the_same_too(spark: SparkSession, captures: dict[str, Path], tmp_path: Path) -> None:
    one = run(spark, {"only": captures["made up"]}, tmp_path / "direct", direct=True, salt="salt")
    other = run(spark, {"only": captures["made up"]}, tmp_path / "spark", direct=False, salt="salt")
    assert differences(one, other) == []
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["direct", "spark"]
