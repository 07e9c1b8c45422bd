"""Rows of the table `findings`: what the rules find in every group; ranked over the fleet they are by `direct.report.ranks`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa

from counterpoise.pipeline.findings import Finding, findings_of
from counterpoise.pipeline.findings.life import dead_together
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.schemas import FINDINGS

__all__ = ["PER_CLUSTER", "dead_batches", "finding_batches"]

PER_CLUSTER = "dead_groups"
"""The kind of which a cluster has one finding at most."""
_SCHEMA = arrow_schema(FINDINGS)


def finding_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: rows of `GROUP_REPORT` -> rows of `FINDINGS`, rank 0."""
    for batch in batches:
        yield _batch(found for row in batch.to_pylist() for found in findings_of(row))


def dead_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: rows of `FINDINGS` of kind `PER_CLUSTER`, by cluster and the worst first -> one row per cluster.

    A single group's finding stays as it is. All rows of a cluster are held.
    """
    rows = (row for batch in batches for row in batch.to_pylist())
    for _, of_cluster in groupby(rows, key=lambda row: row["cluster"]):
        listed = list(of_cluster)
        if len(listed) == 1:
            yield pa.RecordBatch.from_pylist(listed, schema=_SCHEMA)
        else:
            yield _batch([dead_together(listed)])


def _batch(found: Iterable[Finding]) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = []
    for one in found:
        numbers = [(name, float(value)) for name, value in one.numbers.items()]
        rows.append({**{name: getattr(one, name) for name in _SCHEMA.names}, "numbers": numbers})
    return pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)
