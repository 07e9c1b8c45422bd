"""Records as a DataFrame with the columns of Spark's Kafka source, and Spark's errors on unreadable input."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import IntegralType, TimestampNTZType, TimestampType

from counterpoise.errors import CaptureError, MissingExtraError, SourceError, StorageError
from counterpoise.pipeline.capture.columns import RECORDS_FILE
from counterpoise.pipeline.gateway import JVM_ENDED, jvm_ended
from counterpoise.pipeline.source.checks import KAFKA, check_columns_present
from counterpoise.pipeline.source.parquet_rows import RAW_TYPES
from counterpoise.pipeline.source.scope import AuditScope

__all__ = ["check_columns", "count_before", "in_window", "new_records", "read_errors"]


def check_columns(records: DataFrame) -> DataFrame:
    """`records` with the columns that decoding needs, and no others: ``key, value, partition, offset, timestamp``.

    Raises `CaptureError` if a column is missing, or has a type that cannot be cast to that of Spark's Kafka source.
    """
    schema = records.schema
    check_columns_present("records", schema.names, RAW_TYPES, KAFKA)
    columns = []
    for name, kind in RAW_TYPES.items():
        expected = from_arrow_type(kind)
        given = schema[name].dataType
        # Tasks take times without a zone for UTC; a cast would take them for the session's zone.
        same = given == expected or (isinstance(expected, TimestampType) and isinstance(given, TimestampNTZType))
        if not same and not (isinstance(expected, IntegralType) and isinstance(given, IntegralType)):
            raise CaptureError(f"records: column {name} is {given.simpleString()}; expected {expected.simpleString()}")
        columns.append(fn.col(name) if same else fn.col(name).try_cast(expected).alias(name))
    return records.select(*columns)


def in_window(records: DataFrame, scope: AuditScope) -> DataFrame:
    """The records in the window of time."""
    if scope.since is not None:
        records = records.where(fn.col("timestamp") >= fn.lit(scope.since))
    return records if scope.until is None else records.where(fn.col("timestamp") < fn.lit(scope.until))


def count_before(records: DataFrame, end: Mapping[int, int]) -> int:
    """How many records there are before these offsets of log partitions."""
    parts = (f"(`partition` = {partition} AND `offset` < {offset})" for partition, offset in end.items())
    return records.where(" OR ".join(("false", *parts))).count()


def new_records(records: DataFrame, begin: Mapping[int, int]) -> DataFrame:
    """For each log partition in `begin` (see `ScanSpec.begin`), the records from one offset before it on; of others all.

    It is a filter, which Spark pushes down to sources that can skip files.
    """
    later = (f"(`partition` = {partition} AND `offset` >= {offset - 1})" for partition, offset in begin.items())
    others = f"`partition` NOT IN ({', '.join(map(str, begin))})"
    return records.where(" OR ".join((others, *later))) if begin else records


@contextmanager
def read_errors(where: str) -> Iterator[None]:
    """Turn Spark's errors into errors of one line: on unreadable input, a package that workers lack, a JVM that has ended."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:  # the last one: no JVM answers
        text = str(error)
        if found := _STORAGE.search(text):
            place, reason, advice, arrow = found.groups()
            advice = advice or "check the address, the network and the credentials"
            raise StorageError(place or where, reason or arrow, advice) from OSError(reason or arrow)
        if raised := _RAISED.search(text):
            raise CaptureError(raised[1]) from error
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
        if (ended := jvm_ended()) or any(sign in text for sign in _ENDED):
            failure = OSError(JVM_ENDED if ended else "a Python worker of Spark was killed, or was out of memory")
            advice = "run it again, with more memory if it needs that"
            raise SourceError(f"{where}: {failure}; {advice}") from failure
        # Spark Connect resolves a path late, so a missing one raises here.
        condition = (error.getCondition() or "") if isinstance(error, PySparkException) else ""
        if isinstance(error, AnalysisException) and condition in ("UNABLE_TO_INFER_SCHEMA", "PATH_NOT_FOUND"):
            raise CaptureError(f"{where}: no Parquet files there; give a capture folder with {RECORDS_FILE}") from error
        if any(sign in text for sign in _DAMAGE):
            raise CaptureError(f"{where}: cannot be read as Parquet; it is damaged or cut short, record it again") from error
        raise


_STORAGE = re.compile(r"^(?:counterpoise\.errors\.StorageError: (.+?): (.+); (.+)|OSError: (.*AWS Error .+))$", re.MULTILINE)
"""An error of a disk or an object store in a task, in the text of Spark's error."""
_RAISED = re.compile(r"^counterpoise\.errors\.(?:Capture|Snapshot)Error: (.+)$", re.MULTILINE)
"""An error that a task raised, for example because a page of a file is damaged."""
_MISSING = re.compile(r"^ModuleNotFoundError: No module named '(\w+)", re.MULTILINE)
_ENDED = (
    "Python worker exited unexpectedly",
    "MemoryError",
    "Cannot allocate memory",
    "failed to map segment",
    "java.lang.OutOfMemoryError",
)
# Iceberg's reader sets no error condition, so words of its message are looked for.
_DAMAGE = (
    "FAILED_READ_FILE",
    "is not a Parquet file",
    "CANNOT_READ_FILE_FOOTER",
    "could not read page",
    "ParquetDecodingException",
)
