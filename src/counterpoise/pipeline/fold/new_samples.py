"""The samples of log ends in a capture's files after a time; row groups without such samples are skipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.problem import Int64
from counterpoise.pipeline.source.parquet_rows import SAMPLE_TYPES, first_time, read_rows, time_span, time_spans
from counterpoise.pipeline.storage.files import parquet_footers

__all__ = ["NewSamples", "unusable_samples"]

_AT_ONCE = 1 << 18
_MOST_RECORDS = 2**48
"""No log has more records than this; sums of larger offsets would not fit in 64 bits."""


class NewSamples:
    """Samples of a capture from after the time `after` to before `until`. They are read twice: to count them, and by `tables`.

    All times are in microseconds; None: no limit.
    """

    def __init__(self, files: Sequence[str], after: int | None = None, until: int | None = None) -> None:
        self._after, self._until = after, until
        self._groups: list[tuple[str, list[int]]] = []  # the row groups that may have such samples
        spans = time_spans(files, "sampled_at")
        for file, listed in zip(files, spans, strict=True):
            new = [at for at, span in enumerate(listed) if after is None or span is None or span[1] > after]
            self._groups += [(file, new)] if new else []
        self.oldest = first_time(chain.from_iterable(spans))  # of the samples in the files; None: their statistics lack it
        counts: dict[tuple[str, int], int] = {}
        instants: set[int] = set()
        for table in self.tables():
            for row in table.group_by(["topic", "partition"], use_threads=False).aggregate([([], "count_all")]).to_pylist():
                log = row["topic"], row["partition"]
                counts[log] = counts.get(log, 0) + row["count_all"]
            instants.update(table["us"].unique().to_pylist())
        self.logs = list(counts)
        self.counts: Int64 = np.array(list(counts.values()), np.int64)  # samples of each log
        self.instants: Int64 = np.array(sorted(instants), np.int64)

    def tables(self) -> Iterator[pa.Table]:
        """Yield ``topic, partition, log_start, log_end, us``, topics as a dictionary; without `unusable_samples`."""
        for file, groups in self._groups:
            for batch in read_rows(file, SAMPLE_TYPES, _AT_ONCE, groups, ["topic"]):
                sound = _sound(batch)
                table = pa.table([*sound.columns[:4], sound["sampled_at"].cast(pa.int64())], [*batch.schema.names[:4], "us"])
                if self._after is not None:
                    table = table.filter(pc.greater(table["us"], self._after))
                if self._until is not None:
                    table = table.filter(pc.less(table["us"], self._until))
                if len(table):
                    yield table.combine_chunks()


def unusable_samples(files: Sequence[str]) -> int:
    """The number of samples with a null, a time outside the years 1 to 9999, or an offset that no log has.

    Raises `CaptureError` if a file is damaged.
    """
    # Pages are read only where footers do not rule such samples out.
    footers = zip(files, parquet_footers(files), strict=True)
    groups = [(file, at, about.row_group(at)) for file, about in footers for at in range(about.num_row_groups)]
    read = (read_rows(file, SAMPLE_TYPES, _AT_ONCE, [at]) for file, at, group in groups if not _is_sound(group))
    return sum(batch.num_rows - _sound(batch).num_rows for batches in read for batch in batches)


def _sound(batch: pa.RecordBatch) -> pa.Table:
    table = pa.Table.from_batches([batch]).drop_null()
    for name in ("log_start", "log_end"):
        table = table.filter(pc.and_(pc.greater_equal(table[name], 0), pc.less_equal(table[name], _MOST_RECORDS)))
    return table


def _is_sound(group: Any) -> bool:
    statistics = {chunk.path_in_schema: chunk.statistics for chunk in map(group.column, range(group.num_columns))}
    if any(one is None or not one.has_null_count or one.null_count for one in statistics.values()):
        return False
    offsets = [statistics.get(name) for name in ("log_start", "log_end")]
    fits = all(one is not None and one.has_min_max and one.min >= 0 and one.max <= _MOST_RECORDS for one in offsets)
    return fits and time_span(group, "sampled_at") is not None
