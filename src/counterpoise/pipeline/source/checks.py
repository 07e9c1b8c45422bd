"""Files of a capture, checked before Spark is started for them: whole, of the right columns, of the right shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import msgspec
import pyarrow as pa

from counterpoise.errors import CaptureError, SnapshotError
from counterpoise.pipeline.capture.object_series import visible
from counterpoise.pipeline.storage.files import absolute, first_line, list_files, parquet_file, parquet_footers, read_bytes
from counterpoise.snapshot.json_text import decoded, fitted

__all__ = ["aborted_records", "check_pages", "check_table", "missing_columns", "parquet_files", "rows_with_nulls", "topic_ids"]

T = TypeVar("T")


def check_table(where: str, files: Sequence[str], wanted: Mapping[str, str], source: str) -> None:
    """Whether Parquet files have footers, and columns that can be read as the wanted ones.

    Parameters
    ----------
    where : str
        The file, or the folder of the files.
    files : sequence of str
    wanted : mapping
        Column -> Spark's name of its type.
    source : str
        Whose columns they are, in words.

    Raises
    ------
    CaptureError
        Names the file, the column and its type.

    Notes
    -----
    Only footers are read. A column may be written in the path (``partition=3/``).
    """
    if not files:
        raise CaptureError(f"{where}: no Parquet files in this folder; record it again or give another folder")
    for file, about in zip(files, parquet_footers(files), strict=True):
        schema = about.schema.to_arrow_schema()
        in_path = [part.split("=")[0] for part in file.split("/")[:-1] if "=" in part]
        missing_columns(file, [*schema.names, *in_path], wanted, source)
        for name, kind in wanted.items():
            if name not in schema.names:
                continue
            given = schema.field(name).type
            if not _READABLE[kind](given.value_type if pa.types.is_dictionary(given) else given):
                raise CaptureError(f"{file}: column {name} is {given}; {kind} is wanted")


def missing_columns(where: str, given: list[str], wanted: Mapping[str, Any], source: str) -> None:
    """Raise a CaptureError that names the wanted columns that are not given, if any."""
    missing = [name for name in wanted if name not in given]
    if missing:
        raise CaptureError(
            f"{where}: column{'s' if len(missing) > 1 else ''} {', '.join(missing)} missing; the columns of {source} are "
            f"wanted ({', '.join(wanted)}), there are: {', '.join(given) or 'none'}"
        )


def _binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) and not pa.types.is_uint64(kind))


_READABLE: Mapping[str, Callable[[pa.DataType], bool]] = {
    "binary": _binary,
    "string": _string,
    "int": _integer,
    "bigint": _integer,
    "timestamp": pa.types.is_timestamp,
}


def rows_with_nulls(files: Sequence[str], columns: list[str]) -> int:
    """Rows of Parquet files with a null in one of the columns; pages are read only where footers do not rule nulls out.

    Raises
    ------
    CaptureError
        A file is damaged behind its footer.
    """
    footers = zip(files, parquet_footers(files), strict=True)
    return sum(_rows_with_nulls(file, columns) for file, about in footers if not _no_nulls(about, columns))


def _no_nulls(about: Any, columns: list[str]) -> bool:
    chunks = [about.row_group(g).column(c) for g in range(about.num_row_groups) for c in range(about.num_columns)]
    told = [chunk.statistics for chunk in chunks if chunk.path_in_schema in columns]
    return all(one is not None and one.has_null_count and not one.null_count for one in told)


def _rows_with_nulls(file: str, columns: list[str]) -> int:
    with _sound_pages(file):
        batches = parquet_file(file).iter_batches(columns=columns)
        return sum(batch.num_rows - pa.Table.from_batches([batch]).drop_null().num_rows for batch in batches)


def check_pages(files: Sequence[str]) -> None:
    """Raise a CaptureError if the pages behind sound footers cannot be read."""
    for file in files:
        with _sound_pages(file):
            for _ in parquet_file(file).iter_batches():
                pass


@contextmanager
def _sound_pages(file: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise CaptureError(f"{file}: its pages are damaged ({first_line(error)}); record it again") from error


def parquet_files(where: str) -> list[str]:
    """The files at a place, a file or a folder: everything but what is hidden, a marker (``_SUCCESS``) or merged into another."""
    root = absolute(where)
    inside = ((file, file.removeprefix(root).strip("/").split("/")) for file in list_files(root))
    return visible(file for file, parts in inside if not any(part.startswith((".", "_")) for part in parts))


_Partition = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Topic(msgspec.Struct):
    partitions: _Partition
    topic_id: str | None = None


_TOPICS = 'expected topic -> {"partitions": number, "topic_id": string}; record it again'
_PAIRS = "expected pairs [partition, offset]; record it again"


def topic_ids(where: str) -> dict[str, str]:
    """Topic -> its id, for topics that have one, of a ``topics.json``.

    Raises
    ------
    CaptureError
    """
    return {name: about.topic_id for name, about in _read(where, dict[str, _Topic], _TOPICS).items() if about.topic_id}


def aborted_records(where: str) -> frozenset[tuple[int, int]]:
    """Log partition and offset of records that never took effect, of an ``aborted_offsets.json``.

    Raises
    ------
    CaptureError
    """
    return frozenset(_read(where, list[tuple[_Partition, _Offset]], _PAIRS))


def _read(where: str, kind: type[T], wanted: str) -> T:
    try:
        return fitted(decoded(read_bytes(where), wanted), kind, "$", wanted)
    except SnapshotError as error:
        raise CaptureError(f"{where}: {error}") from None
