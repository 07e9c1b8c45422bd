"""Local Parquet files whose columns are what Spark would make of them: Arrow can read them in its place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["RAW", "SAMPLED", "plain_files"]

_STAMPS = [pa.timestamp(unit, tz="UTC") for unit in ("ms", "us")]
RAW = {"key": [pa.binary()], "value": [pa.binary()], "partition": [pa.int32()], "offset": [pa.int64()], "timestamp": _STAMPS}
"""Columns of raw records and the types that no reader has to change."""
SAMPLED = {
    "topic": [pa.string()],
    "partition": [pa.int32()],
    "log_start": [pa.int64()],
    "log_end": [pa.int64()],
    "sampled_at": _STAMPS,
}
"""The same of samples of log ends."""


def plain_files(path: Path, columns: dict[str, list[pa.DataType]]) -> tuple[str, ...]:
    """The files at `path` (a Parquet file, or a folder of nothing else) in the order of their names; none if one is not plain.

    Notes
    -----
    Only footers are read. A folder in a folder, a hidden file, another ending, another type: all that is left to Spark.
    """
    files = [path] if path.is_file() else sorted(path.iterdir())
    if not files or any(not file.is_file() or file.suffix != ".parquet" or file.name[0] in "._" for file in files):
        return ()
    for file in files:
        schema = pq.read_schema(file)
        if len(set(schema.names)) != len(schema.names):
            return ()
        if any(name not in schema.names or schema.field(name).type not in kinds for name, kinds in columns.items()):
            return ()
    return tuple(str(file.absolute()) for file in files)
