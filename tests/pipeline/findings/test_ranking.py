"""Findings as a table: ranked over all clusters, with one finding per cluster of its groups without members, both ways."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.pipeline.direct.report.ranks import rank_findings
from counterpoise.pipeline.findings.ranking import finding_batches, findings
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.schemas import FINDINGS, GROUP_REPORT
from tests.pipeline.findings.test_findings import CASES, healthy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [
    healthy(group_id="slow", **CASES["slow_leader"]),
    *(healthy(group_id=f"empty-{at}", state="empty", lag_now=900 * at) for at in range(4)),
    healthy(group_id="gone", **CASES["storm"] | {"state": "deleted"}),
    healthy(group_id="alone", cluster="west", state="empty", lag_now=5),
]
RANKED = [
    ("default", "slow_leader", "slow", "the leader took 1,500 ms to assign"),
    ("default", "dead_groups", "empty-3", "4 groups have no members"),
    ("west", "dead_groups", "alone", "no members since 2026-01-01 12:30:00 UTC"),
]


def test_spark_and_one_task_give_the_same_ranked_findings(spark: SparkSession, tmp_path: Path) -> None:
    columns = ["cluster", "kind", "group_id", "title", "action", "score", "rank"]
    report = pa.Table.from_pylist(ROWS, schema=arrow_schema(GROUP_REPORT))
    pq.write_table(report, tmp_path / "report.parquet")
    rows = findings(spark.read.schema(GROUP_REPORT).parquet(str(tmp_path / "report.parquet"))).orderBy("rank").collect()
    assert [tuple(row[name] for name in columns[:4]) for row in rows] == RANKED
    files = []
    for at, part in enumerate((report[:3], report[3:])):
        (batch,) = finding_batches(part.combine_chunks().to_batches())
        files.append(str(tmp_path / f"found-{at}.parquet"))
        pq.write_table(pa.Table.from_batches([batch], schema=arrow_schema(FINDINGS)), files[-1])
    told = rank_findings(files, str(tmp_path), {"default": 0, "west": 0})
    assert [[row[name] for name in columns] for row in told["top"]] == [[row[name] for name in columns] for row in rows]
    assert told["kinds"] == [["notice", "dead_groups", 1], ["warning", "dead_groups", 1], ["warning", "slow_leader", 1]]
