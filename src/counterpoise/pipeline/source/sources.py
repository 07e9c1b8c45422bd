"""What the audit reads: a capture folder, a folder of Parquet files, or any DataFrame like Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.dump_folder import folder_of
from counterpoise.pipeline.capture.notes import capture_notes
from counterpoise.pipeline.source.checks import (
    check_aborted,
    check_files,
    check_pages,
    check_schema,
    check_topics,
    missing_columns,
    read_json,
    rows_with_nulls,
)
from counterpoise.pipeline.source.plain_files import RAW, SAMPLED, plain_files

__all__ = [
    "ONLY_RECORDS",
    "Capture",
    "Local",
    "check_columns",
    "check_source",
    "count_records",
    "is_plain",
    "read_capture",
    "reading",
]

RECORDS_FILE = "consumer_offsets.parquet"
_ENDS_FILE, _TOPICS_FILE, _ABORTED_FILE = "log_offsets.parquet", "topics.json", "aborted_offsets.json"
ONLY_RECORDS = "only records were given: lag is unknown, and commits of aborted or open transactions, if any, count as commits"
"""The note on an audit that has no companions of the records."""
_WANTED: Mapping[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
}
_LOG_WANTED: Mapping[str, DataType] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "log_start": LongType(),
    "log_end": LongType(),
    "sampled_at": TimestampType(),
}
_KAFKA = "Spark's Kafka source"
_TOPICS = "map<string, struct<partitions: int, topic_id: string, internal: boolean>>"


@dataclass(frozen=True)
class Local:
    """The files of a capture that every worker sees and that Arrow can read as Spark would (see `plain_files`).

    Attributes
    ----------
    records, ends : tuple of str
        Without files in `ends` log ends are not known, or not so written.
    topics, aborted : str, optional
    """

    records: tuple[str, ...]
    ends: tuple[str, ...] = ()
    topics: str | None = None
    aborted: str | None = None


@dataclass(frozen=True)
class _Later:
    """A table that is made when it is first asked for: Spark loads for seconds what the first query of a session needs."""

    make: Callable[[], DataFrame]


def _later(make: Callable[[], DataFrame]) -> Any:
    return _Later(make)


@dataclass(frozen=True)
class Capture:
    """One recording, lazily.

    Attributes
    ----------
    records : DataFrame
        Records of the offsets topic, columns of Spark's Kafka source.
    log_ends : DataFrame, optional
        ``topic, partition, log_start, log_end, sampled_at``, without nulls.
    topics : DataFrame, optional
        ``topic, partitions, topic_id``: metadata at the end of the recording.
    aborted : DataFrame, optional
        ``log_partition, log_offset`` of records that a reader of committed data never sees.
    notes : tuple of str
        What is missing or left out, in words.
    local : Local, optional
        The same as files; None where they are elsewhere, of another form, or only a part of them counts.
    """

    records: DataFrame
    log_ends: DataFrame | None = None
    topics: DataFrame | None = None
    aborted: DataFrame | None = None
    notes: tuple[str, ...] = ()
    local: Local | None = None

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if isinstance(value, _Later):
            value = value.make()
            object.__setattr__(self, name, value)
        return value

    @property
    def tells_aborted(self) -> bool:
        """Whether it says which records never took effect."""
        return self.aborted is not None if self.local is None else self.local.aborted is not None


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
    records = _checked(path)
    folder, where = _folder(path, records), str(records.absolute())
    local = _local(records, folder)
    if local is not None:
        # With columns that are known already Spark need not look into the files.
        found = _later(lambda: spark.read.schema(_schema(_WANTED)).parquet(where))
        return Capture(found, *_companions(spark, folder, local), local)
    with reading(str(records)):
        return Capture(check_columns(spark.read.parquet(where), str(records)), *_companions(spark, folder, None))


def _schema(columns: Mapping[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def _local(records: Path, folder: Path | None) -> Local | None:
    files = plain_files(records, RAW)
    if not files:
        return None
    if folder is None:
        return Local(files)
    ends, topics, aborted = folder / _ENDS_FILE, folder / _TOPICS_FILE, folder / _ABORTED_FILE
    sampled = plain_files(ends.resolve(), SAMPLED) if ends.exists() else ()
    named = [str(file.absolute()) if file.exists() else None for file in (topics, aborted)]
    return Local(files, sampled, named[0], named[1])


def check_source(source: str | Path) -> None:
    """The errors of `read_capture` that need no Spark, before a session is started for nothing.

    Raises
    ------
    CaptureError
    """
    if "://" not in str(source):
        _checked(folder_of(Path(source)))


def _checked(path: Path) -> Path:
    if not path.exists():
        raise CaptureError(f"{path}: no such file or folder; give a capture folder with {RECORDS_FILE}, or a Parquet file")
    records = _records_path(path)
    check_files(records)
    check_schema(records, _named(_WANTED), _KAFKA)
    folder = _folder(path, records)
    if folder is not None:
        _check_companions(folder)
    return records


def _folder(path: Path, records: Path) -> Path | None:
    """The capture folder, if there are companions to look for."""
    return path if path.is_dir() and records != path else None


def _named(wanted: Mapping[str, DataType]) -> dict[str, str]:
    return {name: kind.simpleString() for name, kind in wanted.items()}


def _check_companions(folder: Path) -> None:
    ends, topics, aborted = folder / _ENDS_FILE, folder / _TOPICS_FILE, folder / _ABORTED_FILE
    if ends.exists():
        check_files(ends)
        check_schema(ends, _named(_LOG_WANTED), "samples of log ends")
    if topics.exists():
        check_topics(read_json(topics.read_bytes(), str(topics)), str(topics))
    if aborted.exists():
        check_aborted(read_json(aborted.read_bytes(), str(aborted)), str(aborted))


def count_records(source: str | Path) -> int | None:
    """Records of a local capture by its Parquet footers; None where they cannot be read (that is `read_capture`'s to say)."""
    try:
        records = _records_path(folder_of(Path(source)))
        files = [records] if records.is_file() else sorted(records.rglob("*.parquet"))
        return sum(int(pq.read_metadata(file).num_rows) for file in files)
    except (CaptureError, pa.ArrowException, OSError):
        return None


def is_plain(source: str | Path) -> bool:
    """Whether Arrow can read the records of a source in Spark's place (see `Local`)."""
    try:
        return "://" not in str(source) and bool(plain_files(_records_path(folder_of(Path(source))), RAW))
    except (CaptureError, pa.ArrowException, OSError):
        return False


def check_columns(records: DataFrame, where: str) -> DataFrame:
    """`records` with exactly the columns that decoding needs: ``key, value, partition, offset, timestamp``.

    Raises
    ------
    CaptureError
        A column is missing or has a type that cannot be what Spark's Kafka source gives.
    """
    return _fitting(records, where, _WANTED, _KAFKA)


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
            check_pages(_records_path(Path(where)), error)
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


def _companions(
    spark: SparkSession, folder: Path | None, local: Local | None
) -> tuple[DataFrame | None, DataFrame | None, DataFrame | None, tuple[str, ...]]:
    """Log ends, topics, aborted offsets of a folder that was checked, and notes."""
    ends: Any = None
    topics: Any = None
    aborted: Any = None
    notes = capture_notes(folder)
    if folder is not None and (folder / _ENDS_FILE).exists():
        where = str(folder / _ENDS_FILE)
        # As with records: a running capture replaces what the link names.
        target = str(Path(where).resolve())
        if local is not None and local.ends:
            ends = _later(lambda: spark.read.schema(_schema(_LOG_WANTED)).parquet(target).dropna())
        else:
            with reading(where):
                ends = _log_ends(spark.read.parquet(target), where)
        notes += _null_note(rows_with_nulls(folder / _ENDS_FILE, list(_LOG_WANTED)))
    else:
        notes.append(f"no {_ENDS_FILE}: log ends are unknown, so lag is")
    if folder is not None and (folder / _TOPICS_FILE).exists():
        named = str((folder / _TOPICS_FILE).absolute())
        topics = _later(lambda: _topics(spark, named))
    else:
        notes.append(f"no {_TOPICS_FILE}: topic ids are named by commits only")
    if folder is not None and (folder / _ABORTED_FILE).exists():
        ended = str((folder / _ABORTED_FILE).absolute())
        aborted = _later(lambda: _aborted(spark, ended))
    else:
        notes.append(f"no {_ABORTED_FILE}: commits of aborted or open transactions, if any, count as commits")
    return ends, topics, aborted, tuple(notes)


def _null_note(rows: int) -> list[str]:
    named = f"{', '.join(list(_LOG_WANTED)[:-1])} or {list(_LOG_WANTED)[-1]}"
    return [f"{_ENDS_FILE}: {rows} rows without a value in {named} are left out"] if rows else []


def _remote(spark: SparkSession, where: str) -> Capture:
    try:
        records = check_columns(spark.read.parquet(f"{where}/{RECORDS_FILE}"), where)
    except AnalysisException:
        return Capture(check_columns(spark.read.parquet(where), where), notes=(ONLY_RECORDS,))
    whole = spark.read.parquet(f"{where}/{_ENDS_FILE}")
    ends = _log_ends(whole, where)
    left_out = whole.where(" or ".join(f"{name} is null" for name in _LOG_WANTED)).count()
    check_topics(_remote_json(spark, f"{where}/{_TOPICS_FILE}"), f"{where}/{_TOPICS_FILE}")
    check_aborted(_remote_json(spark, f"{where}/{_ABORTED_FILE}"), f"{where}/{_ABORTED_FILE}")
    topics, aborted = _topics(spark, f"{where}/{_TOPICS_FILE}"), _aborted(spark, f"{where}/{_ABORTED_FILE}")
    return Capture(records, ends, topics, aborted, tuple(_null_note(left_out)))


def _remote_json(spark: SparkSession, file: str) -> Any:
    row = spark.read.format("binaryFile").load(file).select("content").first()
    return read_json(b"" if row is None else bytes(row["content"]), file)


def _log_ends(frame: DataFrame, where: str) -> DataFrame:
    return _fitting(frame, where, _LOG_WANTED, "samples of log ends").dropna()


def _topics(spark: SparkSession, file: str) -> DataFrame:
    parsed = fn.from_json("value", _TOPICS)
    table = spark.read.text(file, wholetext=True).select(fn.explode(parsed).alias("topic", "about"))
    return table.select("topic", fn.col("about.partitions").alias("partitions"), fn.col("about.topic_id").alias("topic_id"))


def _aborted(spark: SparkSession, file: str) -> DataFrame:
    pairs = spark.read.text(file, wholetext=True).select(fn.explode(fn.from_json("value", "array<array<bigint>>")).alias("pair"))
    return pairs.select(fn.col("pair")[0].cast("int").alias("log_partition"), fn.col("pair")[1].alias("log_offset"))
