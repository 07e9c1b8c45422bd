"""Files of a capture, checked before Spark is started for them: whole, of the right columns, of the right shape."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.object_series import visible
from counterpoise.pipeline.storage.files import absolute, first_line, list_files, parquet_file, parquet_footers

__all__ = [
    "check_aborted",
    "check_pages",
    "check_table",
    "check_topics",
    "missing_columns",
    "parquet_files",
    "read_json",
    "rows_with_nulls",
]

_MOST_PARTITION, _MOST_OFFSET = 2**31 - 1, 2**63 - 1


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


def read_json(data: bytes, where: str) -> Any:
    """JSON in UTF-8.

    Raises
    ------
    CaptureError
    """
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"{where}: not JSON ({first_line(error)}); it is damaged or cut short") from error


def check_topics(value: Any, where: str) -> None:
    """Whether parsed JSON is what ``topics.json`` holds: topic -> {partitions, topic_id}.

    Raises
    ------
    CaptureError
    """
    if not isinstance(value, dict):
        raise CaptureError(f"{where}: a JSON object is wanted, topic -> {_ENTRY}")
    for topic, about in value.items():
        place = json.dumps(topic, ensure_ascii=False)
        if not isinstance(about, dict):
            raise CaptureError(f"{where}: {place} is {_short(about)}; {_ENTRY} is wanted")
        if not _whole(about.get("partitions"), _MOST_PARTITION):
            raise CaptureError(f"{where}: {place}.partitions is {_short(about.get('partitions'))}; a whole number is wanted")
        if not isinstance(about.get("topic_id"), str | None):
            raise CaptureError(f"{where}: {place}.topic_id is {_short(about['topic_id'])}; a string is wanted")


_ENTRY = '{"partitions": number, "topic_id": string}'


def check_aborted(value: Any, where: str) -> None:
    """Whether parsed JSON is what ``aborted_offsets.json`` holds: pairs of a log partition and an offset.

    Raises
    ------
    CaptureError
    """
    if not isinstance(value, list):
        raise CaptureError(f"{where}: a JSON array of pairs [partition, offset] is wanted")
    for at, pair in _no_pairs(value):
        raise CaptureError(f"{where}: [{at}] is {_short(pair)}; a pair [partition, offset] of whole numbers is wanted")


def _no_pairs(value: list[Any]) -> Iterator[tuple[int, Any]]:
    for at, pair in enumerate(value):
        if not (isinstance(pair, list) and len(pair) == 2 and _whole(pair[0], _MOST_PARTITION) and _whole(pair[1], _MOST_OFFSET)):
            yield at, pair


def _whole(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
