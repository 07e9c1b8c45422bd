"""A capture folder from the text of `kafka-dump-log --offsets-decoder`: visible records as bytes, and notes on missing parts."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from counterpoise.errors import CaptureError, WireError
from counterpoise.pipeline.capture.backup.dump_json import NOT_PRINTED, key_bytes, value_bytes
from counterpoise.pipeline.capture.backup.dump_text import Batch, Line, Marker, Other, Printed, Segment, is_dump, lines_of
from counterpoise.pipeline.capture.columns import Row, in_batches
from counterpoise.pipeline.capture.folder import BackupCounts, capture_backup, hidden_batches
from counterpoise.snapshot.json_text import shown

__all__ = ["DumpCounts", "folder_of", "from_dump", "rows_of"]

_JSON = json.JSONDecoder()


@dataclass
class DumpCounts(BackupCounts):
    """Counts of what the text has."""

    altered: int = 0  # Records with another size than the tool prints, because a field is missing in the text
    unnamed: int = 0  # Segments without a partition in their name
    # Batches that were printed twice (used once), and files of other topics
    repeated: int = 0
    foreign: int = 0


def from_dump(file: Path, out: str | Path) -> DumpCounts:
    """Write a capture folder from the tool's output (see `capture_backup`).

    Raises `CaptureError` if the file is no output of the tool, or was printed without the decoder or by Kafka 3.7 or older.
    """
    if not is_dump(file):
        raise CaptureError(f"{file}: not the output of kafka-dump-log --offsets-decoder; give its text as it was printed")
    counts = DumpCounts()

    def rows() -> Iterator[Row]:
        yield from rows_of(file, counts)
        if not counts.records and (counts.unreadable or not counts.aborted + counts.undecided):
            reason = counts.faults[0] if counts.faults else "it prints no records"
            raise CaptureError(f"{file}: no record could be read ({reason}); dump with --offsets-decoder")

    capture_backup(out, "dump", in_batches(rows()), counts, lambda: {"hidden": _notes(counts), "complete": False})
    return counts


def folder_of(source: Path) -> Path:
    """The capture folder of a text, written once per process and deleted at its end; any other `source` is returned unchanged.

    Raises `CaptureError` if `source` is a text of the tool, but no record can be read from it.
    """
    if not source.is_file() or not is_dump(source):
        return source
    about = source.stat()
    return _unfolded(source.resolve(), about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=64)
def _unfolded(file: Path, _modified: int, _size: int) -> Path:
    scratch = Path(tempfile.mkdtemp(prefix="counterpoise-dump-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    from_dump(file, scratch / "capture")
    return scratch / "capture"


def _notes(counts: DumpCounts) -> list[str]:
    notes = {
        "records whose transaction has no end in the text were left out": counts.undecided,
        "records have fields that the text does not show; what it shows is used": counts.altered,
        "records, batches or lines could not be read": counts.unreadable,
        "segments do not say their partition; partitions are numbered in the order of the text": counts.unnamed,
    }
    version = "the text does not say which version an assignment was written in: it is taken from the leader's library"
    return [version, *(f"{count} {note}" for note, count in notes.items() if count)]


def rows_of(file: Path, counts: DumpCounts) -> Iterator[Row]:
    """Yield the visible records in the order of the text; updates `counts`.

    Two passes: only the marker after a batch says whether it is visible. Raises `CaptureError` as `dump_text.lines_of`.
    """
    hidden = hidden_batches(_transactional(file))
    seen: set[tuple[int, int]] = set()
    fate = ""
    for line, partition, batch in _located(file):
        if isinstance(line, Segment):
            counts.segments += line.ours
            counts.foreign += not line.ours
            counts.unnamed += line.ours and line.partition is None
        elif isinstance(line, Batch):
            at = partition, line.base_offset
            fate = "repeated" if at in seen else hidden.get(at, "")
            seen.add(at)
            counts.repeated += fate == "repeated"
            if not line.valid:
                counts.fault(f"partition {at[0]}, offset {at[1]}: the tool found its checksum wrong")
        elif isinstance(line, Other):
            counts.fault(f"line {line.number}: not understood ({line.text[:80]})")
        elif isinstance(line, Printed) and batch is not None and batch.valid and not batch.control:
            if fate:
                counts.aborted += fate == "aborted"
                counts.undecided += fate == "undecided"
                continue
            row = _row(line, partition, counts)
            if row is not None:
                counts.records += 1
                yield row


def _located(file: Path) -> Iterator[tuple[Line, int, Batch | None]]:
    """Yield each segment header. For segments of the offsets topic also yield its lines, each with its partition and batch."""
    partition, ours, named, batch = 0, True, True, None
    last = -1
    for line in lines_of(file):
        if isinstance(line, Segment):
            ours, named, batch = line.ours, line.partition is not None, None
            partition = partition if line.partition is None else line.partition
        elif not ours:
            continue
        elif isinstance(line, Batch):
            # Segments without a name belong to one partition while their offsets rise.
            partition += not named and line.base_offset <= last
            batch, last = line, line.base_offset
        yield line, partition, batch


def _transactional(file: Path) -> Iterator[tuple[tuple[int, int], int, bool | None]]:
    """The batches of transactions and their markers, for `hidden_batches`."""
    for line, partition, batch in _located(file):
        if isinstance(line, Batch) and line.valid and line.transactional and not line.control:
            yield (partition, line.base_offset), line.producer_id, None
        elif isinstance(line, Marker) and batch is not None:
            yield (partition, batch.base_offset), batch.producer_id, line.commits


def _row(line: Printed, partition: int, counts: DumpCounts) -> Row | None:
    try:
        key, value = _bytes(line)
    except (WireError, *NOT_PRINTED) as error:
        reason = error if isinstance(error, WireError) else f"not what the decoder prints ({shown(error)})"
        counts.fault(f"partition {partition}, offset {line.offset}: {reason}")
        return None
    counts.altered += (len(key), -1 if value is None else len(value)) != (line.key_size, line.value_size)
    return partition, line.offset, line.time, int(line.append_time), key, value


def _bytes(line: Printed) -> tuple[bytes, bytes | None]:
    """Key and value."""
    text = line.text.removeprefix("key: ")
    if text == line.text:
        raise WireError(0, "record", "its content was not printed")
    if not text.startswith("{"):
        raise WireError(0, "record", f"the decoder printed no fields ({text[:80]!r})")
    fields, end = _JSON.raw_decode(text)
    kind, raw = key_bytes(fields)
    payload = text[end:].removeprefix(" payload: ")
    return raw, None if payload == "<DELETE>" else value_bytes(kind, json.loads(payload))
