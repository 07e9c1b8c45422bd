"""The samples of log ends in a capture's files that are later than some moment: row groups that have none are not read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.problem import Int64
from counterpoise.pipeline.source.parquet_rows import SAMPLE_TYPES, read_rows, time_spans

__all__ = ["NewSamples"]

_COLUMNS = ["topic", "partition", "log_start", "log_end", "sampled_at"]
_AT_ONCE = 1 << 18


class NewSamples:
    """Samples of a capture that are later than a time. They are read twice: to count them, and by `tables`.

    Attributes
    ----------
    logs : list of (topic, partition)
    counts : int64
        How many samples there are of each.
    instants : int64
        Times of samples, ascending.
    oldest : int, optional
        The time of the first sample in the files, if their statistics have it.

    Parameters
    ----------
    files : sequence of str
    after : int, optional
        In microseconds, as all times here; None: all samples are new.
    until : int, optional
        Samples from then on are left out.
    """

    def __init__(self, files: Sequence[str], after: int | None = None, until: int | None = None) -> None:
        self._files, self._after, self._until = files, after, until
        self._groups: list[tuple[str, list[int]]] = []
        self.oldest = self._look()
        found: dict[tuple[str, int], int] = {}
        instants: set[int] = set()
        for table in self.tables():
            for row in table.group_by(["topic", "partition"], use_threads=False).aggregate([([], "count_all")]).to_pylist():
                log = row["topic"], row["partition"]
                found[log] = found.get(log, 0) + row["count_all"]
            instants.update(table["us"].unique().to_pylist())
        self.logs = list(found)
        self.counts: Int64 = np.array([found[log] for log in self.logs], np.int64)
        self.instants: Int64 = np.array(sorted(instants), np.int64)

    def tables(self) -> Iterator[pa.Table]:
        """``topic, partition, log_start, log_end, us``, topics as a dictionary; rows with a null are left out."""
        for file, groups in self._groups:
            for batch in read_rows(file, _COLUMNS, SAMPLE_TYPES, _AT_ONCE, groups, ["topic"]):
                stamps = batch.column("sampled_at").cast(pa.int64())
                table = pa.table([*(batch.column(name) for name in _COLUMNS[:4]), stamps], [*_COLUMNS[:4], "us"]).drop_null()
                if self._after is not None:
                    table = table.filter(pc.greater(table["us"], self._after))
                if self._until is not None:
                    table = table.filter(pc.less(table["us"], self._until))
                if len(table):
                    yield table.combine_chunks()

    def _look(self) -> int | None:
        """Which row groups may hold something new, and when the first sample was."""
        firsts: list[int | None] = []
        for file in self._files:
            spans = time_spans(file, "sampled_at")
            firsts += [None if span is None else span[0] for span in spans]
            new = [at for at, span in enumerate(spans) if self._after is None or span is None or span[1] > self._after]
            self._groups += [(file, new)] if new else []
        known = [one for one in firsts if one is not None]
        return min(known) if known and len(known) == len(firsts) else None
