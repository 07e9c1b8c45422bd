"""Checks of a capture's Parquet files before Spark starts: complete, with the expected columns and types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.object_series import visible
from counterpoise.pipeline.storage.files import absolute, list_files, parquet_footers

__all__ = ["KAFKA", "check_columns_present", "check_table", "parquet_files"]

KAFKA = "Spark's Kafka source"
"""The format that defines the columns of records."""


def check_table(where: str, files: Sequence[str], expected: Mapping[str, pa.DataType], source: str) -> int:
    """Check that Parquet files have footers, and the expected columns (name -> type) with types that can be cast.

    Returns the number of rows.

    `where` is the file, or the folder of the files; `source` names the format that defines the columns. Reads only footers. The
    value of a column may be in the path (``partition=3/``). Raises a `CaptureError` with the file, the column and its type.
    """
    if not files:
        raise CaptureError(f"{where}: no Parquet files in this folder; record it again or give another folder")
    footers = parquet_footers(files)
    for file, about in zip(files, footers, strict=True):
        schema = about.schema.to_arrow_schema()
        in_path = dict.fromkeys(part.split("=")[0] for part in file.split("/")[:-1] if "=" in part)  # the last of a name counts
        check_columns_present(file, [*schema.names, *(name for name in in_path if name not in schema.names)], expected, source)
        for name, kind in expected.items():
            if name not in schema.names:
                continue
            given = schema.field(name).type
            word, fits = _READABLE[kind.id]
            if not fits(given.value_type if pa.types.is_dictionary(given) else given):
                raise CaptureError(f"{file}: column {name} is {given}; expected {word}")
    return sum(int(about.num_rows) for about in footers)


def check_columns_present(where: str, given: list[str], expected: Mapping[str, Any], source: str) -> None:
    """Raise a CaptureError that names the missing columns, or those that are there more than once, if any."""
    missing = [name for name in expected if name not in given]
    wrong = missing or [name for name in expected if given.count(name) > 1]
    if wrong:
        raise CaptureError(
            f"{where}: column{'s' if len(wrong) > 1 else ''} {', '.join(wrong)} {'missing' if missing else 'repeated'}; expected "
            f"the columns of {source} ({', '.join(expected)}), there are: {', '.join(given) or 'none'}"
        )


def _integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) and not pa.types.is_uint64(kind))


_READABLE: Mapping[int, tuple[str, Callable[[pa.DataType], bool]]] = {
    pa.binary().id: ("binary", lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind)),
    pa.string().id: ("string", lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind)),
    pa.int32().id: ("int", _integer),
    pa.int64().id: ("bigint", _integer),
    pa.timestamp("us").id: ("timestamp", pa.types.is_timestamp),
}
"""Arrow type -> its name in Spark, and whether another type can be cast to it."""


def parquet_files(where: str) -> list[str]:
    """The files at a path, a file or a folder, without hidden files, markers (``_SUCCESS``) and files merged into another."""
    root = absolute(where)
    inside = ((file, file.removeprefix(root).strip("/").split("/")) for file in list_files(root))
    return visible(file for file, parts in inside if not any(part.startswith((".", "_")) for part in parts))
