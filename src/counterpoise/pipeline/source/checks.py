"""Local files of a capture, judged before Spark is started for them: whole, of the right columns, of the right shape."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.errors import CaptureError

__all__ = [
    "check_aborted",
    "check_files",
    "check_pages",
    "check_schema",
    "check_topics",
    "first_line",
    "missing_columns",
    "parquet_files",
    "read_json",
    "rows_with_nulls",
]

_MOST_PARTITION, _MOST_OFFSET = 2**31 - 1, 2**63 - 1


def check_files(path: Path) -> None:
    """Whether every Parquet file at `path` (a file, or a folder of them) has a footer.

    Raises
    ------
    CaptureError
    """
    files = parquet_files(path)
    if not files:
        raise CaptureError(f"{path}: no Parquet files in this folder; record it again or give another folder")
    for file in files:
        try:
            pq.read_metadata(file)
        except (pa.ArrowException, OSError) as error:
            why = f"not a whole Parquet file ({first_line(error)})"
            raise CaptureError(f"{file}: {why}; it is damaged, cut short or a stray one") from error


def check_schema(path: Path, wanted: Mapping[str, str], source: str) -> None:
    """Whether every Parquet file at `path` has columns that can be read as the wanted ones.

    Parameters
    ----------
    path : Path
        A file or a folder with sound footers.
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
    for file in parquet_files(path):
        schema = pq.read_schema(file)
        in_path = [part.split("=")[0] for part in file.relative_to(path).parts if "=" in part]
        missing_columns(str(file), [*schema.names, *in_path], wanted, source)
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


def rows_with_nulls(path: Path, columns: list[str]) -> int:
    """Rows of Parquet files with a null in one of the columns; pages are read only where footers do not rule nulls out.

    Raises
    ------
    CaptureError
        A file is damaged behind its footer.
    """
    return sum(_rows_with_nulls(file, columns) for file in parquet_files(path) if not _no_nulls(file, columns))


def _no_nulls(file: Path, columns: list[str]) -> bool:
    about = pq.read_metadata(file)
    chunks = [about.row_group(g).column(c) for g in range(about.num_row_groups) for c in range(about.num_columns)]
    told = [chunk.statistics for chunk in chunks if chunk.path_in_schema in columns]
    return all(one is not None and one.has_null_count and not one.null_count for one in told)


def _rows_with_nulls(file: Path, columns: list[str]) -> int:
    found = 0
    try:
        for batch in pq.ParquetFile(file).iter_batches(columns=columns):
            found += batch.num_rows - pa.Table.from_batches([batch]).drop_null().num_rows
    except (pa.ArrowException, OSError) as error:
        raise CaptureError(f"{file}: its pages are damaged ({first_line(error)}); record it again") from error
    return found


def check_pages(path: Path, failure: Exception) -> None:
    """Something went wrong in Spark: raise a CaptureError if the pages behind sound footers cannot be read at all."""
    for file in parquet_files(path):
        try:
            for _ in pq.ParquetFile(file).iter_batches():
                pass
        except (pa.ArrowException, OSError) as error:
            raise CaptureError(f"{file}: its pages are damaged ({first_line(error)}); record it again") from failure


def parquet_files(path: Path) -> list[Path]:
    """The files at `path`, a file or a folder: everything but what is hidden or a marker (``_SUCCESS``)."""
    if path.is_file():
        return [path]
    inside = ((file, file.relative_to(path).parts) for file in path.rglob("*"))
    return sorted(file for file, parts in inside if not any(part[0] in "._" for part in parts) and file.is_file())


def first_line(error: Exception) -> str:
    """An error's first line, cut to fit into another sentence."""
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")[:160]


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
