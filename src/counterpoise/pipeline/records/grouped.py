"""Arrow batches a few rows at a time: how many depends on how large the rows are, so that a huge group costs no more memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import pyarrow as pa

__all__ = ["AT_ONCE", "by_group", "portions"]

AT_ONCE = 1 << 20
"""Bytes of Arrow that become Python objects at once (these take ten to twenty times as much)."""
_ROWS_AT_ONCE = 64


def by_group(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[tuple[str, str], Iterator[Mapping[str, Any]]]]:
    """((cluster, group id), its rows) for batches that are sorted by the two.

    A run may be left half read; it must not be read after the next one was asked for.
    """
    rows = (row for batch in batches for portion in portions(batch) for row in portion.to_pylist())
    yield from groupby(rows, key=lambda row: (row["cluster"], row["group_id"]))


def portions(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in slices of at most 64 rows and, but for single rows, about `AT_ONCE` bytes each."""
    of_row = batch.nbytes / max(batch.num_rows, 1)
    at_once = max(1, min(_ROWS_AT_ONCE, int(AT_ONCE / max(of_row, 1.0))))
    for start in range(0, batch.num_rows, at_once):
        yield batch.slice(start, at_once)
