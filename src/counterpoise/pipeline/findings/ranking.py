"""Table `findings`: what the rules find in every group, ranked over the fleet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from counterpoise.pipeline.findings import findings_of
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.schemas import FINDINGS

__all__ = ["finding_batches", "findings"]


def findings(report: DataFrame) -> DataFrame:
    """Table `findings` from `group_report`; rank 1 is the most important of all clusters, ties go by group and kind."""
    found = report.mapInArrow(finding_batches, FINDINGS)
    order = Window.partitionBy(fn.lit(0)).orderBy(fn.desc("score"), "group_id", "kind", "cluster")
    return found.withColumn("rank", fn.row_number().over(order)).select(*FINDINGS.names)


def finding_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: rows of `GROUP_REPORT` -> rows of `FINDINGS`, rank 0."""
    schema = arrow_schema(FINDINGS)
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            for found in findings_of(row):
                numbers = [(name, float(value)) for name, value in found.numbers.items()]
                rows.append({**{name: getattr(found, name) for name in schema.names}, "numbers": numbers})
        yield pa.RecordBatch.from_pylist(rows, schema=schema)
