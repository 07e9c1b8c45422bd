"""The folder of a capture: two growing tables, a writer lock, and JSON files about it; filled by a recording or a backup."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import CaptureError, StorageError
from counterpoise.pipeline.capture.columns import ABORTED_FILE, ABOUT_FILE, ARROW, ENDS_FILE, OFFSETS_TOPIC, RECORDS_FILE, SAMPLES
from counterpoise.pipeline.capture.disk_series import DiskSeries
from counterpoise.pipeline.capture.object_series import ObjectSeries
from counterpoise.pipeline.capture.series import Series
from counterpoise.pipeline.storage.files import absolute, first_line, is_local, join, read_if_exists, write_bytes
from counterpoise.pipeline.storage.writer_lock import WriterLock

__all__ = [
    "CANNOT_WRITE",
    "BackupCounts",
    "CaptureFolder",
    "Missing",
    "capture_backup",
    "hidden_batches",
    "missing_of",
    "reason_of",
]

CANNOT_WRITE = (OSError, StorageError)
"""Errors of a disk that is full or a store that is unreachable, for which a following recording waits."""

_HIDDEN = ".counterpoise"
"""The folder of the writer lock and, on a disk, of the files behind the links."""
_LACKS = {
    "segments": "made from segment files: what compaction had removed is missing",
    "dump": "complete=false: made from the text of kafka-dump-log: what compaction had removed is missing",
    "poll": "complete=false: made from polls every {} s instead of the topic: rebalances between two polls are one change or "
    "none, generations are counted here, not by the broker; members are assumed to subscribe to every topic of their group",
}
"""What a capture lacks by its source."""


def reason_of(error: OSError | StorageError) -> str:
    """The message of the disk or the store."""
    return error.reason if isinstance(error, StorageError) else error.strerror or first_line(error)


class CaptureFolder:
    """``consumer_offsets.parquet``, ``log_offsets.parquet``, ``topics.json``, ``aborted_offsets.json`` and ``capture.json``.

    `out`, a path or URI, is created if it does not exist; an earlier capture in it is continued. Raises `CaptureError` if another
    capture is writing there, or the folder has other content.
    """

    def __init__(self, out: str | Path) -> None:
        self.out = absolute(out)
        wait = "stop it" if is_local(self.out) else "stop it (if it was killed, wait a minute)"
        refused = f"{out}: another capture is writing there; {wait}, or give another folder"
        self._lock = WriterLock(join(self.out, _HIDDEN), refused)
        self._lock.acquire()
        try:
            self.records = self._series(RECORDS_FILE, ARROW, "timestamp")
            self.samples = self._series(ENDS_FILE, SAMPLES, "sampled_at")
            self.about: dict[str, Any] = self._read_about()
        except BaseException:
            self._lock.release()
            raise

    def _series(self, name: str, schema: pa.Schema, time_column: str) -> Series:
        if is_local(self.out):
            return DiskSeries(Path(self.out) / name, Path(self.out) / _HIDDEN, schema, time_column)
        return ObjectSeries(join(self.out, name), schema, time_column, self._lock.check)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within the context, this is the only writer. Raises `StorageError` if a write fails, for example on a full disk."""
        try:
            yield
        except CANNOT_WRITE as error:
            advice = f"{'make room and ' * is_local(self.out)}start again, nothing of what was written is lost"
            raise StorageError(self.out, reason_of(error), advice) from (error.__cause__ or error)
        finally:
            self.close()

    def close(self) -> None:
        """Release the writer lock."""
        self._lock.release()

    def update_about(self, **facts: Any) -> None:
        """Update ``capture.json``, which describes the recording and what it lacks."""
        self.about.update(facts)
        self.write_json(ABOUT_FILE, self.about)

    def write_json(self, name: str, content: Mapping[str, Any] | list[Any]) -> None:
        """Replace one JSON file as a whole."""
        write_bytes(join(self.out, name), (json.dumps(content, indent=1, sort_keys=True) + "\n").encode())

    def merge_and_drop(self, keep_from: float | None) -> None:
        """Merge small files, after dropping the oldest files if all their records are before `keep_from` (s since 1970).

        What is dropped is noted in ``capture.json`` as `deleted_before`.
        """
        if keep_from is not None and self.records.before(keep_from):
            self.update_about(deleted_before=max(keep_from, self.about.get("deleted_before", 0)))
        for series in (self.records, self.samples):
            if keep_from is not None:
                series.drop_before(keep_from)
            while series.merge():
                pass

    def free(self) -> None:
        """On a disk, delete replaced files at once, which readers may still have open."""
        with suppress(OSError):
            for series in (self.records, self.samples) if is_local(self.out) else ():
                series.free()

    def count_below(self, ends: Mapping[int, int]) -> int:
        """The number of recorded offsets below `ends` (by partition); reads two columns of all files."""
        total = 0
        ends_of = pa.table({"partition": pa.array(list(ends), pa.int32()), "end": pa.array(list(ends.values()), pa.int64())})
        for batch in self.records.batches(["partition", "offset"]):
            joined = pa.Table.from_batches([batch]).join(ends_of, "partition")
            total += int(pc.sum(pc.less(joined["offset"], joined["end"])).as_py() or 0)
        return total

    def _read_about(self) -> dict[str, Any]:
        file = join(self.out, ABOUT_FILE)
        text = read_if_exists(file)
        if text is None:
            return {}
        try:
            about = json.loads(text)
        except ValueError:
            about = None
        if not isinstance(about, dict) or not about.get("topic"):
            raise CaptureError(f"{file}: damaged, or not written by `counterpoise capture`; give another folder")
        return about


