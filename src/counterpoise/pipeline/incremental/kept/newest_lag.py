"""The newest row of each partition in `partition_lag`, as far as the report asks for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from counterpoise.pipeline.direct.groups.held import coded
from counterpoise.pipeline.direct.lag.lag_rows import LAG_COLUMNS

__all__ = ["NEWEST", "newest_of"]

_KEY = ("group_id", "topic", "partition")
NEWEST = pa.schema([LAG_COLUMNS.field(name) for name in (*_KEY, "at", "owner", "lag", "quality")])


def newest_of(parts: Sequence[pa.Table | pa.RecordBatch]) -> pa.Table:
    """Of rows with `NEWEST` the last one of each partition."""
    whole = [pa.Table.from_batches([part]) if isinstance(part, pa.RecordBatch) else part for part in parts]
    rows = pa.concat_tables([part.select(NEWEST.names).cast(NEWEST) for part in whole]).combine_chunks()
    key = [coded(rows[name])[0] for name in _KEY[:2]] + [rows["partition"].to_numpy()]
    order = np.lexsort((rows["at"].cast(pa.int64()).to_numpy(), *key))
    last = np.ones(len(order), np.bool_)
    last[:-1] = np.logical_or.reduce([column[order][1:] != column[order][:-1] for column in key])
    return rows.take(pa.array(order[last]))
