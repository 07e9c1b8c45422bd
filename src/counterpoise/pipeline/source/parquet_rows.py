"""Rows of Parquet files by Arrow, with the columns and types that the audit works on, whatever wrote the files.

Integers and bytes of other widths are cast, and times: without a zone they are UTC, nanoseconds and Spark's old INT96 are cut to
microseconds. A column that is written in the path (``partition=3/``) is read from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from counterpoise.pipeline.capture.columns import ARROW, SAMPLES
from counterpoise.pipeline.records.place import micros
from counterpoise.pipeline.storage.files import parquet_file, parquet_footers

__all__ = ["RAW_TYPES", "SAMPLE_TYPES", "read_rows", "statistics_of", "time_spans"]

_RAW = ("key", "value", "partition", "offset", "timestamp")
RAW_TYPES: Mapping[str, pa.DataType] = {name: ARROW.field(name).type for name in _RAW}
SAMPLE_TYPES: Mapping[str, pa.DataType] = {field.name: field.type for field in SAMPLES}


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
    """
    schema = pa.schema([(name, types[name]) for name in columns])
    given = {"row_groups": row_groups, "use_threads": False}
    with parquet_file(file, metadata=metadata, read_dictionary=list(coded), coerce_int96_timestamp_unit="us") as opened:
        there = [name for name in columns if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(at_once, columns=there, **given):
            if len(there) == len(columns) and all(batch.schema.field(name).type == types[name] for name in columns):
                yield batch.select(list(columns))
            else:
                yield _cast(batch, schema, file)
            del batch


def _cast(batch: pa.RecordBatch, schema: pa.Schema, file: str) -> pa.RecordBatch:
    arrays = [_column(batch, field, file) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _column(batch: pa.RecordBatch, field: pa.Field, file: str) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.array([_in_path(file, field.name)] * batch.num_rows, pa.string()).cast(field.type)
    column = batch.column(field.name)
    if column.type == field.type or pa.types.is_dictionary(column.type):
        return column
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(pa.int64()).cast(field.type)
    return column.cast(field.type)


def _in_path(file: str, name: str) -> str | None:
    found = [part.partition("=")[2] for part in file.split("/") if part.partition("=")[0] == name]
    return unquote(found[-1]) if found else None


def statistics_of(group: Any, name: str) -> Any:
    """The statistics of a column of a row group; None if there are none that can be compared with values as they are read."""
    for at in range(group.num_columns):
        chunk = group.column(at)
        if chunk.path_in_schema == name:
            told = chunk.statistics
            fine = told is not None and told.has_min_max and "nano" not in str(told.logical_type).lower()
            return told if fine else None
    return None


def time_spans(file: str, name: str) -> list[tuple[int, int] | None]:
    """The first and the last time in a column of each row group, in microseconds; None where there are no statistics."""
    about = parquet_footers([file])[0]
    return [_span(statistics_of(about.row_group(number), name)) for number in range(about.num_row_groups)]


def _span(found: Any) -> tuple[int, int] | None:
    if found is None:
        return None
    first, last = (one if one.tzinfo else one.replace(tzinfo=UTC) for one in (found.min, found.max))
    return micros(first), micros(last)