@dataclass
class BackupCounts:
    """Counts of what a backup has."""

    # Segments, and visible records, which are in the folder
    segments: int = 0
    records: int = 0
    # Records of aborted transactions, and of transactions without an end in the backup
    aborted: int = 0
    undecided: int = 0
    unreadable: int = 0  # Ranges, batches, lines or records that cannot be read
    faults: list[str] = field(default_factory=list)  # A sentence for each of the first hundred of these

    def fault(self, sentence: str) -> None:
        """Count something unreadable."""
        self.unreadable += 1
        if len(self.faults) < 100:
            self.faults.append(sentence)


def hidden_batches(transactional: Iterable[tuple[tuple[int, int], int, bool | None]]) -> dict[tuple[int, int], str]:
    """Batches that a reader with ``read_committed`` never sees: "aborted", or "undecided" if their transaction has no end.

    `transactional`: place (partition and base offset) and producer id of each batch of a transaction, in log order; whether it
    commits if it is a marker, else None.
    """
    waiting: dict[tuple[int, int], list[tuple[int, int]]] = {}
    hidden: dict[tuple[int, int], str] = {}
    for at, producer, commits in transactional:
        if commits is None:
            waiting.setdefault((at[0], producer), []).append(at)
        else:
            ended = waiting.pop((at[0], producer), [])
            hidden.update(dict.fromkeys(() if commits else ended, "aborted"))
    return hidden | {at: "undecided" for without_end in waiting.values() for at in without_end}


def capture_backup(
    out: str | Path, source: str, batches: Iterable[pa.RecordBatch], counts: BackupCounts, about: Callable[[], dict[str, Any]]
) -> None:
    """Write the records of a backup to a new capture folder, in one file, completely or not at all.

    `counts` and `about` go to ``capture.json``; `about` is called when all records are read. Raises `CaptureError` if `out` has a
    capture.
    """
    with closing(CaptureFolder(out)) as folder:
        if folder.about or folder.records.pieces:
            raise CaptureError(f"{out}: holds a capture already; give a new folder")
        folder.records.append(batches, {})
        facts = {"topic": OFFSETS_TOPIC, "source": source, "isolation": "read_committed", **about(), **asdict(counts)}
        folder.write_json(ABORTED_FILE, [])
        folder.update_about(format=1, **facts)


@dataclass(frozen=True)
class Missing:
    """What a recording lacks, by its ``capture.json``."""

    notes: tuple[str, ...] = ()  # Sentences on it
    faults: tuple[str, ...] = ()  # Faults of polls: they name groups and topics, so hashed audits leave them out
    # Partition of the offsets topic, first offset, and the offset after the last, of each range in which offsets are missing
    gaps: tuple[tuple[int, int, int], ...] = ()
    deleted_before: float = 0  # All records that retention deleted are before this time (s since 1970); 0: it deleted none


def missing_of(folder: str | Path) -> Missing:
    """What a recording lacks: history that was compacted before it began, gaps, records after open transactions.

    A folder without ``capture.json`` lacks nothing; a damaged file is a note.
    """
    text = read_if_exists(join(str(folder), ABOUT_FILE))
    if text is None:
        return Missing()
    try:
        about: Any = json.loads(text)
        gaps = tuple((int(partition), int(first), int(after)) for partition, first, after in about.get("gaps", ()))
        deleted_before, hidden = float(about.get("deleted_before", 0)), tuple(map(str, about.get("hidden", ())))
        notes = [*_before(about), *_about_deleted(deleted_before), *_about_gaps(gaps)]
        if about.get("source") == "poll":
            return Missing(tuple(notes), hidden, gaps, deleted_before)
        return Missing((*notes, *hidden), (), gaps, deleted_before)
    except (ValueError, AttributeError, TypeError, OverflowError):
        return Missing(("capture.json cannot be read: what this recording misses is unknown",))


def _about_deleted(before: float) -> list[str]:
    """The note that records from before this time (s since 1970) were deleted; none if it is 0."""
    if not before:
        return []
    words = f"records from before {datetime.fromtimestamp(before, UTC):%Y-%m-%d %H:%M} UTC were deleted (--keep-days)"
    lost = "groups that have not rebalanced since may be shown without members, those without any record since not at all"
    return [f"{words}: {lost}, unless an earlier run of --since last has read them"]


def _about_gaps(gaps: Sequence[tuple[int, int, int]]) -> list[str]:
    if not gaps:
        return []
    partition, first, after = gaps[0]
    more = f", and {len(gaps) - 1:,} more" if len(gaps) > 1 else ""
    words = f"log partition {partition}: offsets {first} to {after - 1}{more}: some or all of these were gone"
    return [f"{words} before they could be recorded (compacted away, or markers and aborted records of transactions)"]


def _before(about: Any) -> list[str]:
    if about.get("source") in _LACKS:
        return [_LACKS[about["source"]].format(about.get("every", "?"))]
    missing = about.get("missing_before")
    if missing is None:
        return ["the recording had not yet caught up with the topic when it ended: the newest records are missing"]
    if missing:
        reason = "compacted away, or markers and aborted records of transactions"
        line = f"complete=false: {missing} offsets from before the recording were not there any more ({reason})"
        return [f"{line}; older rebalances may be missing"]
    return []
