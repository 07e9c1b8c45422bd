"""A capture folder from the text of `kafka-dump-log --offsets-decoder`: its visible records as bytes, and what the text lacks."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

from counterpoise.errors import CaptureError, WireError
from counterpoise.pipeline.capture.backup.dump_json import NOT_PRINTED, key_bytes, value_bytes
from counterpoise.pipeline.capture.backup.dump_text import Batch, Marker, Other, Printed, Segment, is_dump, lines_of
from counterpoise.pipeline.capture.backup.dump_words import COMMIT, GENERATION, commit_bytes, generation_bytes
from counterpoise.pipeline.capture.columns import OFFSETS_TOPIC, Row, in_batches
from counterpoise.pipeline.capture.folder import CaptureFolder
from counterpoise.snapshot.json_text import shown

__all__ = ["Read", "folder_of", "from_dump", "rows_of"]

_JSON = json.JSONDecoder()


@dataclass
class Read:
    """What was found in the text.

    Attributes
    ----------
    segments, records : int
        `records`: visible ones that are in the folder.
    aborted, undecided : int
        Records of transactions that were aborted, or whose end is not in the text.
    altered : int
        Records whose bytes, as far as the text gives them, are fewer or more than the tool says: a field is missing in the text.
    partial : int
        Generations of Kafka 3.7 and older: the text has their assignment, not their subscriptions.
    unreadable : int
        Records, batches and lines that give no record; each is told in `faults` (the first hundred).
    unnamed : int
        Segments whose name does not say which partition they are of.
    repeated, foreign : int
        Batches that were printed twice (kept once), and files that are not of the offsets topic.
    """

    segments: int = 0
    records: int = 0
    aborted: int = 0
    undecided: int = 0
    altered: int = 0
    partial: int = 0
    unreadable: int = 0
    unnamed: int = 0
    repeated: int = 0
    foreign: int = 0
    faults: list[str] = field(default_factory=list)

    def fault(self, what: str) -> None:
        """Count something that gives no record."""
        self.unreadable += 1
        if len(self.faults) < 100:
            self.faults.append(what)


def from_dump(file: Path, out: str | Path) -> Read:
    """Write a capture folder from the tool's output; the folder must be new or empty.

    Raises
    ------
    CaptureError
        The file is no such text, or was made without the decoder, or `out` holds a capture already.
    """
    if not is_dump(file):
        raise CaptureError(f"{file}: not the output of kafka-dump-log --offsets-decoder; give its text as it was printed")
    folder = CaptureFolder(out)
    try:
        if folder.about or folder.records.pieces:
            raise CaptureError(f"{out}: holds a capture already; give a new folder")
        found = Read()
        folder.records.append(in_batches(rows_of(file, found)), {})
        if not found.records and (found.unreadable or not found.aborted + found.undecided):
            raise CaptureError(f"{file}: no record could be read ({_why(found)}); dump with --offsets-decoder")
        folder.write_json("aborted_offsets.json", [])
        facts = {**asdict(found), "hidden": _notes(found), "complete": False}
        folder.say(format=1, topic=OFFSETS_TOPIC, source="dump", isolation="read_committed", **facts)
    finally:
        folder.close()
    return found


def folder_of(source: Path) -> Path:
    """The capture folder of a text (made once per process, and gone with it); of anything else `source` itself.

    Raises
    ------
    CaptureError
        It is such a text, but no record can be read from it.
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


def _why(found: Read) -> str:
    return found.faults[0] if found.faults else "it prints no records"


def _notes(found: Read) -> list[str]:
    told = {
        "records whose transaction has no end in the text were left out": found.undecided,
        "generations are printed without subscriptions (Kafka 3.7 and before): they are not replayed, and their causes and moves "
        "are known by members and assignments only": found.partial,
        "records have fields that the text does not show; what it shows is used": found.altered,
        "records, batches or lines could not be read": found.unreadable,
        "segments do not say their partition; partitions are numbered in the order of the text": found.unnamed,
    }
    lacking = "the text does not say which version an assignment was written in: it is taken from the leader's library"
    return [lacking, *(f"{count} {what}" for what, count in told.items() if count)]


