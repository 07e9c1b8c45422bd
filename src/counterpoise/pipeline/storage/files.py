"""Files by path or URI, through Arrow's file systems: opened, listed, written whole, deleted.

A path is a local one, or ``file://``, ``s3://`` (``s3a://`` is the same), ``gs://``, ``abfs://`` or ``hdfs://``. The part after
the scheme is literal, also ``%`` (but in ``file://`` it is decoded). The environment of each process has the address of an
object store and the credentials: for S3 ``AWS_ENDPOINT_URL``, ``AWS_REGION``, ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``
or a profile; for Google and Azure the default credentials of their libraries.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from counterpoise.errors import CaptureError, OptionError, StorageError

__all__ = [
    "absolute",
    "beside",
    "capture_errors",
    "delete",
    "download",
    "exists",
    "file_infos",
    "filesystem_of",
    "first_line",
    "in_row_groups",
    "is_file",
    "is_local",
    "is_object_store",
    "join",
    "list_files",
    "list_folder",
    "move",
    "parquet_file",
    "parquet_footers",
    "parquet_writer",
    "read_bytes",
    "read_columns",
    "read_if_exists",
    "storage_errors",
    "upload",
    "write_bytes",
]

_OBJECT_STORES = ("s3", "gs", "gcs", "abfs", "abfss")
_BUFFER = 1 << 20
"""Bytes of a column that are read from a local file at a time."""
_AT_ONCE = 16
"""Number of footers that are read at a time."""
_RETRIES = 7
"""How often a request to S3 that is lost, or answered by 503, is repeated; pauses double from 25 ms."""
_ANSWER_S = 20.0
"""Seconds without a byte from S3 after which a request is lost."""
_CHUNK = 1 << 20
_DETAIL = re.compile(r"(?:Detail: \[errno \d+\] |: (?=AWS Error ))(.{1,160})")
_NOT_WHOLE = "not a whole Parquet file", "it is damaged, cut short or a stray one"
_SCHEMES = (*_OBJECT_STORES, "s3a", "hdfs", "viewfs")
_ONE_PUT = {"allow_delayed_open": True} if int(pa.__version__.partition(".")[0]) >= 21 else {}
"""A small file is one request instead of the three of a multipart upload, which older versions always use."""


def filesystem_of(uri: str) -> tuple[pafs.FileSystem, str]:
    """Arrow's file system for a path or URI, and the path in it; one connection per process and store.

    Raises `CaptureError` if the scheme is unknown, or the store cannot be reached.
    """
    scheme, authority, path = _split(uri)
    if scheme == "file":
        return pafs.LocalFileSystem(), path
    with storage_errors(uri):
        # By process: a connection does not survive a fork. By endpoint: it may change between tests in one process.
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        store, root = _connected(scheme, authority, os.getpid(), endpoint)
    return store, f"{root.rstrip('/')}/{path}" if path else root


@lru_cache(maxsize=32)
def _connected(scheme: str, authority: str, _process: int, endpoint: str | None) -> tuple[pafs.FileSystem, str]:
    if scheme != "s3":
        store, root = pafs.FileSystem.from_uri(f"{scheme}://{authority}/")
        return store, root
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None and endpoint is None:
        region = pafs.resolve_s3_region(authority)
    limits: dict[str, Any] = {"connect_timeout": _ANSWER_S, "request_timeout": _ANSWER_S}
    limits["retry_strategy"] = pafs.AwsDefaultS3RetryStrategy(_RETRIES)
    return pafs.S3FileSystem(region=region, endpoint_override=endpoint, **_ONE_PUT, **limits), authority


def _split(uri: str) -> tuple[str, str, str]:
    """Scheme, host or bucket, and path; the path of a local file is absolute."""
    scheme, mark, rest = uri.partition("://")
    scheme = scheme.lower()
    if not mark or scheme == "file":
        local = Path(unquote("/" + rest.partition("/")[2]) if mark else uri)
        return "file", "", str(local.resolve() if ".." in local.parts else local.absolute())
    if scheme not in _SCHEMES:
        raise CaptureError(f"{uri}: no storage known as {scheme}://; give a local path, s3://, gs://, abfs:// or hdfs://")
    authority, _, path = rest.partition("/")
    if not authority and scheme not in ("hdfs", "viewfs"):
        raise CaptureError(f"{uri}: no bucket in it (an unset variable?); give {scheme}://bucket/folder")
    return "s3" if scheme == "s3a" else scheme, authority, path.rstrip("/")


def is_local(uri: str) -> bool:
    """Whether `uri` is a path on this machine."""
    return _split(uri)[0] == "file"


def is_object_store(uri: str) -> bool:
    """Whether `uri` is on an object store: a file appears by one request, complete, and cannot be renamed."""
    return _split(uri)[0] in _OBJECT_STORES


def absolute(uri: str | Path) -> str:
    """The path or URI independent of the working directory: an absolute local path without scheme, or a URI for Arrow."""
    scheme, authority, path = _split(str(uri))
    return path if scheme == "file" else f"{scheme}://{authority}/{path}".rstrip("/")


def join(uri: str, *names: str) -> str:
    """A path or URI below `uri`."""
    return "/".join([uri.rstrip("/"), *(name.strip("/") for name in names)])


def beside(out: str, what: str) -> str:
    """The path of a hidden folder beside `out`, for files in which names are not hashed.

    Raises `OptionError` if `out` is a whole bucket, which has no place beside it.
    """
    parent, _, name = absolute(out).rpartition("/")
    if parent.endswith(":/"):
        raise OptionError(f"{out}: a whole bucket; the {what} with plain names goes beside --out: give a folder in the bucket")
    return f"{parent}/.{name}-{what}"


def exists(uri: str) -> bool:
    """Whether `uri` is a file, or a folder that is not empty."""
    return bool(_kind(uri) != pafs.FileType.NotFound)


def is_file(uri: str) -> bool:
    """Whether `uri` is a file."""
    return bool(_kind(uri) == pafs.FileType.File)


def _kind(uri: str) -> pafs.FileType:
    store, path = filesystem_of(uri)
    with storage_errors(uri):
        return store.get_file_info(path).type


def list_folder(uri: str) -> list[str]:
    """The names of files and folders in a folder, sorted; empty for a file, or if `uri` does not exist."""
    store, path = filesystem_of(uri)
    with _name_errors(uri):
        if store.type_name == "local" and not Path(path).is_dir():
            return []
        return sorted(one.base_name for one in store.get_file_info(pafs.FileSelector(path, allow_not_found=True)))


def list_files(uri: str, suffix: str = "") -> list[str]:
    """All files below a folder with this suffix, also hidden ones, sorted; `uri` itself if it is a file.

    One request per 1,000 objects.
    """
    return [name for name in sorted(file_infos(uri)) if name.endswith(suffix)]


def file_infos(uri: str) -> dict[str, pafs.FileInfo]:
    """File -> its size and time of the last change, for all files of `list_files`."""
    store, path = filesystem_of(uri)
    with _name_errors(uri):
        is_one_file = store.type_name == "local" and Path(path).is_file()
        selector = pafs.FileSelector(path, recursive=True, allow_not_found=True)
        infos = (None if is_one_file else store.get_file_info(selector)) or [store.get_file_info(path)]
        root = absolute(uri)
        return {f"{root}{one.path.removeprefix(path)}": one for one in infos if one.type == pafs.FileType.File}


@contextmanager
def _name_errors(uri: str) -> Iterator[None]:
    """`storage_errors`; a `CaptureError` for a file name that is not UTF-8."""
    try:
        with storage_errors(uri):
            yield
    except UnicodeDecodeError as error:
        name = error.object.decode(errors="backslashreplace")
        raise CaptureError(f"{name}: its name is not UTF-8; rename it, or move it elsewhere") from None


def parquet_file(uri: str, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file; checksums of pages, if it has any, are verified when they are read.

    Raises `CaptureError` if it does not exist, cannot be read, or is no complete Parquet file.
    """
    store, path = filesystem_of(uri)
    local = store.type_name == "local"
    # From an object store, adjacent columns are read by one request. From a local file, `_BUFFER` bytes of a column are read at a
    # time and not a whole row group ahead, which takes less memory.
    given = {"buffer_size": _BUFFER} if local else {"filesystem": store}
    with capture_errors(uri, *_NOT_WHOLE):
        return pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=not local, **given, **options)


