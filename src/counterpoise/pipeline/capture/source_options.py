"""The options of ``kafka-offsets``, read and checked, and the common part of its batch and stream readers."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from pyspark.sql.datasource import InputPartition

from counterpoise.errors import OptionError
from counterpoise.pipeline.capture.cluster import OFFSETS_TOPIC, Cluster, unstable_ranges
from counterpoise.pipeline.capture.positions import LATEST, parse_positions
from counterpoise.pipeline.capture.settings import Settings
from counterpoise.wire.consumer_protocol import Partition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Options", "Range", "read_options", "warn_of_open_transactions"]

_KNOWN = ("subscribe", "startingOffsets", "endingOffsets", "maxOffsetsPerTrigger", "failOnDataLoss")
_LOG = logging.getLogger("counterpoise.capture")


@dataclass(frozen=True)
class Options:
    """The options of one reader."""

    settings: Settings
    topics: tuple[str, ...]
    # start, end: `EARLIEST` or `LATEST` for all partitions, or an offset for each
    start: int | dict[Partition, int]
    end: int | dict[Partition, int]
    limit: int | None  # `maxOffsetsPerTrigger`
    strict: bool  # `failOnDataLoss`

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster of the settings."""
        return Cluster(self.settings)

    @property
    def latest(self) -> Literal["end", "stable"]:
        """The meaning of "latest" under the isolation level."""
        return "end" if self.settings["isolation.level"] == "read_uncommitted" else "stable"

    def read(self, given: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one `Range`; in a task."""
        from counterpoise.pipeline.capture.fetch import read_range

        assert isinstance(given, Range)
        return read_range(self.settings, given.partition, given.start, given.end, lenient=not self.strict)


@dataclass
class Range(InputPartition):
    """A range of offsets of one partition, which one Spark task reads. It has no settings, so no secrets."""

    partition: Partition
    start: int
    end: int


def read_options(given: Mapping[str, str], *, streaming: bool) -> Options:
    """Check and read the options; as in Spark, names are not case-sensitive.

    Raises `OptionError` if an option is unknown, missing or invalid; values of ``kafka.*`` are never shown.
    """
    kafka = {name.lower().removeprefix("kafka."): value for name, value in given.items() if name.lower().startswith("kafka.")}
    words = {name.lower(): value for name, value in given.items() if not name.lower().startswith("kafka.") and name != "path"}
    unknown = sorted(set(words) - {name.lower() for name in _KNOWN})
    if unknown:
        raise OptionError(f"option {unknown[0]} is not known to kafka-offsets; there are kafka.*, {', '.join(_KNOWN)}")
    kafka.setdefault("isolation.level", "read_committed")
    if streaming and "endingoffsets" in words:
        raise OptionError("endingOffsets: a stream has no end; use it in a batch, or trigger(availableNow=True)")
    if not streaming and "maxoffsetspertrigger" in words:
        raise OptionError("maxOffsetsPerTrigger: a batch has no triggers; use endingOffsets")
    start = parse_positions("startingOffsets", words.get("startingoffsets", "latest" if streaming else "earliest"))
    if start == LATEST and not streaming:
        raise OptionError("startingOffsets: a batch that starts at the latest offset would be empty")
    topics = tuple(sorted({topic.strip() for topic in words.get("subscribe", OFFSETS_TOPIC).split(",") if topic.strip()}))
    if not topics:
        raise OptionError("subscribe: expected at least one topic")
    limit, strict = words.get("maxoffsetspertrigger"), words.get("failondataloss", "true").lower()
    if limit is not None and not (limit.isdecimal() and int(limit)):
        raise OptionError("maxOffsetsPerTrigger: expected a whole number above 0")
    if strict not in ("true", "false"):
        raise OptionError("failOnDataLoss: expected true or false")
    end = parse_positions("endingOffsets", words.get("endingoffsets", "latest"))
    return Options(Settings(kafka), topics, start, end, None if limit is None else int(limit), strict == "true")


def warn_of_open_transactions(options: Options, stable: Mapping[Partition, int], logged: set[str] | None = None) -> None:
    """Log a warning for each partition with an open transaction, unless it is in `logged`, to which it is added."""
    if options.latest != "stable":
        return
    known = set() if logged is None else logged
    for one in unstable_ranges(dict(stable), options.cluster.offsets(stable, "end")):
        key = f"{one.partition} {one.stable}"
        if key not in known:
            known.add(key)
            _LOG.warning("%s", one)
