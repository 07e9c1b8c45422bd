"""Samples of log ends and topic metadata, taken in a thread, so that a slow cluster does not delay records."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from counterpoise.errors import SourceError
from counterpoise.pipeline.capture.cluster import OFFSETS_TOPIC, Cluster, UnstableRange, unstable_ranges
from counterpoise.pipeline.capture.columns import SAMPLES
from counterpoise.wire.consumer_protocol import Partition

__all__ = ["Sample", "Sampler", "sample", "sample_batch"]


@dataclass(frozen=True)
class Sample:
    """Log ends and metadata of a cluster at one time."""

    at: float  # Seconds since 1970
    topics: dict[str, dict[str, Any]]  # As in ``topics.json``
    # First offset and end of each partition of all topics that are not internal, and of the offsets topic
    start: dict[Partition, int]
    end: dict[Partition, int]
    unstable: list[UnstableRange]  # Partitions of the offsets topic with an open transaction

    @property
    def log_end(self) -> dict[Partition, int]:
        """End of each partition of the offsets topic."""
        return {partition: end for partition, end in self.end.items() if partition[0] == OFFSETS_TOPIC}


def sample(cluster: Cluster) -> Sample:
    """Take a sample. Raises `SourceError` if the cluster does not answer."""
    topics = cluster.topics()
    listed = [(name, index) for name, about in topics.items() if not about["internal"] for index in range(about["partitions"])]
    start, end = cluster.offsets(listed, "start"), cluster.offsets(listed, "end")
    # Before the ends of the offsets topic: a record at or after such an end was written after this time.
    at = time.time()
    partitions = [(OFFSETS_TOPIC, index) for index in range(topics.get(OFFSETS_TOPIC, {"partitions": 0})["partitions"])]
    stable = cluster.offsets(partitions, "stable")
    start |= cluster.offsets(partitions, "start")
    end |= cluster.offsets(partitions, "end")
    return Sample(at, topics, start, end, unstable_ranges(stable, end))


def sample_batch(taken: Sample) -> pa.RecordBatch:
    """The rows of ``log_offsets.parquet`` for one sample."""
    partitions = [partition for partition in taken.end if partition in taken.start]
    moment = datetime.fromtimestamp(taken.at, UTC)
    starts, ends = ([of[partition] for partition in partitions] for of in (taken.start, taken.end))
    columns = [topic for topic, _ in partitions], [index for _, index in partitions], starts, ends, [moment] * len(partitions)
    return pa.RecordBatch.from_pydict(dict(zip(SAMPLES.names, columns, strict=True)), SAMPLES)


class Sampler:
    """Takes a sample every `every` seconds until `stop`."""

    def __init__(self, cluster: Cluster, every: float) -> None:
        self._cluster, self._every = cluster, every
        self._done = threading.Event()
        # The newest few: while the disk is full nobody takes them, and those of a large cluster have megabytes.
        self._taken: deque[Sample | SourceError] = deque(maxlen=10)
        # A daemon: a request that blocks for half a minute must not delay the end of the process.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def taken(self) -> list[Sample | SourceError]:
        """Samples since the last call, and the errors of samples that failed."""
        return [self._taken.popleft() for _ in range(len(self._taken))]

    def stop(self) -> None:
        """End the thread."""
        self._done.set()

    def _run(self) -> None:
        while not self._done.wait(self._every):
            try:
                self._taken.append(sample(self._cluster))
            except SourceError as error:
                self._taken.append(error)
