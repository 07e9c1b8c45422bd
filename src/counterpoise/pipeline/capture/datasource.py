"""The Python Data Source ``kafka-offsets``: the offsets topic (or any other) for Spark without the Kafka connector's jar.

    spark.dataSource.register(KafkaOffsets)
    spark.read.format("kafka-offsets").option("kafka.bootstrap.servers", "broker:9092").load()

It takes these options of Spark's Kafka source, with the same effect: ``kafka.*`` (connection and security, Java's names or
librdkafka's), ``subscribe`` (default: the offsets topic), ``startingOffsets``, ``endingOffsets``, ``maxOffsetsPerTrigger``,
``failOnDataLoss``. Any other option is an error. ``kafka.isolation.level`` is read_committed by default, because an aborted
commit never took effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from counterpoise.errors import MissingExtraError
from counterpoise.pipeline.capture.columns import ARROW
from counterpoise.pipeline.capture.positions import LATEST, resolve
from counterpoise.pipeline.capture.source_options import Options, Range, read_options, warn_of_open_transactions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader

__all__ = ["KafkaOffsets"]


class KafkaOffsets(DataSource):
    """``format("kafka-offsets")``, after ``spark.dataSource.register(KafkaOffsets)``."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return "kafka-offsets"

    def schema(self) -> StructType:
        """The columns of Spark's Kafka source."""
        return from_arrow_schema(ARROW)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """A batch reader."""
        return _Batch(read_options(dict(self.options), streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """A streaming reader; needs PySpark 4.2, the first with limits and ``availableNow`` for Python sources."""
        try:
            from counterpoise.pipeline.capture.stream import Stream
        except ImportError:
            raise MissingExtraError("streaming from kafka-offsets needs pyspark 4.2 or newer; a batch works with 4.0") from None
        return Stream(read_options(dict(self.options), streaming=True))


class _Batch(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[Range]:
        """One range per partition of the topic that is not empty."""
        options = self._options
        partitions = options.cluster.partitions(options.topics)
        start = resolve(options.cluster, partitions, options.start, options.latest, "startingOffsets")
        end = resolve(options.cluster, partitions, options.end, options.latest, "endingOffsets")
        if options.end == LATEST:
            warn_of_open_transactions(options, end)
        return [Range(one, start[one], end[one]) for one in sorted(start) if start[one] < end.get(one, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range."""
        return self._options.read(partition)
