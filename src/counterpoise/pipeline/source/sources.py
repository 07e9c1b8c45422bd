"""What the audit reads: a capture folder, a folder of Parquet files, or any DataFrame like Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import DataType, IntegerType, LongType, TimestampType

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.backup.dump_folder import folder_of
from counterpoise.pipeline.capture.notes import capture_notes
from counterpoise.pipeline.source.capture import Capture, later
from counterpoise.pipeline.source.checks import (
    check_aborted,
    check_pages,
    check_topics,
    missing_columns,
    read_json,
    rows_with_nulls,
)
from counterpoise.pipeline.source.layout import (
    ABORTED_FILE,
    ENDS_FILE,
    KAFKA,
    LOG_ENDS,
    RECORD_COLUMNS,
    RECORDS_FILE,
    TOPICS_FILE,
    checked_records,
    folder_of_companions,
    local_files,
    records_path,
)

__all__ = ["ONLY_RECORDS", "check_columns", "read_capture", "reading"]

ONLY_RECORDS = "only records were given: lag is unknown, and commits of aborted or open transactions, if any, count as commits"
"""The note on an audit that has no companions of the records."""
_TOPICS = "map<string, struct<partitions: int, topic_id: string, internal: boolean>>"


def read_capture(spark: SparkSession, source: str | Path) -> Capture:
    """Read a capture folder, a Parquet file or folder that holds only records, or the text of ``kafka-dump-log``.

    Raises
    ------
    CaptureError
        The path does not exist, holds no records, is no Parquet or is cut short, a column is missing or of another type, or
        a companion of the records is not of its shape.

    Notes
    -----
    Only footers and small JSON files are looked at here (and log ends, if nulls are among them).
    A path with a scheme (``s3a://``, ``hdfs://``) is left to Spark; others are made absolute, because a server (Spark Connect)
    works in another folder.
    """
    text = str(source)
    if "://" in text:
        with reading(text):
            return _remote(spark, text.rstrip("/"))
    path = folder_of(Path(source))
    records = checked_records(path)
    folder, where = folder_of_companions(path, records), str(records.absolute())
    local = local_files(records, folder)
    found = later(lambda: check_columns(spark.read.parquet(where), str(records)))
    return Capture(found, *_companions(spark, folder), local)


def check_columns(records: DataFrame, where: str) -> DataFrame:
    """`records` with exactly the columns that decoding needs: ``key, value, partition, offset, timestamp``.

    Raises
    ------
    CaptureError
        A column is missing or has a type that cannot be what Spark's Kafka source gives.
    """
    return _fitting(records, where, RECORD_COLUMNS, KAFKA)


def _fitting(frame: DataFrame, where: str, columns_wanted: Mapping[str, DataType], source: str) -> DataFrame:
    schema = frame.schema
    missing_columns(where, schema.names, columns_wanted, source)
    columns = []
    for name, wanted in columns_wanted.items():
        given = schema[name].dataType
        fits = given == wanted or (isinstance(wanted, IntegerType | LongType) and given.typeName() in _INTEGERS)
        if not fits and not (isinstance(wanted, TimestampType) and given.typeName() == "timestamp_ntz"):
            raise CaptureError(f"{where}: column {name} is {given.simpleString()}; {wanted.simpleString()} is wanted")
        columns.append(fn.col(name) if given == wanted else fn.col(name).cast(wanted).alias(name))
    return frame.select(*columns)


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
        if "://" not in where and Path(where).exists():
            check_pages(records_path(Path(where)), error)
        raise


_DAMAGE = (
    "FAILED_READ_FILE",
    "is not a Parquet file",
    "CANNOT_READ_FILE_FOOTER",
    "could not read page",
    "ParquetDecodingException",
)


def _companions(
    spark: SparkSession, folder: Path | None
) -> tuple[DataFrame | None, DataFrame | None, DataFrame | None, tuple[str, ...]]:
    """Log ends, topics, aborted offsets of a folder that was checked, and notes."""
    ends: Any = None
    topics: Any = None
    aborted: Any = None
    notes = capture_notes(folder)
    if folder is not None and (folder / ENDS_FILE).exists():
        where = str(folder / ENDS_FILE)
        # As with records: a running capture replaces what the link names.
        target = str(Path(where).resolve())
        ends = later(lambda: _log_ends(spark.read.parquet(target), where))
        notes += _null_note(rows_with_nulls(folder / ENDS_FILE, list(LOG_ENDS)))
    else:
        notes.append(f"no {ENDS_FILE}: log ends are unknown, so lag is")
    if folder is not None and (folder / TOPICS_FILE).exists():
        named = str((folder / TOPICS_FILE).absolute())
        topics = later(lambda: _topics(spark, named))
    else:
        notes.append(f"no {TOPICS_FILE}: topic ids are named by commits only")
    if folder is not None and (folder / ABORTED_FILE).exists():
        ended = str((folder / ABORTED_FILE).absolute())
        aborted = later(lambda: _aborted(spark, ended))
    else:
        notes.append(f"no {ABORTED_FILE}: commits of aborted or open transactions, if any, count as commits")
    return ends, topics, aborted, tuple(notes)


def _null_note(rows: int) -> list[str]:
    named = f"{', '.join(list(LOG_ENDS)[:-1])} or {list(LOG_ENDS)[-1]}"
    return [f"{ENDS_FILE}: {rows:,} rows without a value in {named} are left out"] if rows else []


def _remote(spark: SparkSession, where: str) -> Capture:
    try:
        records = check_columns(spark.read.parquet(f"{where}/{RECORDS_FILE}"), where)
    except AnalysisException:
        return Capture(check_columns(spark.read.parquet(where), where), notes=(ONLY_RECORDS,))
    whole = spark.read.parquet(f"{where}/{ENDS_FILE}")
    ends = _log_ends(whole, where)
    left_out = whole.where(" or ".join(f"{name} is null" for name in LOG_ENDS)).count()
    check_topics(_remote_json(spark, f"{where}/{TOPICS_FILE}"), f"{where}/{TOPICS_FILE}")
    check_aborted(_remote_json(spark, f"{where}/{ABORTED_FILE}"), f"{where}/{ABORTED_FILE}")
    topics, aborted = _topics(spark, f"{where}/{TOPICS_FILE}"), _aborted(spark, f"{where}/{ABORTED_FILE}")
    return Capture(records, ends, topics, aborted, tuple(_null_note(left_out)))


def _remote_json(spark: SparkSession, file: str) -> Any:
    row = spark.read.format("binaryFile").load(file).select("content").first()
    return read_json(b"" if row is None else bytes(row["content"]), file)


def _log_ends(frame: DataFrame, where: str) -> DataFrame:
    return _fitting(frame, where, LOG_ENDS, "samples of log ends").dropna()


def _topics(spark: SparkSession, file: str) -> DataFrame:
    parsed = fn.from_json("value", _TOPICS)
    table = spark.read.text(file, wholetext=True).select(fn.explode(parsed).alias("topic", "about"))
    return table.select("topic", fn.col("about.partitions").alias("partitions"), fn.col("about.topic_id").alias("topic_id"))


def _aborted(spark: SparkSession, file: str) -> DataFrame:
    pairs = spark.read.text(file, wholetext=True).select(fn.explode(fn.from_json("value", "array<array<bigint>>")).alias("pair"))
    return pairs.select(fn.col("pair")[0].cast("int").alias("log_partition"), fn.col("pair")[1].alias("log_offset"))
