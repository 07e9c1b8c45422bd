"""The Python Data Source ``kafka-offsets``: the offsets topic (or any other) for Spark without the Kafka connector's jar.

    spark.dataSource.register(KafkaOffsets)
    spark.read.format("kafka-offsets").option("kafka.bootstrap.servers", "broker:9092").load()

Options are named and behave as those of Spark's own source: ``kafka.*`` (connection and security, Java's names or
librdkafka's), ``subscribe`` (default the offsets topic), ``startingOffsets``, ``endingOffsets``, ``maxOffsetsPerTrigger``,
``failOnDataLoss``. Two differ, on purpose: isolation is read_committed unless ``kafka.isolation.level`` says otherwise (an
aborted commit never took effect), and an option that is not known is an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from counterpoise.errors import MissingExtraError, OptionError
from counterpoise.pipeline.capture.cluster import OFFSETS_TOPIC, Cluster, Place, hidden_tails
from counterpoise.pipeline.capture.positions import LATEST, parse_positions, resolve
from counterpoise.pipeline.capture.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader

__all__ = ["RECORDS", "KafkaOffsets", "Options", "Range", "read_options", "warn_of_tails"]

RECORDS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
"""The columns of Spark's Kafka source."""
_KNOWN = ("subscribe", "startingOffsets", "endingOffsets", "maxOffsetsPerTrigger", "failOnDataLoss")
_LOG = logging.getLogger("counterpoise.capture")


@dataclass(frozen=True)
class Options:
    """The options of one reader, read once."""

    settings: Settings
    topics: tuple[str, ...]
    start: int | dict[Place, int]
    end: int | dict[Place, int]
    limit: int | None
    strict: bool

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster they name."""
        return Cluster(self.settings)

    @property
    def latest(self) -> Literal["end", "stable"]:
        """What "latest" means under the isolation level."""
        return "end" if self.settings["isolation.level"] == "read_uncommitted" else "stable"


@dataclass
class Range(InputPartition):
    """A range of offsets of one partition: what one Spark task reads. Holds no setting."""

    place: Place
    start: int
    end: int
    value: None = field(default=None, repr=False)


def read_options(given: Mapping[str, str], *, streaming: bool) -> Options:
    """Check and read the options; names are matched as Spark does, without regard to case.

    Raises
    ------
    OptionError
        An option is unknown, missing, or has a value that does not fit; values of ``kafka.*`` are never shown.
    """
    kafka = {name.lower().removeprefix("kafka."): value for name, value in given.items() if name.lower().startswith("kafka.")}
    words = {name.lower(): value for name, value in given.items() if not name.lower().startswith("kafka.") and name != "path"}
    unknown = sorted(set(words) - {name.lower() for name in _KNOWN})
    if unknown:
        raise OptionError(f"option {unknown[0]} is not known to kafka-offsets; there are kafka.*, {', '.join(_KNOWN)}")
    kafka.setdefault("isolation.level", "read_committed")
    if kafka["isolation.level"] not in ("read_committed", "read_uncommitted"):
        raise OptionError("kafka.isolation.level: read_committed or read_uncommitted is wanted")
    if streaming and "endingoffsets" in words:
        raise OptionError("endingOffsets: a stream has no end; use it in a batch, or trigger(availableNow=True)")
    if not streaming and "maxoffsetspertrigger" in words:
        raise OptionError("maxOffsetsPerTrigger: a batch has no triggers; use endingOffsets")
    start = parse_positions("startingOffsets", words.get("startingoffsets", "latest" if streaming else "earliest"))
    if start == LATEST and not streaming:
        raise OptionError("startingOffsets: a batch that starts at the latest offset would be empty")
    topics = tuple(sorted({topic.strip() for topic in words.get("subscribe", OFFSETS_TOPIC).split(",") if topic.strip()}))
    if not topics:
        raise OptionError("subscribe: at least one topic is wanted")
    return Options(
        Settings(kafka),
        topics,
        start,
        parse_positions("endingOffsets", words.get("endingoffsets", "latest")),
        _limit(words.get("maxoffsetspertrigger")),
        _flag("failOnDataLoss", words.get("failondataloss", "true")),
    )


def _limit(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise OptionError("maxOffsetsPerTrigger: a whole number above 0 is wanted")
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"{name}: true or false is wanted")
    return text.lower() == "true"


def warn_of_tails(options: Options, stable: Mapping[Place, int], told: set[str] | None = None) -> None:
    """Say (as a log warning) which partitions hide a tail behind an open transaction; each state once per `told`."""
    if options.latest != "stable":
        return
    seen = set() if told is None else told
    for tail in hidden_tails(dict(stable), options.cluster.offsets(stable, "end")):
        key = f"{tail.place} {tail.stable}"
        if key not in seen:
            seen.add(key)
            _LOG.warning("%s", tail)


class KafkaOffsets(DataSource):
    """``format("kafka-offsets")``, once registered by ``spark.dataSource.register(KafkaOffsets)``."""

    @classmethod
    def name(cls) -> str:
        """What stands in ``format(...)``."""
        return "kafka-offsets"

    def schema(self) -> StructType:
        """The columns of Spark's Kafka source."""
        return RECORDS

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """A batch reader."""
        return _Batch(read_options(dict(self.options), streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """A streaming reader; needs PySpark 4.2, which brought limits and ``availableNow`` to Python sources."""
        try:
            from counterpoise.pipeline.capture.stream import Stream
        except ImportError:
            raise MissingExtraError("streaming from kafka-offsets needs pyspark 4.2 or newer; a batch works with 4.0") from None
        return Stream(read_options(dict(self.options), streaming=True))


class _Batch(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[Range]:
        """One range per partition of the topic that has anything to read."""
        options = self._options
        places = options.cluster.partitions(options.topics)
        start = resolve(options.cluster, places, options.start, options.latest, "startingOffsets")
        end = resolve(options.cluster, places, options.end, options.latest, "endingOffsets")
        if options.end == LATEST:
            warn_of_tails(options, end)
        return [Range(place, start[place], end[place]) for place in sorted(start) if start[place] < end.get(place, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range."""
        from counterpoise.pipeline.capture.fetch import read_range

        assert isinstance(partition, Range)
        options = self._options
        return read_range(options.settings, partition.place, partition.start, partition.end, lenient=not options.strict)
