"""What the audit reads: a capture folder, a folder of Parquet files, or any DataFrame like Spark's Kafka source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import BinaryType, IntegerType, LongType, TimestampType

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.notes import capture_notes

__all__ = ["ONLY_RECORDS", "Capture", "check_columns", "check_source", "count_records", "read_capture", "reading"]

RECORDS_FILE = "consumer_offsets.parquet"
ONLY_RECORDS = "only records were given: lag is unknown, and commits of aborted or open transactions, if any, count as commits"
"""The note on an audit that has no companions of the records."""
_WANTED = {
    "key": BinaryType(),
    "value": BinaryType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
}
_LOG_WANTED = {"topic": None, "partition": None, "log_start": None, "log_end": None, "sampled_at": None}
_TOPICS = "map<string, struct<partitions: int, topic_id: string, internal: boolean>>"


@dataclass(frozen=True)
class Capture:
    """One recording, lazily.

    Attributes
    ----------
    records : DataFrame
        Records of the offsets topic, columns of Spark's Kafka source.
    log_ends : DataFrame, optional
        ``topic, partition, log_start, log_end, sampled_at``.
    topics : DataFrame, optional
        ``topic, partitions, topic_id``: metadata at the end of the recording.
    aborted : DataFrame, optional
        ``log_partition, log_offset`` of records that a reader of committed data never sees.
    notes : tuple of str
        What is missing, in words.
    """

    records: DataFrame
    log_ends: DataFrame | None = None
    topics: DataFrame | None = None
    aborted: DataFrame | None = None
    notes: tuple[str, ...] = ()


def read_capture(spark: SparkSession, source: str | Path) -> Capture:
    """Read a capture folder, or a Parquet file or folder that holds only records.

    Raises
    ------
    CaptureError
        The path does not exist, holds no records, is no Parquet or is cut short, or a column is missing.

    Notes
    -----
    Only footers and small JSON files are looked at here. A path with a scheme (``s3a://``, ``hdfs://``) is left to Spark.
    """
    text = str(source)
    if "://" in text:
        with reading(text):
            return _remote(spark, text.rstrip("/"))
    path = Path(source)
    records = _checked(path)
    with reading(str(records)):
        found = check_columns(spark.read.parquet(str(records)), str(records))
    folder = path if path.is_dir() and records != path else None
    return Capture(found, *_companions(spark, folder))


def check_source(source: str | Path) -> None:
    """The errors of `read_capture` that need no Spark, before a session is started for nothing.

    Raises
    ------
    CaptureError
    """
    if "://" not in str(source):
        _checked(Path(source))


def _checked(path: Path) -> Path:
    if not path.exists():
        raise CaptureError(f"{path}: no such file or folder; give a capture folder with {RECORDS_FILE}, or a Parquet file")
    records = _records_path(path)
    _check_files(records)
    return records


def count_records(source: str | Path) -> int | None:
    """Records of a local capture by its Parquet footers; None where they cannot be read (that is `read_capture`'s to say)."""
    try:
        records = _records_path(Path(source))
        files = [records] if records.is_file() else sorted(records.rglob("*.parquet"))
        return sum(int(pq.read_metadata(file).num_rows) for file in files)
    except (CaptureError, pa.ArrowException, OSError):
        return None


def check_columns(records: DataFrame, where: str) -> DataFrame:
    """`records` with exactly the columns that decoding needs: ``key, value, partition, offset, timestamp``.

    Raises
    ------
    CaptureError
        A column is missing or has a type that cannot be what Spark's Kafka source gives.
    """
    schema = records.schema
    missing = [name for name in _WANTED if name not in schema.names]
    if missing:
        raise CaptureError(
            f"{where}: column{'s' if len(missing) > 1 else ''} {', '.join(missing)} missing; the columns of Spark's "
            f"Kafka source are wanted ({', '.join(_WANTED)}), there are: {', '.join(schema.names) or 'none'}"
        )
    columns = []
    for name, wanted in _WANTED.items():
        given = schema[name].dataType
        fits = given == wanted or (isinstance(wanted, IntegerType | LongType) and given.typeName() in _INTEGERS)
        if not fits and not (name == "timestamp" and given.typeName() == "timestamp_ntz"):
            raise CaptureError(f"{where}: column {name} is {given.simpleString()}; {wanted.simpleString()} is wanted")
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
        _check_pages(Path(where), error)
        raise


_DAMAGE = (
    "FAILED_READ_FILE",
    "is not a Parquet file",
    "CANNOT_READ_FILE_FOOTER",
    "could not read page",
    "ParquetDecodingException",
)


def _records_path(path: Path) -> Path:
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


def _check_files(records: Path) -> None:
    files = [records] if records.is_file() else sorted(records.rglob("*.parquet"))
    if not files:
        raise CaptureError(f"{records}: no Parquet files in this folder; record it again or give another folder")
    for file in files:
        try:
            pq.read_metadata(file)
        except (pa.ArrowException, OSError) as error:
            raise CaptureError(f"{file}: not a whole Parquet file ({_first_line(error)}); it is damaged or cut short") from error


def _check_pages(path: Path, failure: Exception) -> None:
    """Something went wrong in Spark: see whether the pages behind sound footers can be read at all."""
    if "://" in str(path) or not path.exists():
        return
    records = _records_path(path)
    for file in [records] if records.is_file() else sorted(records.rglob("*.parquet")):
        try:
            for _ in pq.ParquetFile(file).iter_batches():
                pass
        except (pa.ArrowException, OSError) as error:
            raise CaptureError(f"{file}: its pages are damaged ({_first_line(error)}); record it again") from failure


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")[:160]


def _companions(
    spark: SparkSession, folder: Path | None
) -> tuple[DataFrame | None, DataFrame | None, DataFrame | None, tuple[str, ...]]:
    ends = topics = aborted = None
    notes = capture_notes(folder)
    if folder is not None and (folder / "log_offsets.parquet").exists():
        _check_files(folder / "log_offsets.parquet")
        with reading(str(folder / "log_offsets.parquet")):
            ends = _log_ends(spark.read.parquet(str(folder / "log_offsets.parquet")), str(folder / "log_offsets.parquet"))
    else:
        notes.append("no log_offsets.parquet: log ends are unknown, so lag is")
    if folder is not None and (folder / "topics.json").exists():
        _check_json(folder / "topics.json", dict)
        topics = _topics(spark, str(folder / "topics.json"))
    else:
        notes.append("no topics.json: topic ids are named by commits only")
    if folder is not None and (folder / "aborted_offsets.json").exists():
        _check_json(folder / "aborted_offsets.json", list)
        aborted = _aborted(spark, str(folder / "aborted_offsets.json"))
    else:
        notes.append("no aborted_offsets.json: commits of aborted or open transactions, if any, count as commits")
    return ends, topics, aborted, tuple(notes)


def _remote(spark: SparkSession, where: str) -> Capture:
    try:
        records = check_columns(spark.read.parquet(f"{where}/{RECORDS_FILE}"), where)
    except AnalysisException:
        return Capture(check_columns(spark.read.parquet(where), where), notes=(ONLY_RECORDS,))
    ends = _log_ends(spark.read.parquet(f"{where}/log_offsets.parquet"), where)
    return Capture(records, ends, _topics(spark, f"{where}/topics.json"), _aborted(spark, f"{where}/aborted_offsets.json"))


def _log_ends(frame: DataFrame, where: str) -> DataFrame:
    missing = [name for name in _LOG_WANTED if name not in frame.columns]
    if missing:
        raise CaptureError(f"{where}: column{'s' if len(missing) > 1 else ''} {', '.join(missing)} missing")
    return frame.select(*_LOG_WANTED)


def _check_json(file: Path, kind: type) -> None:
    try:
        value = json.loads(file.read_bytes())
    except ValueError as error:
        raise CaptureError(f"{file}: not JSON ({_first_line(error)}); it is damaged or cut short") from error
    if not isinstance(value, kind):
        raise CaptureError(f"{file}: a JSON {'object' if kind is dict else 'array'} is wanted")


def _topics(spark: SparkSession, file: str) -> DataFrame:
    parsed = fn.from_json("value", _TOPICS)
    table = spark.read.text(file, wholetext=True).select(fn.explode(parsed).alias("topic", "about"))
    return table.select("topic", fn.col("about.partitions").alias("partitions"), fn.col("about.topic_id").alias("topic_id"))


def _aborted(spark: SparkSession, file: str) -> DataFrame:
    pairs = spark.read.text(file, wholetext=True).select(fn.explode(fn.from_json("value", "array<array<bigint>>")).alias("pair"))
    return pairs.select(fn.col("pair")[0].cast("int").alias("log_partition"), fn.col("pair")[1].alias("log_offset"))
