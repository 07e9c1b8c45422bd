"""A capture: its files, found and checked by footers and small files without a Spark session, or a DataFrame of its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from counterpoise.errors import CaptureError, SnapshotError
from counterpoise.pipeline.capture.backup.dump_folder import folder_of
from counterpoise.pipeline.capture.columns import ABORTED_FILE, ENDS_FILE, RECORDS_FILE, TOPICS_FILE
from counterpoise.pipeline.capture.folder import Missing, missing_of
from counterpoise.pipeline.fold.new_samples import unusable_samples
from counterpoise.pipeline.source.checks import KAFKA, check_table, parquet_files
from counterpoise.pipeline.source.parquet_rows import RAW_TYPES, SAMPLE_TYPES
from counterpoise.pipeline.storage.files import absolute, exists, is_file, is_local, join, list_folder, read_bytes
from counterpoise.snapshot.json_text import decoded, fitted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Capture", "CaptureFiles", "read_capture", "records_path"]

T = TypeVar("T")
_Partition = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Topic(msgspec.Struct):
    partitions: _Partition
    topic_id: str | None = None


@dataclass(frozen=True)
class CaptureFiles:
    """The files of a capture, local paths or URIs, which every worker can read."""

    # Parquet. Without files in `ends`, log ends are unknown.
    records: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    # JSON
    topics: str | None = None
    aborted: str | None = None

    @cached_property
    def topic_ids(self) -> Mapping[str, str] | None:
        """Topic -> its id at the end of the recording; None: unknown. Raises `CaptureError` if the file has another form."""
        expected = 'expected topic -> {"partitions": number, "topic_id": string}; record it again'
        topics = _read(self.topics, dict[str, _Topic], expected)
        return None if topics is None else {name: about.topic_id for name, about in topics.items() if about.topic_id}

    @cached_property
    def aborted_records(self) -> frozenset[tuple[int, int]] | None:
        """Log partition and offset of records of aborted transactions; None: unknown. Raises as `topic_ids`."""
        pairs = _read(self.aborted, list[tuple[_Partition, _Offset]], "expected pairs [partition, offset]; record it again")
        return None if pairs is None else frozenset(pairs)


def _read(where: str | None, kind: type[T], expected: str) -> T | None:
    try:
        return None if where is None else fitted(decoded(read_bytes(where), expected), kind, "$", expected)
    except SnapshotError as error:
        raise CaptureError(f"{where}: {error}") from None


@dataclass(frozen=True)
class Capture:
    """The recording of one cluster."""

    files: CaptureFiles = CaptureFiles()
    records: DataFrame | None = None  # Columns of Spark's Kafka source; used instead of `files.records`
    notes: tuple[str, ...] = ()  # One sentence for each thing that is missing or left out
    place: str = "records"  # The path or URI, as the user gave it
    n_records: int | None = None  # By the footers of the files
    faults: tuple[str, ...] = ()  # Notes that name groups and topics: faults of polls
    gaps: tuple[tuple[int, int, int], ...] = ()  # As `capture.folder.Missing.gaps`
    deleted_before: float = 0  # As `capture.folder.Missing.deleted_before`


def read_capture(source: str | Path) -> Capture:
    """Find and check the files of a capture folder, a Parquet file or folder of records, or the text of ``kafka-dump-log``.

    `source` is a local path or a URI (`storage.files`). Reads only footers and small JSON files (and log ends, if their
    statistics allow unusable ones). Paths are made absolute, because a server (Spark Connect) has another working directory.

    Raises `CaptureError` if the path does not exist, holds no records, is no Parquet or is cut short, a column is missing or of
    another type, or the samples or metadata are malformed.
    """
    path = _path(source)
    records = records_path(path)
    files, missing = CaptureFiles(tuple(parquet_files(absolute(records)))), Missing()
    n_records = check_table(records, files.records, RAW_TYPES, KAFKA)
    if records != path:
        ends, topics, aborted = (join(absolute(path), name) for name in (ENDS_FILE, TOPICS_FILE, ABORTED_FILE))
        small = (file if exists(file) else None for file in (topics, aborted))
        has_ends = exists(ends)  # looked at once: a capture that is being recorded may get its first sample now
        files = CaptureFiles(files.records, tuple(parquet_files(_resolved(ends))) if has_ends else (), *small)
        if has_ends:
            check_table(ends, files.ends, SAMPLE_TYPES, "samples of log ends")
        missing = missing_of(path)
    notes = (*missing.notes, *_notes(files))
    return Capture(files, None, notes, str(source), n_records, missing.faults, missing.gaps, missing.deleted_before)


def _notes(files: CaptureFiles) -> Iterator[str]:
    if not files.ends:
        yield f"no {ENDS_FILE}: log ends are unknown, so lag is"
    elif rows := unusable_samples(files.ends):
        yield f"{ENDS_FILE}: {rows:,} rows are left out: a null, a time outside the years 1 to 9999 or an offset no log can have"
    if files.topic_ids is None:
        yield f"no {TOPICS_FILE}: topic ids are named by commits only"
    if files.aborted_records is None:
        yield f"no {ABORTED_FILE}: commits of aborted or open transactions, if any, count as commits"


def records_path(where: str) -> str:
    """The path of a capture's records: `where` itself if it is a file, or a folder of Parquet files that is no capture."""
    if is_file(where):
        return where
    names = list_folder(where)
    if not names and not exists(where):
        raise CaptureError(f"{where}: no such file or folder; give a capture folder with {RECORDS_FILE}, or a Parquet file")
    if RECORDS_FILE in names:
        return _resolved(join(where, RECORDS_FILE))
    if ENDS_FILE not in names and any(name.endswith(".parquet") or "=" in name for name in names):
        return where
    held = "it is empty" if not names else f"it holds {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}"
    raise CaptureError(f"{where}: no {RECORDS_FILE} in this folder ({held}); give the folder that `counterpoise capture` wrote")


def _resolved(where: str) -> str:
    """Follow a link on a disk: a running capture replaces the link, and the files behind it stay."""
    return str(Path(where).resolve()) if is_local(where) else where


def _path(source: str | Path) -> str:
    text = str(source).rstrip("/") or "/"
    if not is_local(text):
        return text
    return str(folder_of(Path(absolute(text) if "://" in text else text)))
