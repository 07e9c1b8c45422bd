"""What the audit reads: a capture folder, a folder of Parquet files, or any DataFrame like Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import IntegerType, LongType, TimestampType

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.folder import capture_notes
from counterpoise.pipeline.fold.new_samples import unusable_samples
from counterpoise.pipeline.source.capture import Capture, CaptureFiles
from counterpoise.pipeline.source.checks import check_pages, missing_columns, parquet_files
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

__all__ = ["ONLY_RECORDS", "check_columns", "read_capture", "reading"]

ONLY_RECORDS = "only records were given: lag is unknown, and commits of aborted or open transactions, if any, count as commits"
"""The note on an audit that has no companions of the records."""


def read_capture(source: str | Path) -> Capture:
    """Find the files of a capture folder, a Parquet file or folder that holds only records, or the text of ``kafka-dump-log``.

    Raises
    ------
    CaptureError
        The path does not exist, holds no records, is no Parquet or is cut short, a column is missing or of another type, or
        a companion of the records is not of its shape.

    Notes
    -----
    A local path or a URI (`storage.files`). Only footers and small JSON files are looked at here (and log ends, if nulls are
    among them). Paths are made absolute, because a server (Spark Connect) works in another folder.
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
    """`records` with exactly the columns that decoding needs: ``key, value, partition, offset, timestamp``.

    Raises
    ------
    CaptureError
        A column is missing or has a type that cannot be what Spark's Kafka source gives.
    """
    schema = records.schema
    missing_columns(where, schema.names, RECORD_COLUMNS, KAFKA)
    columns = []
    for name, wanted in RECORD_COLUMNS.items():
        given = schema[name].dataType
        fits = given == wanted or (isinstance(wanted, IntegerType | LongType) and given.typeName() in _INTEGERS)
        if not fits and not (isinstance(wanted, TimestampType) and given.typeName() == "timestamp_ntz"):
            raise CaptureError(f"{where}: column {name} is {given.simpleString()}; expected {wanted.simpleString()}")
        columns.append(fn.col(name) if given == wanted else fn.col(name).cast(wanted).alias(name))
    return records.select(*columns)


_INTEGERS = ("byte", "short", "integer", "long")


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Turn what Spark says about unreadable input into one clear line."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        condition = (error.getCondition() or "") if isinstance(error, PySparkException) else ""
        if isinstance(error, AnalysisException) and condition in ("UNABLE_TO_INFER_SCHEMA", "PATH_NOT_FOUND"):
            raise CaptureError(f"{where}: no Parquet files there; give a capture folder with {RECORDS_FILE}") from error
        if any(sign in text for sign in _DAMAGE):
            raise CaptureError(f"{where}: cannot be read as Parquet; it is damaged or cut short, record it again") from error
        found: list[str] = []
        with suppress(CaptureError):
            found = parquet_files(records_path(where))
        check_pages(found)
        raise


_DAMAGE = (
    "FAILED_READ_FILE",
    "is not a Parquet file",
    "CANNOT_READ_FILE_FOOTER",
    "could not read page",
    "ParquetDecodingException",
)
