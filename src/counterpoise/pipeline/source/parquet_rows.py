"""Rows of Parquet files by Arrow, with the columns and types that the audit works on, whatever wrote the files.

Integers and bytes of other widths are cast, and times: without a zone they are UTC, nanoseconds and Spark's old INT96 are cut to
microseconds, and a time outside the years 1 to 9999 is null. A column that is written in the path (``partition=3/``) is read from
there. Pages that do not match their checksums are an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.columns import ARROW, SAMPLES
from counterpoise.pipeline.storage.files import first_line, is_local, parquet_file, parquet_footers

__all__ = ["RAW_TYPES", "SAMPLE_TYPES", "dated", "read_rows", "sound_pages", "statistics_of", "time_span", "time_spans"]

_RAW = ("key", "value", "partition", "offset", "timestamp")
_UTC_US = pa.timestamp("us", tz="UTC")
RAW_TYPES: Mapping[str, pa.DataType] = {name: ARROW.field(name).type for name in _RAW}
SAMPLE_TYPES: Mapping[str, pa.DataType] = {field.name: field.type for field in SAMPLES}
_FIRST, _LAST = -62_135_510_400, 253_402_214_399
"""Seconds since 1970: from the second day of the year 1 to the last but one of 9999, so that a time in any zone is a datetime."""
_PARTS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def read_rows(
    file: str,
    columns: Sequence[str],
    types: Mapping[str, pa.DataType],
    at_once: int,
    row_groups: Sequence[int] | None = None,
    coded: Sequence[str] = (),
    metadata: Any = None,
) -> Iterator[pa.RecordBatch]:
    """Batches with these columns.

    Parameters
    ----------
    file : str
        A local path or a URI.
    columns : sequence of str
    types : mapping
        Column -> its type.
    at_once : int
        Rows of a batch, at most.
    row_groups : sequence of int, optional
        Default: all.
    coded : sequence of str
        Columns that come as dictionaries.
    metadata : optional
        The footer, if it was read before.

    Raises
    ------
    CaptureError
        The file is damaged.
    """
    schema = pa.schema([(name, types[name]) for name in columns])
    given = {"row_groups": row_groups, "use_threads": False}
    with (
        sound_pages(file),
        parquet_file(file, metadata=metadata, read_dictionary=list(coded), coerce_int96_timestamp_unit="us") as opened,
    ):
        there = [name for name in columns if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(at_once, columns=there, **given):
            yield pa.RecordBatch.from_arrays([_column(batch, field, file) for field in schema], names=schema.names)
            del batch


@contextmanager
def sound_pages(file: str) -> Iterator[None]:
    """Turn what Arrow says about damaged pages into one line that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        what = "its pages are damaged" if is_local(file) else "its pages are damaged or out of reach"
        raise CaptureError(f"{file}: {what} ({first_line(error)}); record it again") from error


def _column(batch: pa.RecordBatch, field: pa.Field, file: str) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.array([_in_path(file, field.name)] * batch.num_rows, pa.string()).cast(field.type)
    column = batch.column(field.name)
    if pa.types.is_timestamp(column.type):
        return dated(column)
    return column if column.type == field.type or pa.types.is_dictionary(column.type) else column.cast(field.type)


def dated(column: pa.Array) -> pa.Array:
    """Times in microseconds, UTC; null where no table could show a time: outside the years 1 to 9999."""
    number, unit = column.cast(pa.int64()), _PARTS[column.type.unit]
    first, last = max(_FIRST * unit, -(2**63)), min(_LAST * unit, 2**63 - 1)
    ends = pc.min_max(number).as_py()
    if ends["min"] is not None and (ends["min"] < first or ends["max"] > last):
        inside = pc.and_(pc.greater_equal(number, first), pc.less_equal(number, last))
        column = pc.if_else(inside, column, pa.scalar(None, column.type))
    return column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(pa.int64()).cast(_UTC_US)


def _in_path(file: str, name: str) -> str | None:
    found = [part.partition("=")[2] for part in file.split("/") if part.partition("=")[0] == name]
    return unquote(found[-1]) if found else None


def statistics_of(group: Any, name: str) -> Any:
    """The statistics of a column of a row group; None if there are none that can be compared with values as they are read."""
    for at in range(group.num_columns):
        chunk = group.column(at)
        if chunk.path_in_schema == name:
            found = chunk.statistics
            fine = found is not None and found.has_min_max and "nano" not in str(found.logical_type).lower()
            return found if fine else None
    return None


def time_span(group: Any, name: str) -> tuple[int, int] | None:
    """The first and the last time in a column of a row group, in microseconds; None if its statistics do not say it.

    They do not if a time lies outside the years 1 to 9999: nobody knows the first or the last of the others.
    """
    found = statistics_of(group, name)
    if found is None or not isinstance(found.min_raw, int):
        return None
    scale = 1000 if "milli" in str(found.logical_type).lower() else 1
    first, last = found.min_raw * scale, found.max_raw * scale
    return (first, last) if first >= _FIRST * 10**6 and last <= _LAST * 10**6 else None


def time_spans(file: str, name: str) -> list[tuple[int, int] | None]:
    """`time_span` of each row group of a file."""
    about = parquet_footers([file])[0]
    return [time_span(about.row_group(number), name) for number in range(about.num_row_groups)]
