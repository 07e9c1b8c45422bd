"""Where the files of a capture lie, and whether they are what they should be: from footers and small files, without a session."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, TimestampType

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.backup.dump_folder import folder_of
from counterpoise.pipeline.source.capture import Local
from counterpoise.pipeline.source.checks import check_aborted, check_files, check_schema, check_topics, parquet_files, read_json

__all__ = [
    "ABORTED_FILE",
    "ENDS_FILE",
    "KAFKA",
    "LOG_ENDS",
    "RECORDS_FILE",
    "RECORD_COLUMNS",
    "TOPICS_FILE",
    "check_source",
    "checked_records",
    "count_records",
    "folder_of_companions",
    "local_files",
    "records_path",
]

RECORDS_FILE = "consumer_offsets.parquet"
ENDS_FILE, TOPICS_FILE, ABORTED_FILE = "log_offsets.parquet", "topics.json", "aborted_offsets.json"
RECORD_COLUMNS: Mapping[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
}
LOG_ENDS: Mapping[str, DataType] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "log_start": LongType(),
    "log_end": LongType(),
    "sampled_at": TimestampType(),
}
KAFKA = "Spark's Kafka source"


def check_source(source: str | Path) -> None:
    """The errors of `read_capture` that need no Spark, before a session is started for nothing.

    Raises
    ------
    CaptureError
    """
    if "://" not in str(source):
        checked_records(folder_of(Path(source)))


def checked_records(path: Path) -> Path:
    """The file or folder of the records, when it and its companions are what they should be."""
    if not path.exists():
        raise CaptureError(f"{path}: no such file or folder; give a capture folder with {RECORDS_FILE}, or a Parquet file")
    records = records_path(path)
    check_files(records)
    check_schema(records, _named(RECORD_COLUMNS), KAFKA)
    folder = folder_of_companions(path, records)
    if folder is not None:
        _check_companions(folder)
    return records


def folder_of_companions(path: Path, records: Path) -> Path | None:
    """The capture folder, if there are companions to look for."""
    return path if path.is_dir() and records != path else None


def _check_companions(folder: Path) -> None:
    ends, topics, aborted = folder / ENDS_FILE, folder / TOPICS_FILE, folder / ABORTED_FILE
    if ends.exists():
        check_files(ends)
        check_schema(ends, _named(LOG_ENDS), "samples of log ends")
    if topics.exists():
        check_topics(read_json(topics.read_bytes(), str(topics)), str(topics))
    if aborted.exists():
        check_aborted(read_json(aborted.read_bytes(), str(aborted)), str(aborted))


def _named(wanted: Mapping[str, DataType]) -> dict[str, str]:
    return {name: kind.simpleString() for name, kind in wanted.items()}


def local_files(records: Path, folder: Path | None) -> Local:
    """The files of a capture that was checked."""
    files = _names(records)
    if folder is None:
        return Local(files)
    ends, topics, aborted = folder / ENDS_FILE, folder / TOPICS_FILE, folder / ABORTED_FILE
    sampled = _names(ends.resolve()) if ends.exists() else ()
    named = [str(file.absolute()) if file.exists() else None for file in (topics, aborted)]
    return Local(files, sampled, named[0], named[1])


def _names(path: Path) -> tuple[str, ...]:
    return tuple(str(file.absolute()) for file in parquet_files(path))


def records_path(path: Path) -> Path:
    """Where the records of a capture are; a file is taken for them."""
    if path.is_file():
        return path
    inside = path / RECORDS_FILE
    if inside.exists():
        return inside.resolve()  # a running capture replaces what the link names; these files stay
    if any(path.glob("*.parquet")) and not (path / "log_offsets.parquet").exists():
        return path
    names = sorted(entry.name for entry in path.iterdir())
    held = "it is empty" if not names else f"it holds {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}"
    raise CaptureError(f"{path}: no {RECORDS_FILE} in this folder ({held}); give the folder that `counterpoise capture` wrote")


def count_records(source: str | Path) -> int | None:
    """Records of a local capture by its Parquet footers; None where they cannot be read (that is `read_capture`'s to say)."""
    try:
        records = records_path(folder_of(Path(source)))
        files = [records] if records.is_file() else sorted(records.rglob("*.parquet"))
        return sum(int(pq.read_metadata(file).num_rows) for file in files)
    except (CaptureError, pa.ArrowException, OSError):
        return None
