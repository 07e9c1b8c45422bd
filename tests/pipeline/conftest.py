"""The shop capture, raw and audited once for all tests of this folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.audit import AuditResult, audit
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.capture import Capture, read_capture
from counterpoise.pipeline.tables.paths import dataset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOP = Path(__file__).parents[2] / "examples" / "shop"
COLUMNS = ["key", "value", "partition", "offset", "timestamp"]
# What the session of the tests does without (tests/conftest.py).
AS_USERS_HAVE = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
# Clusters, a server of Connect, catalogs, Spark's Kafka source, full disks, a week of kills: minutes.
# In the long profile, or when the file is named.
_LONG = [
    *("test_cluster.py", "test_machine_faults.py", "test_spark_pages.py", "tables/test_catalogs.py", "capture/test_week.py"),
    "capture/test_spark_kafka.py",
]
collect_ignore = [] if os.environ.get("COUNTERPOISE_PROFILE") == "long" else _LONG


@dataclass(frozen=True)
class Audited:
    """A finished audit and its tables."""

    result: AuditResult

    def table(self, name: str, *columns: str) -> list[dict[str, Any]]:
        """The rows of one table, by Arrow."""
        return rows_of(self.result.out, name, *columns)


def rows_of(out: Path | str, name: str, *columns: str) -> list[dict[str, Any]]:
    """The rows of a stored table; without names of columns, those of its schema."""
    found = dataset(f"{out}/tables/{name}")
    rows: list[dict[str, Any]] = found.to_table(columns=list(columns or TABLES[name].names)).to_pylist() if found.files else []
    return rows


@pytest.fixture(scope="session")
def shop() -> Path:
    """The folder of the capture."""
    return SHOP


@pytest.fixture(scope="session")
def raw() -> pa.RecordBatch:
    """All records of the capture as one batch with the columns that decoding reads."""
    table = pq.read_table(SHOP / "consumer_offsets.parquet", columns=COLUMNS)
    return table.combine_chunks().to_batches()[0]


@pytest.fixture(scope="session")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """The capture, audited with Spark's own settings, as a user does."""
    frugal = {name: spark.conf.get(name) for name in AS_USERS_HAVE}
    for name, value in AS_USERS_HAVE.items():
        spark.conf.set(name, value)
    try:
        return Audited(audit(spark, SHOP, tmp_path_factory.mktemp("audit")))
    finally:
        for name, before in frugal.items():
            spark.conf.set(name, str(before))


def data_frames(spark: SparkSession, folder: Path) -> Capture:
    """A capture with its records as a DataFrame."""
    capture = read_capture(folder)
    records = spark.read.parquet(str(folder / "consumer_offsets.parquet"))
    return replace(capture, files=replace(capture.files, records=()), records=records)
