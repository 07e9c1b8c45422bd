"""The shop capture, raw and audited once for all tests of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.audit import AuditResult, audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOP = Path(__file__).parents[2] / "examples" / "shop"
COLUMNS = ["key", "value", "partition", "offset", "timestamp"]


@dataclass(frozen=True)
class Audited:
    """A finished audit and its tables."""

    result: AuditResult

    def table(self, name: str, *columns: str) -> list[dict[str, Any]]:
        """The rows of one table, by Arrow."""
        read = pq.read_table(self.result.out / "tables" / name, columns=list(columns) or None)
        rows: list[dict[str, Any]] = read.to_pylist()
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
    """The capture, audited."""
    return Audited(audit(spark, SHOP, tmp_path_factory.mktemp("audit")))
