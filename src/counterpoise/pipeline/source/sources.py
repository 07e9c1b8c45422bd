"""Sources of the audit: a capture folder, a folder of Parquet files, or a DataFrame with the columns of Spark's Kafka source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import IntegerType, LongType, TimestampType

from counterpoise.errors import CaptureError, MissingExtraError, SourceError, StorageError
from counterpoise.pipeline.capture.folder import capture_notes
from counterpoise.pipeline.fold.new_samples import unusable_samples
from counterpoise.pipeline.source.capture import Capture, CaptureFiles
from counterpoise.pipeline.source.checks import check_columns_present, check_pages, parquet_files
from counterpoise.pipeline.source.layout import (
    ABORTED_FILE,
    ENDS_FILE,
    KAFKA,
    RECORD_COLUMNS,
    RECORDS_FILE,
    TOPICS_FILE,
    checked_files,
    records_path,
)

__all__ = ["ONLY_RECORDS", "check_columns", "read_capture", "read_errors"]

ONLY_RECORDS = "only records were given: lag is unknown, and commits of aborted or open transactions, if any, count as commits"
"""The note on an audit of records without samples and metadata."""


def read_capture(source: str | Path) -> Capture:
    """Find the files of a capture folder, a Parquet file or folder that holds only records, or the text of ``kafka-dump-log``.

    `source` is a local path or a URI (`storage.files`). Reads only footers and small JSON files (and log ends, if their
    statistics allow unusable ones). Paths are made absolute, because a server (Spark Connect) has another working directory.

    Raises `CaptureError` if the path does not exist, holds no records, is no Parquet or is cut short, a column is missing or of
    another type, or the samples or metadata are malformed.
    """
    files, folder = checked_files(source)
    return Capture(notes=tuple(_notes(files, folder)), files=files)


def _notes(files: CaptureFiles, folder: str | None) -> Iterator[str]:
    yield from capture_notes(folder)
    if not files.ends:
        yield f"no {ENDS_FILE}: log ends are unknown, so lag is"
    elif rows := unusable_samples(files.ends):
        yield f"{ENDS_FILE}: {rows:,} rows are left out: a null, a time outside the years 1 to 9999 or an offset no log can have"
    if files.topics is None:
        yield f"no {TOPICS_FILE}: topic ids are named by commits only"
    if files.aborted is None:
        yield f"no {ABORTED_FILE}: commits of aborted or open transactions, if any, count as commits"


def check_columns(records: DataFrame, where: str) -> DataFrame:
    """`records` with the columns that decoding needs, and no others: ``key, value, partition, offset, timestamp``.

    Raises `CaptureError` if a column is missing, or has a type that cannot be cast to that of Spark's Kafka source.
    """
    schema = records.schema
    check_columns_present(where, schema.names, RECORD_COLUMNS, KAFKA)
    columns = []
    for name, expected in RECORD_COLUMNS.items():
        given = schema[name].dataType
        fits = given == expected or (isinstance(expected, IntegerType | LongType) and given.typeName() in _INTEGERS)
        if not fits and not (isinstance(expected, TimestampType) and given.typeName() == "timestamp_ntz"):
            raise CaptureError(f"{where}: column {name} is {given.simpleString()}; expected {expected.simpleString()}")
        columns.append(fn.col(name) if given == expected else fn.col(name).cast(expected).alias(name))
    return records.select(*columns)


_INTEGERS = ("byte", "short", "integer", "long")


@contextmanager
def read_errors(where: str) -> Iterator[None]:
    """Turn Spark's errors on unreadable input, and on workers without a package, into an error of one line."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        if found := _STORAGE.search(text):
            place, reason, advice, arrow = found.groups()
            advice = advice or "check the address, the network and the credentials"
            raise StorageError(place or where, reason or arrow, advice) from OSError(reason or arrow)
        if "No space left on dev" in text:
            full = OSError("no space left on the device")
            raise StorageError(
                "Spark's local folder (SPARK_LOCAL_DIRS, or TMPDIR)", str(full), "make room, or name another one"
            ) from full
        if missing := _MISSING.search(text):
            raise MissingExtraError(
                f"the Python of Spark's workers has no {missing[1]}: install counterpoise[spark] there, or name another Python "
                "in PYSPARK_PYTHON (docs/cluster.md)"
            ) from error
        if any(sign in text for sign in _ENDED):
            failure = OSError("a Python worker of Spark was killed, or was out of memory")
            raise SourceError(
                f"{where}: {failure}; nothing is stored: run it again, with more memory if it needs that"
            ) from failure
        condition = (error.getCondition() or "") if isinstance(error, PySparkException) else ""
        if isinstance(error, AnalysisException) and condition in ("UNABLE_TO_INFER_SCHEMA", "PATH_NOT_FOUND"):
            raise CaptureError(f"{where}: no Parquet files there; give a capture folder with {RECORDS_FILE}") from error
        if any(sign in text for sign in _DAMAGE):
            raise CaptureError(f"{where}: cannot be read as Parquet; it is damaged or cut short, record it again") from error
        files: list[str] = []
        with suppress(CaptureError):
            files = parquet_files(records_path(where))
        check_pages(files)
        raise


_STORAGE = re.compile(r"^(?:counterpoise\.errors\.StorageError: (.+?): (.+); (.+)|OSError: (.*AWS Error .+))$", re.MULTILINE)
"""An error of a disk or an object store in a task, in the text of Spark's error."""
_MISSING = re.compile(r"^ModuleNotFoundError: No module named '(\w+)", re.MULTILINE)
_ENDED = (
    "Python worker exited unexpectedly",
    "MemoryError",
    "Cannot allocate memory",
    "failed to map segment",
    "java.lang.OutOfMemoryError",
)
_DAMAGE = (
    "FAILED_READ_FILE",
    "is not a Parquet file",
    "CANNOT_READ_FILE_FOOTER",
    "could not read page",
    "ParquetDecodingException",
)
