"""A capture folder from the segment files of a broker's data folder, or of a backup of it, without a broker.

Markers in the log say which records a reader with ``read_committed`` would have read. Below the cleaner's checkpoint all records
are visible: the cleaner has removed aborted records, and later the markers of committed ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from counterpoise.errors import CaptureError, WireError
from counterpoise.pipeline.capture.backup.log_batches import LogBatch, batches, records
from counterpoise.pipeline.capture.columns import OFFSETS_TOPIC, Row, in_batches
from counterpoise.pipeline.capture.folder import BackupCounts, capture_backup, hidden_batches

__all__ = ["SegmentCounts", "from_segments", "partition_folders", "read_partition"]

_FOLDER = re.compile(re.escape(OFFSETS_TOPIC) + r"-(\d+)")
_SEGMENT = re.compile(r"\d{20}\.log")


@dataclass
class SegmentCounts(BackupCounts):
    """Counts of what the segments have."""

    partitions: int = 0
    batches: int = 0


def from_segments(source: Path, out: str | Path) -> SegmentCounts:
    """Write a capture folder from segment files (see `capture_backup`); one segment is in memory at a time.

    Raises `CaptureError` if there are no segments of the offsets topic, or a partition has two folders.
    """
    folders = partition_folders(source)
    counts = SegmentCounts(partitions=len(folders))
    history = (row for index, where in folders.items() for row in read_partition(where, index, counts))
    capture_backup(out, "segments", in_batches(history), counts, lambda: {"hidden": _notes(counts)})
    return counts


def partition_folders(source: Path) -> dict[int, Path]:
    """Partition -> its folder, at `source` or below it. Raises `CaptureError` if there is none, or a partition has two."""
    if not source.is_dir():
        raise CaptureError(f"{source}: no such folder; give a broker's data folder (log.dirs) or a copy of it")
    folders: dict[int, Path] = {}
    for folder in sorted([source, *source.rglob(f"{OFFSETS_TOPIC}-*")]):
        matched = _FOLDER.fullmatch(folder.resolve().name)
        if matched is None or not folder.is_dir():
            continue
        index = int(matched[1])
        if index in folders:
            raise CaptureError(f"{folder}: partition {index} is also in {folders[index]}; give one replica of each")
        folders[index] = folder
    if not folders:
        raise CaptureError(f"{source}: no folder {OFFSETS_TOPIC}-N in it; give a broker's data folder (log.dirs) or a copy of it")
    return dict(sorted(folders.items()))


def read_partition(folder: Path, index: int, counts: SegmentCounts) -> Iterator[Row]:
    """The visible records of one partition in order of offset; updates `counts`."""
    # Two passes: only the marker after a batch says whether it is visible, and it may be in a later segment.
    hidden = hidden_batches(_transactional(folder, index))
    for segment in _segments(folder):
        counts.segments += 1
        for batch in batches(segment.read_bytes()):
            if isinstance(batch, str):
                counts.fault(f"{folder.name}/{segment.name}: {batch}")
                continue
            counts.batches += 1
            fate = hidden.get((index, batch.base_offset), "")
            counts.aborted += batch.count * (fate == "aborted")
            counts.undecided += batch.count * (fate == "undecided")
            if batch.control or fate:
                continue
            try:
                rows = records(batch)
            except WireError as error:
                counts.fault(f"{folder.name}/{segment.name}: offset {batch.base_offset}: {error}")
                continue
            counts.records += len(rows)
            yield from ((index, offset, time, int(batch.append_time), key, value) for offset, time, key, value in rows)


def _transactional(folder: Path, index: int) -> Iterator[tuple[tuple[int, int], int, bool | None]]:
    """The batches of transactions and their markers, for `hidden_batches`."""
    cleaned = _cleaned(folder, index)
    for segment in _segments(folder):
        for batch in batches(segment.read_bytes()):
            if not isinstance(batch, str) and batch.transactional and batch.base_offset >= cleaned:
                yield (index, batch.base_offset), batch.producer_id, not _aborts(batch) if batch.control else None


def _aborts(marker: LogBatch) -> bool:
    """Control record key: int16 version, int16 type; 0 aborts, 1 commits. An unreadable marker commits nothing."""
    try:
        key = records(marker)[0][2] or b""
    except (WireError, IndexError):
        return True
    return key[2:4] != b"\x00\x01"


def _segments(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if _SEGMENT.fullmatch(file.name))


def _cleaned(folder: Path, index: int) -> int:
    """The position of the cleaner in a partition, by ``cleaner-offset-checkpoint`` beside its folder; 0 without one."""
    file = folder.resolve().parent / "cleaner-offset-checkpoint"
    if not file.exists():
        return 0
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        if words[:2] == [OFFSETS_TOPIC, str(index)] and len(words) == 3 and words[2].isdecimal():
            return int(words[2])
    return 0


def _notes(counts: SegmentCounts) -> list[str]:
    notes = []
    if counts.unreadable:
        notes.append(f"{counts.unreadable} damaged stretches of the segment files could not be read; their records are missing")
    if counts.undecided:
        notes.append(f"{counts.undecided} records of transactions whose end is not in the segment files were left out")
    return notes
