"""The audit as a whole: any DataFrame will do, the same input gives the same tables, and nothing comes to the driver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from counterpoise.errors import CaptureError, UnknownStrategyError
from counterpoise.pipeline.audit import audit, run_audit
from counterpoise.pipeline.findings import Finding
from counterpoise.pipeline.schemas import TABLES
from tests.pipeline.conftest import Audited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def small(spark: SparkSession, shop: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], list[int]]:
    """Partition 5 of the capture as a plain DataFrame, one damaged record in it; with the sizes of what was collected."""
    records = spark.read.parquet(str(shop / "consumer_offsets.parquet")).where("partition = 5")
    bad = spark.createDataFrame(
        [(b"\x00\x01\x00\x01g", b"x", 5, 1_000_000)], "key binary, value binary, partition int, offset long"
    )
    whole = records.unionByName(bad, allowMissingColumns=True)
    sizes: list[int] = []
    collect = type(records).collect

    def counted(frame: DataFrame) -> list[Any]:
        rows = collect(frame)
        sizes.append(len(rows))
        return rows

    out = tmp_path_factory.mktemp("small")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(records), "collect", counted)
        audit(spark, whole, out, cluster="west", strategies=["range", "sticky"])
        result = audit(spark, whole, out, cluster="west", strategies=["range", "sticky"])
    return out, result.summary, sizes


def test_a_damaged_record_is_counted_and_nothing_else_is_lost(small: tuple[Path, dict[str, Any], list[int]]) -> None:
    out, summary, _ = small
    (error,) = pq.read_table(out / "tables" / "decode_errors").to_pylist()
    assert (error["cluster"], error["log_offset"], error["record_type"]) == ("west", 1_000_000, 1)
    assert error["reason"]
    records = summary["records"]
    assert records["errors"] == 1
    told = ("commits", "commit_tombstones", "group_metadata", "group_metadata_tombstones", "modern", "errors")
    assert records["total"] == sum(records[name] for name in told)


def test_auditing_twice_adds_nothing(small: tuple[Path, dict[str, Any], list[int]]) -> None:
    out, summary, _ = small
    for name, about in summary["tables"].items():
        assert pq.read_table(out / about["path"]).num_rows == about["rows"], name


def test_only_sums_come_to_the_driver(small: tuple[Path, dict[str, Any], list[int]]) -> None:
    _, summary, sizes = small
    assert sizes
    assert max(sizes) <= 200
    assert summary["records"]["total"] > 1000


def test_without_companions_lag_is_unknown_and_said_to_be(small: tuple[Path, dict[str, Any], list[int]]) -> None:
    out, summary, _ = small
    assert set(pq.read_table(out / "tables" / "partition_lag")["quality"].to_pylist()) == {"unknown"}
    assert "lag is unknown" in summary["notes"][0]


def test_tables_have_the_columns_of_their_schemas(audited: Audited) -> None:
    for name, schema in TABLES.items():
        assert pq.read_schema(next((audited.result.out / "tables" / name).glob("*.parquet"))).names == schema.names


def test_summary_is_what_was_written(audited: Audited) -> None:
    written = json.loads((audited.result.out / "summary.json").read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(audited.result.summary))
    assert list(written)[:3] == ["format", "source", "cluster"]


def test_findings_are_ranked_and_equal_the_table(audited: Audited) -> None:
    rows = sorted(audited.table("findings"), key=lambda row: row["rank"])
    told = audited.result.findings
    assert all(isinstance(finding, Finding) for finding in told)
    assert [finding.rank for finding in told] == [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    assert [(f.kind, f.group_id, f.at) for f in told] == [(row["kind"], row["group_id"], row["at"]) for row in rows]
    assert [round(finding.score, 6) for finding in told] == [round(row["score"], 6) for row in rows]
    assert all(finding.numbers for finding in told)


def test_wrong_use_is_told_before_spark_works(spark: SparkSession, tmp_path: Path, shop: Path) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        run_audit(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(UnknownStrategyError, match="nonsense"):
        audit(spark, shop, tmp_path / "out", strategies=["nonsense"])
    assert not (tmp_path / "out").exists()
