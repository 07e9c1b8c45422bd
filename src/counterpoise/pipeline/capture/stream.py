"""The streaming reader of ``kafka-offsets``: offsets per partition as JSON, limits, and ``trigger(availableNow=True)``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from counterpoise.errors import SourceError
from counterpoise.pipeline.capture.cluster import check_leaders
from counterpoise.pipeline.capture.positions import from_json, resolve, share_out, to_json
from counterpoise.pipeline.capture.source_options import Options, Range, warn_of_open_transactions
from counterpoise.wire.consumer_protocol import Partition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Stream"]


class Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one streaming query; it runs in a process of the driver, `read` in tasks.

    The stream's offset is ``{topic: {partition: next offset}}``, as in Spark's own source. It is a position and not the offset of
    a record, because markers and aborted records are not delivered.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._target: dict[Partition, int] | None = None
        self._logged: set[str] = set()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The start of a new query."""
        options = self._options
        return to_json(resolve(options.cluster, self._partitions(), options.start, options.latest, "startingOffsets"))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """``maxOffsetsPerTrigger``, or everything."""
        return ReadAllAvailable() if self._options.limit is None else ReadMaxRows(self._options.limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch: at most `limit` readable offsets after `start`."""
        end = self._ends(self._partitions()) if self._target is None else self._target
        begin = self._begin(from_json(start), end)
        end = {partition: max(end.get(partition, at), at) for partition, at in begin.items()}
        if isinstance(limit, ReadMaxRows):
            end = share_out(begin, end, limit.max_rows)
        return to_json(end)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The ends of the logs, for the query's progress."""
        return to_json(self._options.cluster.offsets(self._partitions(), "end"))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Set the end of the query to the present end of the logs."""
        known = self._partitions()
        self._target = self._ends(known)
        check_leaders(known, self._target, lost="records cannot be read")

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One range per partition with new offsets; a partition that is not in `start` is read from offset 0."""
        ends = from_json(end)
        begin = self._begin(from_json(start), ends)
        return [Range(one, begin[one], ends[one]) for one in sorted(ends) if begin[one] < ends[one]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range."""
        return self._options.read(partition)

    def _partitions(self) -> list[Partition]:
        return self._options.cluster.partitions(self._options.topics)

    def _ends(self, partitions: list[Partition]) -> dict[Partition, int]:
        """The offsets up to which records can be read now; partitions without a leader are left out."""
        offsets = self._options.cluster.offsets(partitions, self._options.latest)
        warn_of_open_transactions(self._options, offsets, self._logged)
        return offsets

    def _begin(self, start: dict[Partition, int], end: dict[Partition, int]) -> dict[Partition, int]:
        back = sorted(partition for partition, at in end.items() if at < start.get(partition, 0))
        if back and self._options.strict:
            topic, partition = back[0]
            raise SourceError(
                f"{topic} partition {partition} ends at {end[back[0]]}, before the position {start[back[0]]}: it was recreated "
                "or truncated; start a new checkpoint, or set failOnDataLoss=false"
            )
        # From 0 and not from the present first offset: a restarted query must plan the same ranges.
        return {**dict.fromkeys(end, 0), **start}