def read_columns(uri: str, columns: list[str] | None = None) -> pa.Table:
    """These columns of a Parquet file, or all; errors as in `parquet_file`."""
    with parquet_file(uri) as opened:
        return opened.read(columns=columns)


def parquet_footers(uris: Sequence[str]) -> list[pq.FileMetaData]:
    """The footers of Parquet files, in their order; those on a store are read in parallel. Raises errors as `parquet_file`."""
    if all(map(is_local, uris)):
        return [_footer(uri) for uri in uris]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(_footer, uris))


def _footer(uri: str) -> pq.FileMetaData:
    store, path = filesystem_of(uri)
    with capture_errors(uri, *_NOT_WHOLE):
        about = pq.read_metadata(path, filesystem=None if store.type_name == "local" else store)
        for group in map(about.row_group, range(about.num_row_groups)):
            {group.column(at).path_in_schema for at in range(group.num_columns)}  # raises if a name is no text
        return about


@contextmanager
def capture_errors(uri: str, what: str = "damaged", advice: str = "record it again") -> Iterator[None]:
    """Turn errors of Arrow, and of text that is not UTF-8, into a `CaptureError` of one line with the path.

    Errors of the disk itself or of a store, which may pass, become a `StorageError`.
    """
    try:
        yield
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and (error.errno or not is_local(uri)):
            with storage_errors(uri):
                raise
        # Without its cause, because an OSError would count as one of the disk.
        raise CaptureError(f"{uri}: {what} ({first_line(error)}); {advice}") from None


