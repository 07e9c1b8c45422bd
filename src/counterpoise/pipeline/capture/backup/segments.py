"""A history from the segment files of a broker's data folder, or of a backup of it, without any broker.

What a reader of committed data would have seen is worked out from the markers in the log. Below the cleaner's checkpoint
everything counts: the cleaner has removed aborted records there, and in time the markers of committed ones too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa

from counterpoise.errors import CaptureError, WireError
from counterpoise.pipeline.capture.backup.log_batches import LogBatch, batches, records
from counterpoise.pipeline.capture.columns import OFFSETS_TOPIC, Row, in_batches
from counterpoise.pipeline.capture.folder import CaptureFolder

__all__ = ["Found", "from_segments", "partition_folders", "read_partition"]

_FOLDER = re.compile(re.escape(OFFSETS_TOPIC) + r"-(\d+)")
_SEGMENT = re.compile(r"\d{20}\.log")


@dataclass
class Found:
    """What was found in the segments.

    Attributes
    ----------
    partitions, segments, batches, records : int
        `records`: visible ones.
    aborted, undecided : int
        Records of transactions that were aborted, or whose end is not in the log.
    corrupt : int
        Stretches or batches that could not be read; each is told in `faults` (the first hundred).
    """

    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    aborted: int = 0
    undecided: int = 0
    corrupt: int = 0
    faults: list[str] = field(default_factory=list)

    def fault(self, where: Path, what: object) -> None:
        """Count something unreadable."""
        self.corrupt += 1
        if len(self.faults) < 100:
            self.faults.append(f"{where.parent.name}/{where.name}: {what}")


def from_segments(source: Path, out: str | Path) -> Found:
    """Write a capture folder from segment files; the folder must be new or empty.

    Raises
    ------
    CaptureError
        There are no segments of the offsets topic, a partition is there twice, or `out` holds a capture already.

    Notes
    -----
    One file appears, whole or not at all. One segment is in memory at a time.
    """
    folders = partition_folders(source)
    folder = CaptureFolder(out)
    try:
        if folder.about or folder.records.pieces:
            raise CaptureError(f"{out}: holds a capture already; give a new folder")
        found = Found(partitions=len(folders))
        history = (batch for index, where in folders.items() for batch in read_partition(where, index, found))
        folder.records.append(history, {})
        folder.write_json("aborted_offsets.json", [])
        notes = _notes(found)
        folder.say(format=1, topic=OFFSETS_TOPIC, source="segments", isolation="read_committed", hidden=notes, **asdict(found))
    finally:
        folder.close()
    return found


def partition_folders(source: Path) -> dict[int, Path]:
    """Partition -> its folder, at `source` or anywhere below it.

    Raises
    ------
    CaptureError
    """
    if not source.is_dir():
        raise CaptureError(f"{source}: no such folder; give a broker's data folder (log.dirs) or a copy of it")
    found: dict[int, Path] = {}
    for folder in sorted([source, *source.rglob(f"{OFFSETS_TOPIC}-*")]):
        matched = _FOLDER.fullmatch(folder.resolve().name)
        if matched is None or not folder.is_dir():
            continue
        index = int(matched[1])
        if index in found:
            raise CaptureError(f"{folder}: partition {index} is also in {found[index]}; give one replica of each")
        found[index] = folder
    if not found:
        raise CaptureError(f"{source}: no folder {OFFSETS_TOPIC}-N in it; give a broker's data folder (log.dirs) or a copy of it")
    return dict(sorted(found.items()))


def read_partition(folder: Path, index: int, found: Found) -> Iterator[pa.RecordBatch]:
    """The visible records of one partition in order of offset; `found` is counted up."""
    return in_batches(_rows(folder, index, found))


def _rows(folder: Path, index: int, found: Found) -> Iterator[Row]:
    # Two passes: which batches are visible is only known when their marker has come, maybe a segment later.
    hidden = _invisible(folder, _cleaned(folder, index), found)
    for segment in _segments(folder):
        found.segments += 1
        for batch in batches(segment.read_bytes()):
            if isinstance(batch, str):
                found.fault(segment, batch)
                continue
            found.batches += 1
            if batch.control or batch.base_offset in hidden:
                continue
            try:
                held = records(batch)
            except WireError as error:
                found.fault(segment, f"offset {batch.base_offset}: {error}")
                continue
            found.records += len(held)
            yield from ((index, offset, time, int(batch.append_time), key, value) for offset, time, key, value in held)


def _invisible(folder: Path, cleaned: int, found: Found) -> set[int]:
    """Base offsets of batches of aborted transactions, and of those without an end."""
    waiting: dict[int, list[LogBatch]] = {}
    hidden: set[int] = set()
    for segment in _segments(folder):
        for batch in batches(segment.read_bytes()):
            if isinstance(batch, str) or not batch.transactional or batch.base_offset < cleaned:
                continue
            if not batch.control:
                waiting.setdefault(batch.producer_id, []).append(batch)
            elif _aborts(batch):
                gone = waiting.pop(batch.producer_id, [])
                hidden |= {each.base_offset for each in gone}
                found.aborted += sum(each.count for each in gone)
            else:
                waiting.pop(batch.producer_id, None)
    for open_ones in waiting.values():
        hidden |= {each.base_offset for each in open_ones}
        found.undecided += sum(each.count for each in open_ones)
    return hidden


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
    """How far the cleaner has come in a partition, by ``cleaner-offset-checkpoint`` beside its folder; 0 without one."""
    file = folder.resolve().parent / "cleaner-offset-checkpoint"
    if not file.exists():
        return 0
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        if words[:2] == [OFFSETS_TOPIC, str(index)] and len(words) == 3 and words[2].isdecimal():
            return int(words[2])
    return 0


def _notes(found: Found) -> list[str]:
    notes = []
    if found.corrupt:
        notes.append(f"{found.corrupt} damaged stretches of the segment files could not be read; their records are missing")
    if found.undecided:
        notes.append(f"{found.undecided} records of transactions whose end is not in the segment files were left out")
    return notes
