"""The files of a capture, found and checked by footers and small files, without a Spark session."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.backup.dump_folder import folder_of
from counterpoise.pipeline.source.capture import CaptureFiles
from counterpoise.pipeline.source.checks import aborted_records, check_table, parquet_files, topic_ids
from counterpoise.pipeline.source.parquet_rows import RAW_TYPES, SAMPLE_TYPES
from counterpoise.pipeline.storage.files import absolute, exists, is_file, is_local, join, list_folder, parquet_footers

__all__ = [
    "ABORTED_FILE",
    "ENDS_FILE",
    "KAFKA",
    "RECORDS_FILE",
    "RECORD_COLUMNS",
    "TOPICS_FILE",
    "checked_files",
    "count_records",
    "local_files",
    "records_path",
]

RECORDS_FILE = "consumer_offsets.parquet"
ENDS_FILE, TOPICS_FILE, ABORTED_FILE = "log_offsets.parquet", "topics.json", "aborted_offsets.json"
RECORD_COLUMNS: Mapping[str, DataType] = {name: from_arrow_type(kind) for name, kind in RAW_TYPES.items()}
KAFKA = "Spark's Kafka source"


def checked_files(source: str | Path) -> tuple[CaptureFiles, str | None]:
    """The checked files of a capture, and its folder (None: only records). Raises `CaptureError` if one is missing or damaged."""
    path = _path(source)
    records = records_path(path)
    folder = None if records == path else path
    files = local_files(records, folder)
    check_table(records, files.records, RAW_TYPES, KAFKA)
    if folder is not None and exists(join(folder, ENDS_FILE)):
        check_table(join(folder, ENDS_FILE), files.ends, SAMPLE_TYPES, "samples of log ends")
    if files.topics is not None:
        topic_ids(files.topics)
    if files.aborted is not None:
        aborted_records(files.aborted)
    return files, folder


def local_files(records: str | Path, folder: str | Path | None) -> CaptureFiles:
    """The files of a capture: records, and the samples and metadata beside them in `folder`."""
    record_files = tuple(parquet_files(absolute(records)))
    if folder is None:
        return CaptureFiles(record_files)
    ends, topics, aborted = (join(absolute(folder), name) for name in (ENDS_FILE, TOPICS_FILE, ABORTED_FILE))
    samples = tuple(parquet_files(_resolved(ends)))
    return CaptureFiles(record_files, samples, *(file if exists(file) else None for file in (topics, aborted)))


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


def count_records(source: str | Path) -> int | None:
    """The number of records of a capture by its Parquet footers; None if they cannot be read (`read_capture` raises then)."""
    try:
        return sum(int(one.num_rows) for one in parquet_footers(parquet_files(records_path(_path(source)))))
    except CaptureError:
        return None
