"""The recording loop: consume, write, sample log ends, compact; once up to now, or until `stop`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from counterpoise.errors import CaptureError, SourceError
from counterpoise.model.problem import Int64
from counterpoise.pipeline.capture.cluster import check_leaders, source_error
from counterpoise.pipeline.capture.columns import ABORTED_FILE, OFFSETS_TOPIC
from counterpoise.pipeline.capture.fetch import PATIENCE_S, TRANSIENT, open_consumer, split_events, to_batch
from counterpoise.pipeline.capture.folder import CANNOT_WRITE, CaptureFolder, reason_of
from counterpoise.pipeline.capture.positions import from_json, to_json
from counterpoise.pipeline.capture.recording import Recording, Schedule, Status
from counterpoise.pipeline.capture.sampler import Sample, Sampler, sample
from counterpoise.pipeline.capture.settings import Settings
from counterpoise.wire.consumer_protocol import Partition
from counterpoise.wire.offsets_topic.keys import group_of

__all__ = ["Recorder"]

CONSUME = 10_000
_MADE = {"poll": "polls", "segments": "segment files", "dump": "the text of kafka-dump-log"}
COMPACTED_AFTER_S = 600
"""After a shorter pause nothing is taken for compacted: segments of the offsets topic (100 MB) are compacted only when they are
closed. Other offsets that are missing are markers and aborted records of transactions."""
_NO_ID = 22 * "A"
"""The id of a topic until its brokers are upgraded to Kafka 2.8 or newer."""
FLUSH_RECORDS = 200_000
FLUSH_BYTES = 64 * 2**20


class Recorder(Recording):
    """A recording of the offsets topic, exactly once.

    Nothing is committed to the cluster: the position is in the footer of the newest file, so records and position are written
    together. After a kill the next run reads the records again that were not written.
    """

    def __init__(
        self, settings: Settings, out: str | Path, schedule: Schedule, report: Callable[[Status], None] | None = None
    ) -> None:
        super().__init__(settings, out, schedule, report)
        self._isolation = settings.get("isolation.level", "read_committed")
        self._at: dict[Partition, int] = {}
        self._goal: dict[Partition, int] = {}
        # Per partition, as first offset and the offset after the last: what was written in the last pause, and the range in it
        # that spans the missing offsets
        self._catching_up: dict[Partition, tuple[int, int]] = {}
        self._gaps: dict[Partition, tuple[int, int]] = {}
        self._groups: set[bytes] = set()
        self._heard_at = time.time()  # when records or a sample last came

    def run(self, *, follow: bool) -> Status:
        """Record up to now, or with `follow` until `stop`.

        Raises `SourceError` if the cluster does not answer (at the start; later a following recording waits for it), and
        `CaptureError` if the folder cannot be written, or has the history of another cluster.
        """
        # The folder first: a second writer must not send requests to the cluster.
        self._folder = CaptureFolder(self._out)
        with self._folder.held():
            first = self._begin()
            self._heard_at = time.time()
            sampler = Sampler(self._cluster, self._schedule.sample) if follow else None
            consumer: Any = open_consumer(self._settings)
            try:
                consumer.assign([TopicPartition(*partition, at) for partition, at in self._at.items()])
                self._loop(consumer, sampler, first)
            finally:
                consumer.close()
                if sampler is not None:
                    sampler.stop()
            self._write(patient=False)
            self._merge_and_drop(drop=self._count_missing())
            self._folder.update_about(sampled_at=max(self._folder.about["sampled_at"], self._sampled_at(first.at)))
            self._report(self.status)
        return self.status

    def _begin(self) -> Sample:
        partitions = self._cluster.partitions([OFFSETS_TOPIC])
        now, about = sample(self._cluster), self._folder.about
        if about.get("source") is not None:
            raise CaptureError(f"{self._out}: holds a capture from {_MADE[about['source']]}; give another folder")
        topic_id = now.topics.get(OFFSETS_TOPIC, {}).get("topic_id")
        known = about.get("topic_id")
        if known not in (None, _NO_ID, topic_id):
            raise CaptureError(
                f"{self._out}: holds a capture of another cluster's offsets topic (or of one before it was recreated); "
                "give another folder"
            )
        start = self._cluster.offsets(partitions, "start")
        self._goal = self._cluster.offsets(partitions, "stable" if self._isolation == "read_committed" else "end")
        check_leaders(partitions, start, self._goal, lost="groups cannot be recorded")
        written = from_json(self._folder.records.state)
        self._at = {**start, **written}
        if now.at - about.get("sampled_at", now.at) >= COMPACTED_AFTER_S:
            self._expect_gaps({one: self._goal[one] for one in written})
        ahead = [partition for partition, at in self._at.items() if at > now.log_end.get(partition, at)]
        if ahead:
            raise CaptureError(
                f"{self._out}: its position in partition {ahead[0][1]} is beyond the end of the log; the topic was truncated or "
                "recreated, give another folder"
            )
        if known is None:
            self._folder.update_about(
                format=1,
                topic=OFFSETS_TOPIC,
                topic_id=topic_id,
                isolation=self._isolation,
                started_at=now.at,
                log_start={str(p): at for (_, p), at in start.items()},
                log_end={str(p): at for (_, p), at in self._goal.items()},
                gaps=[],
            )
        elif about.get("isolation") != self._isolation:
            raise CaptureError(f"{self._out}: was recorded {about['isolation']}; give the same isolation level")
        if self._isolation == "read_committed":
            self._folder.write_json(ABORTED_FILE, [])
        self._add_sample(now)
        return now

    def _loop(self, consumer: Any, sampler: Sampler | None, now: Sample) -> None:
        end = dict(now.log_end)
        flushed = received = time.monotonic()
        while not self._stop.is_set():
            count = self._consume(consumer)
            moment = time.monotonic()
            received = moment if count else received
            if sampler is None and all(self._at[partition] >= goal for partition, goal in self._goal.items()):
                self.status.behind = 0
                return
            if sampler is None and moment - received > PATIENCE_S:
                words = f"nothing came for {PATIENCE_S:.0f} s; {self.status.trouble or 'is every leader up?'}"
                raise SourceError(words, transient=True)
            if sampler is not None:
                end = self._samples(consumer, sampler, end)
            size, count = (sum(sizes) for sizes in ((one.nbytes for one in self._pending), map(len, self._pending)))
            full = size >= FLUSH_BYTES or count >= FLUSH_RECORDS
            if full or (self._pending and moment - flushed >= self._schedule.flush):
                self._write(patient=sampler is not None)
                flushed = time.monotonic()
            reach = end if sampler is not None else {one: min(end.get(one, 0), goal) for one, goal in self._goal.items()}
            self.status.behind = sum(max(0, to - self._at.get(one, 0)) for one, to in reach.items())
            self._report(self.status)

    def _consume(self, consumer: Any) -> int:
        records, events = split_events(consumer.consume(CONSUME, 0.5))
        if records:
            self._expect_gaps_after_outage(dict.fromkeys(self._at, 1 << 62))  # the next sample says to where
            batch = to_batch(records)
            self._pending.append(batch)
            self.status.passed -= len(records)
            parts, offsets = batch["partition"].to_numpy(), batch["offset"].to_numpy()
            for index in np.unique(parts).tolist():
                mine = offsets[parts == index]
                self._note_gap((OFFSETS_TOPIC, index), mine)
                self._advance((OFFSETS_TOPIC, index), int(mine.max()) + 1)
            keys = [key for key in pc.unique(batch["key"]).to_pylist() if key is not None and len(key) > 4]  # others are damaged
            self._groups.update(map(group_of, keys))
            self.status.groups = len(self._groups)
            self.status.trouble = ""
        for event in events:
            error: Any = event.error()
            partition = (OFFSETS_TOPIC, event.partition())
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                self._note_gap(partition, np.array([event.offset()]))
                self._advance(partition, event.offset())
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
                self._skip(consumer, partition)
            elif error.retriable() or error.code() in TRANSIENT:
                self.status.trouble = f"waiting for {self._settings['bootstrap.servers']}"
            else:
                raise source_error(error, OFFSETS_TOPIC, self._settings)
        return len(records) + len(events)

    def _advance(self, partition: Partition, to: int) -> None:
        self.status.passed += max(0, to - self._at[partition])
        self._at[partition] = max(self._at[partition], to)

    def _expect_gaps_after_outage(self, goals: Mapping[Partition, int]) -> None:
        """Call `_expect_gaps` if these records, or this sample, are the first ones for so long that some may be compacted."""
        if time.time() - self._heard_at >= COMPACTED_AFTER_S:
            self._expect_gaps(goals)
        self._heard_at = time.time()

    def _expect_gaps(self, goals: Mapping[Partition, int]) -> None:
        """Save the gaps found so far; from now on look for offsets that are missing below these."""
        self._folder.about |= self._facts()
        # Until `_count_missing` has counted what is missing below the log ends of the first run, it is left to it.
        counted = {} if "missing_before" in self._folder.about else self._folder.about.get("log_end", {})
        self._catching_up = {one: (int(counted.get(str(one[1]), 0)), goal) for one, goal in goals.items()}
        self._gaps = {}

    def _note_gap(self, partition: Partition, read: Int64) -> None:
        """Note offsets that are missing between the end of the last run and the start of this one, or before and after an outage.

        One range per partition is kept, from the first missing offset to the last, so it may also have offsets that exist. `read`
        are the offsets that were read, ascending. Offsets written after the pause are left out, because compaction has not
        reached them. One missing offset by itself is taken for the marker of a transaction.
        """
        least, goal = self._catching_up.get(partition, (0, 0))
        before = np.maximum(np.append(self._at[partition], read[:-1] + 1), least)
        holes = np.flatnonzero((read > before + 1) & (before < goal))
        if len(holes):
            first, _ = self._gaps.get(partition, (int(before[holes[0]]), 0))
            self._gaps[partition] = first, min(int(read[holes[-1]]), goal)

    def _facts(self) -> dict[str, Any]:
        known = gaps = self._folder.about.get("gaps", [])
        for (_, index), (first, after) in self._gaps.items():
            gaps = _with_gap(gaps, index, first, after)
        return {} if gaps == known else {"gaps": gaps}

    def _skip(self, consumer: Any, partition: Partition) -> None:
        at = self._at[partition]
        first, last = at, at
        with suppress(KafkaException):  # if its broker does not answer now, the same is reported again
            first, last = consumer.get_watermark_offsets(TopicPartition(*partition), timeout=30)
        if at > last:
            raise CaptureError(
                f"{self._out}: partition {partition[1]} now ends at {last}, before position {at}: it was truncated or recreated"
            )
        # Not back to a first offset before the position: of a log that was truncated and has grown, records would come twice.
        if first > at:
            self._folder.update_about(gaps=_with_gap(self._folder.about.get("gaps", []), partition[1], at, first))
            self._at[partition] = first
        elif last > at:
            self.status.trouble = f"partition {partition[1]} was truncated before position {at}: records after it may be missing"
        consumer.incremental_unassign([TopicPartition(*partition)])
        consumer.incremental_assign([TopicPartition(*partition, self._at[partition])])

    def _samples(self, consumer: Any, sampler: Sampler, end: dict[Partition, int]) -> dict[Partition, int]:
        for taken in sampler.taken():
            if isinstance(taken, SourceError):
                self.status.trouble = str(taken)
                continue
            self._expect_gaps_after_outage(taken.log_end)
            self.status.trouble = ""
            end = dict(taken.log_end)
            for partition in sorted(set(end) - set(self._at)):
                self._at[partition] = 0
                consumer.incremental_assign([TopicPartition(*partition, 0)])
            try:
                self._add_sample(taken)
                self._merge_and_drop(drop=self._count_missing())
            except CANNOT_WRITE as error:
                self.status.trouble = f"cannot write ({reason_of(error)})"
        return end

    def _add_sample(self, taken: Sample) -> None:
        self.status.hidden = [str(one) for one in taken.unstable] if self._isolation == "read_committed" else []
        ends = taken.log_end
        self._catching_up = {one: (least, min(goal, ends.get(one, goal))) for one, (least, goal) in self._catching_up.items()}
        self._write_sample(taken, sampled_at=self._sampled_at(taken.at))

    def _sampled_at(self, at: float) -> float:
        """The `sampled_at` to save: the old one until all records of an outage are written, for the case of a kill."""
        self._folder.about |= self._facts()
        written = self._written
        self._catching_up = {one: reach for one, reach in self._catching_up.items() if written.get(one, 0) < reach[1]}
        return float(self._folder.about["sampled_at"]) if self._catching_up else at

    @property
    def _position(self) -> dict[str, Any]:
        return to_json(self._at)

    @property
    def _written(self) -> dict[Partition, int]:
        """Per log partition, the offset before which all records are in files; with pending records, that of the newest file."""
        return from_json(self._folder.records.state) if self._pending else self._at

    def _count_missing(self) -> bool:
        """Count the offsets without a record below the log ends at the start, once all records below these are in files.

        Returns whether they have been counted.
        """
        about = self._folder.about
        ends = {int(index): int(end) for index, end in about["log_end"].items()}
        written = self._written
        if "missing_before" not in about and all(written.get((OFFSETS_TOPIC, p), 0) >= end for p, end in ends.items()):
            missing = sum(ends.values()) - self._folder.count_below(ends)
            self._folder.update_about(missing_before=missing, complete=missing == 0)
        return "missing_before" in about


def _with_gap(gaps: list[list[int]], index: int, first: int, after: int) -> list[list[int]]:
    """The ranges with another one, in place of those that it covers."""
    return [one for one in gaps if not (one[0] == index and first <= one[1] and one[2] <= after)] + [[index, first, after]]
