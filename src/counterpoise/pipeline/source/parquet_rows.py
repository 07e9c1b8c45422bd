"""Rows of Parquet files by Arrow, cast to the columns and types of the audit, whatever wrote the files.

Integers, bytes and times of other widths are cast. Times without a zone are UTC; nanoseconds and Spark's old INT96 are cut to
microseconds; a time outside the years 1 to 9999 is null. A column whose value is in the path (``partition=3/``) is read from
there. Pages that do not match their checksums raise a CaptureError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.pipeline.capture.columns import ARROW, SAMPLES
from counterpoise.pipeline.storage.files import capture_errors, parquet_file, parquet_footers

__all__ = ["RAW_TYPES", "SAMPLE_TYPES", "first_time", "read_rows", "statistics_of", "time_span", "time_spans", "utc_micros"]

_RAW = ("key", "value", "partition", "offset", "timestamp")
_UTC_US = pa.timestamp("us", tz="UTC")
RAW_TYPES: Mapping[str, pa.DataType] = {name: ARROW.field(name).type for name in _RAW}
SAMPLE_TYPES: Mapping[str, pa.DataType] = {field.name: field.type for field in SAMPLES}
_FIRST, _LAST = -62_135_510_400, 253_402_214_399
"""Seconds since 1970: from the second day of the year 1 to the last but one of 9999, so that a time in any zone is a datetime."""
_PARTS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def read_rows(
    file: str,
    types: Mapping[str, pa.DataType],
    at_once: int,
    row_groups: Sequence[int] | None = None,
    coded: Sequence[str] = (),
    metadata: Any = None,
) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most `at_once` rows of a Parquet file, a local path or a URI, with these columns.

    `row_groups`: default all. Columns in `coded` come as dictionaries. `metadata` is the footer, if the caller has it. Raises
    `CaptureError` if the file is damaged.
    """
    schema = pa.schema(list(types.items()))
    with (
        capture_errors(file),
        parquet_file(file, metadata=metadata, read_dictionary=list(coded), coerce_int96_timestamp_unit="us") as opened,
    ):
        present = [name for name in types if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(at_once, row_groups=row_groups, columns=present, use_threads=False):
            yield pa.RecordBatch.from_arrays([_column(batch, field, file) for field in schema], names=schema.names)
            del batch


def _column(batch: pa.RecordBatch, field: pa.Field, file: str) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.array([_value_in_path(file, field.name)] * batch.num_rows, pa.string()).cast(field.type)
    column = batch.column(field.name)
    if pa.types.is_timestamp(column.type):
        return utc_micros(column)
    return column if column.type == field.type or pa.types.is_dictionary(column.type) else column.cast(field.type)


def utc_micros(column: pa.Array) -> pa.Array:
    """Times in microseconds, UTC; null if outside the years 1 to 9999, which a datetime cannot hold."""
    number, unit = column.cast(pa.int64()), _PARTS[column.type.unit]
    first, last = max(_FIRST * unit, -(2**63)), min(_LAST * unit, 2**63 - 1)
    ends = pc.min_max(number).as_py()
    if ends["min"] is not None and (ends["min"] < first or ends["max"] > last):
        inside = pc.and_(pc.greater_equal(number, first), pc.less_equal(number, last))
        column = pc.if_else(inside, column, pa.scalar(None, column.type))
    return column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(pa.int64()).cast(_UTC_US)


def _value_in_path(file: str, name: str) -> str | None:
    values = [part.partition("=")[2] for part in file.split("/") if part.partition("=")[0] == name]
    return unquote(values[-1]) if values else None


def statistics_of(group: Any, name: str) -> Any:
    """The statistics of a column of a row group; None if it has none, or they are in another unit than the values read."""
    for at in range(group.num_columns):
        chunk = group.column(at)
        if chunk.path_in_schema == name:
            known = chunk.statistics
            usable = known is not None and known.has_min_max and "nano" not in str(known.logical_type).lower()
            return known if usable else None
    return None


def time_span(group: Any, name: str) -> tuple[int, int] | None:
    """The first and the last time in a column of a row group, in microseconds; None if its statistics have no such times.

    They have none if a time is outside the years 1 to 9999: then the first or the last of the other times is unknown.
    """
    known = statistics_of(group, name)
    if known is None or not isinstance(known.min_raw, int):
        return None
    scale = 1000 if "milli" in str(known.logical_type).lower() else 1
    first, last = known.min_raw * scale, known.max_raw * scale
    return (first, last) if first >= _FIRST * 10**6 and last <= _LAST * 10**6 else None


def first_time(spans: Iterable[tuple[int, int] | None]) -> int | None:
    """The earliest time of row groups, by their `time_span`s; None: a span is unknown, or there are none."""
    listed = list(spans)
    known = [span[0] for span in listed if span is not None]
    return min(known, default=None) if len(known) == len(listed) else None


def time_spans(files: Sequence[str], name: str) -> list[list[tuple[int, int] | None]]:
    """For each file `time_span` of each of its row groups."""
    return [[time_span(one.row_group(at), name) for at in range(one.num_row_groups)] for one in parquet_footers(files)]
