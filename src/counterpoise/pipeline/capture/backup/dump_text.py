"""Parser of the text that Kafka's `kafka-dump-log` prints: segments, batches and records by line. Kafka 3.9 to 4.3."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.columns import OFFSETS_TOPIC

__all__ = ["Batch", "Line", "Marker", "Other", "Printed", "Segment", "is_dump", "lines_of"]

_HEAD_BYTES = 65_536
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_DUMPING = re.compile(r"Dumping (.+)")
_FOLDER = re.compile(r"(.+)-(\d+)")
_BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: \d+ count: (?>.*?producerId: )(-?\d+) (?>.*?isTransactional: )(true|false) "
    r"isControl: (true|false) (?>.*?isvalid: )(true|false)"
)
_RECORD = re.compile(
    r"\| offset: (\d+) (CreateTime|LogAppendTime|NoTimestampType): (-?\d+) key[sS]ize: (-?\d+) value[sS]ize: (-?\d+) "
    r"sequence: -?\d+ headerKeys: \[[^\]]*\] ?(.*)"
)
_OLD = ("key: offset_commit::group=", "key: group_metadata::group=")
_MARKER = re.compile(r"endTxnMarker: (ABORT|COMMIT)\b")
_SILENT = re.compile(
    r"\s*$|(Log s|S)tarting offset: |timestamp: \d+ offset: |offset: \d+ position: \d+$|SLF4J: |.* passed sanity check"
)
"""Lines without a record: headings, index files, the logging library."""


@dataclass(frozen=True)
class Segment:
    """The begin of a file. `partition` None: not in its name; `ours` False: of another topic, or an index."""

    partition: int | None
    ours: bool


@dataclass(frozen=True)
class Batch:
    """The begin of a batch; attributes as in the log, `valid`: the tool's check of its checksum."""

    base_offset: int
    producer_id: int
    transactional: bool
    control: bool
    valid: bool


@dataclass(frozen=True)
class Printed:
    """One record: sizes in bytes (-1: null), and the text of key and payload; empty: not printed."""

    offset: int
    time: int
    append_time: bool
    key_size: int
    value_size: int
    text: str


@dataclass(frozen=True)
class Marker:
    """The end of a transaction."""

    commits: bool


@dataclass(frozen=True)
class Other:
    """An unknown line; `number` counts from 1."""

    number: int
    text: str


Line = Segment | Batch | Printed | Marker | Other


def is_dump(file: Path) -> bool:
    """Whether a file begins like the tool's output; its name does not matter."""
    try:
        with file.open("rb") as opened:
            head = opened.read(_HEAD_BYTES)
    except OSError:
        return False
    text = head.decode("utf-16" if head.startswith(_UTF16) else "utf-8", "replace")
    return any(line.startswith("baseOffset: ") or _DUMPING.match(line) for line in text.splitlines()[:200])


def lines_of(file: Path) -> Iterator[Line]:
    """Parse the lines of a file, in order; one line is in memory at a time.

    Bytes that are not UTF-8 become U+FFFD, which shows in the sizes that the tool prints. Raises `CaptureError` if the text lacks
    what an audit needs: it was printed with options that omit offsets, or by Kafka 3.7 or older.
    """
    with file.open("rb") as opened:
        encoding = "utf-16" if opened.read(2) in _UTF16 else "utf-8"
    with file.open(encoding=encoding, errors="replace", newline="\n") as text:
        for number, line in enumerate(text, 1):
            try:
                parsed = _line(line.rstrip("\r\n"), number, file)
            except ValueError:
                parsed = Other(number, line)
            if parsed is not None:
                yield parsed


def _line(text: str, number: int, file: Path) -> Line | None:
    record = _RECORD.match(text)
    if record is not None and record[6].startswith(_OLD):
        lacks = "printed by Kafka 3.7 or older, which leaves out subscriptions, leaders and times of commits"
        raise CaptureError(f"{file}: {lacks}; dump with the tool of Kafka 3.9 or newer, or give the files to --from-segments")
    if record is not None:
        return _record(record)
    batch = _BATCH.match(text)
    if batch is not None:
        return Batch(_number(batch[1]), _number(batch[2]), *(batch[n] == "true" for n in (3, 4, 5)))
    dumping = _DUMPING.fullmatch(text)
    if dumping is not None:
        return _segment(dumping[1])
    if text.startswith("| key: "):
        raise CaptureError(f"{file}, line {number}: no offsets are printed; dump again without --skip-record-metadata")
    return None if _SILENT.match(text) else Other(number, text)


def _record(match: re.Match[str]) -> Printed | Marker:
    marker = _MARKER.match(match[6])
    if marker is not None:
        return Marker(marker[1] == "COMMIT")
    sizes = int(match[4]), int(match[5])
    return Printed(_number(match[1]), _number(match[3]), match[2] == "LogAppendTime", *sizes, match[6])


def _segment(name: str) -> Segment:
    parts = re.split(r"[/\\]", name.strip())
    folder = _FOLDER.fullmatch(parts[-2]) if len(parts) > 1 else None
    if not parts[-1].endswith(".log") or (folder is not None and folder[1] != OFFSETS_TOPIC):
        return Segment(None, False)
    return Segment(_number(folder[2], 32) if folder is not None else None, True)


def _number(text: str, bits: int = 64) -> int:
    """An integer of `bits` bits; raises `ValueError` for a larger one."""
    if not -1 << bits - 1 <= (number := int(text)) < 1 << bits - 1:
        raise ValueError(text)
    return number
