"""A sorted stream of Arrow batches as one run of rows per group, holding a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import pyarrow as pa

__all__ = ["by_group"]

_ROWS_AT_ONCE = 64


def by_group(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[tuple[str, str], Iterator[Mapping[str, Any]]]]:
    """((cluster, group id), its rows) for batches that are sorted by the two.

    A run may be left half read; it must not be read after the next one was asked for.
    """
    rows = (row for batch in batches for start in range(0, batch.num_rows, _ROWS_AT_ONCE) for row in _rows(batch, start))
    yield from groupby(rows, key=lambda row: (row["cluster"], row["group_id"]))


def _rows(batch: pa.RecordBatch, start: int) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = batch.slice(start, _ROWS_AT_ONCE).to_pylist()
    return listed