def rows_of(file: Path, found: Read) -> Iterator[Row]:
    """The visible records in the order of the text; `found` is counted up.

    Raises
    ------
    CaptureError
        The text was made with options that leave out what is needed.

    Notes
    -----
    Two passes: whether a batch is visible is only known when its marker has come.
    """
    hidden = _invisible(file)
    seen: set[tuple[int, int]] = set()
    place = _Place()
    batch: Batch | None = None
    fate = ""
    for line in lines_of(file):
        if isinstance(line, Segment):
            place.enter(line, found)
            batch = None
        elif not place.ours:
            continue
        elif isinstance(line, Batch):
            batch, at = line, (place.at(line), line.base_offset)
            fate = "repeated" if at in seen else hidden.get(at, "")
            seen.add(at)
            found.repeated += fate == "repeated"
            if not line.valid:
                found.fault(f"partition {at[0]}, offset {at[1]}: the tool found its checksum wrong")
        elif isinstance(line, Other):
            found.fault(f"line {line.number}: not understood ({line.text[:80]})")
        elif isinstance(line, Printed) and batch is not None and batch.valid and not batch.control:
            if fate:
                found.aborted += fate == "aborted"
                found.undecided += fate == "undecided"
                continue
            row = _row(line, place.partition, found)
            if row is not None:
                found.records += 1
                yield row


class _Place:
    """Which partition the lines are of."""

    def __init__(self) -> None:
        self.partition = 0
        self.ours = True
        self._named = True
        self._last = -1

    def enter(self, segment: Segment, found: Read | None = None) -> None:
        """A file begins."""
        self.ours = segment.ours
        self._named = segment.partition is not None
        if segment.partition is not None:
            self.partition = segment.partition
        if found is not None:
            found.segments += segment.ours
            found.foreign += not segment.ours
            found.unnamed += segment.ours and not self._named

    def at(self, batch: Batch) -> int:
        """The partition of a batch: without a name, segments go on with one partition while their offsets rise."""
        if not self._named and batch.base_offset <= self._last:
            self.partition += 1
        self._last = batch.base_offset
        return self.partition


def _invisible(file: Path) -> dict[tuple[int, int], str]:
    """Batches that a reader of committed data never sees: "aborted", or "undecided" when their transaction has no end here."""
    waiting: dict[tuple[int, int], list[tuple[int, int]]] = {}
    hidden: dict[tuple[int, int], str] = {}
    place = _Place()
    batch: Batch | None = None
    for line in lines_of(file):
        if isinstance(line, Segment):
            place.enter(line)
        elif not place.ours:
            continue
        elif isinstance(line, Batch):
            batch, at = line, (place.at(line), line.base_offset)
            if line.valid and line.transactional and not line.control:
                waiting.setdefault((at[0], line.producer_id), []).append(at)
        elif isinstance(line, Marker) and batch is not None:
            ended = waiting.pop((place.partition, batch.producer_id), [])
            hidden.update(dict.fromkeys(() if line.commits else ended, "aborted"))
    hidden.update({at: "undecided" for open_ones in waiting.values() for at in open_ones})
    return hidden


def _row(line: Printed, partition: int, found: Read) -> Row | None:
    try:
        key, value, partial = _bytes(line)
    except (WireError, *NOT_PRINTED) as error:
        why = error if isinstance(error, WireError) else f"not what the decoder prints ({shown(error)})"
        found.fault(f"partition {partition}, offset {line.offset}: {why}")
        return None
    found.partial += partial
    sizes = len(key), -1 if value is None else len(value)
    found.altered += not partial and sizes != (line.key_size, line.value_size)
    return partition, line.offset, line.time, int(line.append_time), key, value


def _bytes(line: Printed) -> tuple[bytes, bytes | None, bool]:
    """Key, value, and whether the text has a part of the value only."""
    text = line.text.removeprefix("key: ")
    if text == line.text:
        raise WireError(0, "record", "its content was not printed")
    if text.startswith((COMMIT, GENERATION)):
        key, _, payload = text.partition(" payload: ") if text.startswith(GENERATION) else _cut(text)
        told = None if payload == "<DELETE>" else payload
        if key.startswith(COMMIT):
            return *commit_bytes(key, told, line.time), False
        return *generation_bytes(key, told), told is not None
    if not text.startswith("{"):
        raise WireError(0, "record", f"the decoder printed no fields ({text[:80]!r})")
    fields, end = _JSON.raw_decode(text)
    kind, raw = key_bytes(fields)
    payload = text[end:].removeprefix(" payload: ")
    return raw, None if payload == "<DELETE>" else value_bytes(kind, json.loads(payload)), False


def _cut(text: str) -> tuple[str, str, str]:
    """A commit's metadata may hold anything; a group's name may, too, but its key ends in a partition."""
    at = text.find(" payload: ", text.find(",partition="))
    return text[:at], "", text[at + len(" payload: ") :]