def parquet_writer(uri: str, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
    """A writer of a Parquet file; on an object store the file appears when the writer is closed.

    The caller writes rows within `storage_errors`.
    """
    store, path = filesystem_of(uri)
    with storage_errors(uri):
        if store.type_name == "local":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        return pq.ParquetWriter(path, schema, filesystem=None if store.type_name == "local" else store, **options)


def in_row_groups(batches: Iterable[pa.RecordBatch], least: int, size_of: Callable[[pa.RecordBatch], int]) -> Iterator[pa.Table]:
    """Join batches into tables: a table ends as soon as its sizes, by `size_of`, sum up to `least`; the last may be smaller."""
    held, whole = list[pa.RecordBatch](), 0
    for batch in batches:
        held.append(batch)
        whole += size_of(batch)
        if whole >= least:
            yield pa.Table.from_batches(held)
            held, whole = [], 0
    if held:
        yield pa.Table.from_batches(held)


def read_bytes(uri: str) -> bytes:
    """The content of a file. Raises `CaptureError` if it does not exist, or cannot be read."""
    content = read_if_exists(uri)
    if content is None:
        raise StorageError(uri, "no such file", "check the name")
    return content


def read_if_exists(uri: str) -> bytes | None:
    """The content of a file; None if it does not exist."""
    store, path = filesystem_of(uri)
    with storage_errors(uri), suppress(FileNotFoundError, NotADirectoryError):
        if store.type_name == "local":
            return Path(path).read_bytes()
        with store.open_input_file(path) as opened:
            return bytes(opened.read())
    return None


def write_bytes(uri: str, content: bytes) -> None:
    """Write or replace a file atomically: a reader sees the old or the new content.

    One PUT on an object store. Elsewhere a hidden file is written, synced and renamed, for one writer at a time. HDFS does not
    rename to an existing name: there the old file is deleted first, and for a moment a reader sees neither.
    """
    store, path = filesystem_of(uri)
    with storage_errors(uri):
        if is_object_store(uri):
            with store.open_output_stream(path) as out:
                out.write(content)
            return
        folder, _, name = path.rpartition("/")
        scratch = f"{folder}/.tmp-{name}"
        store.create_dir(folder, recursive=True)
        if store.type_name == "local":
            with Path(scratch).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        else:
            with store.open_output_stream(scratch) as out:
                out.write(content)
            with suppress(FileNotFoundError):
                store.delete_file(path)
        store.move(scratch, path)


def download(uri: str, file: BinaryIO) -> None:
    """Write the content of a file on an object store to an open file."""
    store, path = filesystem_of(uri)
    with storage_errors(uri), store.open_input_stream(path) as content:
        shutil.copyfileobj(content, file, _CHUNK)


def upload(uri: str, file: BinaryIO) -> None:
    """Write the content of an open file to an object store; it appears there completely or not at all."""
    store, path = filesystem_of(uri)
    with storage_errors(uri):
        out = store.open_output_stream(path)
        try:
            shutil.copyfileobj(file, out, _CHUNK)
        except BaseException:
            # Only closing ends an upload, and it makes the incomplete file visible.
            out.close()
            store.delete_file(path)
            raise
        out.close()


def move(uri: str, to: str) -> None:
    """Rename a file on a store that supports it; on a local disk an existing file is replaced."""
    store, path = filesystem_of(uri)
    goal = filesystem_of(to)[1]
    with storage_errors(to):
        store.create_dir(goal.rpartition("/")[0], recursive=True)
        store.move(path, goal)


def delete(uri: str) -> None:
    """Delete a file, if it exists."""
    store, path = filesystem_of(uri)
    with storage_errors(uri), suppress(FileNotFoundError):
        store.delete_file(path)


@contextmanager
def storage_errors(uri: str) -> Iterator[None]:
    """Turn errors of a store into a `StorageError` of one line with the path and advice."""
    try:
        yield
    except FileNotFoundError as error:
        raise StorageError(uri, "no such file", "it was deleted, or the name is wrong") from error
    except OSError as error:
        advice = "check the path and its permissions" if is_local(uri) else "check the address, the network and the credentials"
        advice = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else advice
        quoted = _DETAIL.search(str(error))  # Arrow's message repeats the path
        raise StorageError(uri, quoted[1].rstrip(".") if quoted else error.strerror or first_line(error), advice) from error


def first_line(error: BaseException) -> str:
    """The first line of an error, shortened for use in another sentence."""
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")[:160]
