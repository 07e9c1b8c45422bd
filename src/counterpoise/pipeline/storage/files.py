"""Files by path or URI, through Arrow's file systems: opened, listed, written whole, deleted.

A path is a local one, or ``file://``, ``s3://`` (``s3a://`` is the same), ``gs://``, ``abfs://`` or ``hdfs://``. What follows the
scheme is taken literally, ``%`` too. The environment of each process says where an object store is and who asks: for S3
``AWS_ENDPOINT_URL``, ``AWS_REGION``, ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY`` or a profile; for Google and Azure their
libraries' default credentials.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from counterpoise.errors import CaptureError, StorageError

__all__ = [
    "absolute",
    "delete",
    "exists",
    "file_infos",
    "filesystem_of",
    "first_line",
    "is_file",
    "is_local",
    "is_object_store",
    "join",
    "list_files",
    "list_folder",
    "local_copy",
    "move",
    "parquet_file",
    "parquet_footers",
    "parquet_writer",
    "read_bytes",
    "read_if_exists",
    "storage_errors",
    "upload",
    "write_bytes",
]

_OBJECT_STORES = ("s3", "gs", "gcs", "abfs", "abfss")
_AT_ONCE = 16
"""So many footers are asked for at a time."""
_CHUNK = 1 << 20
_DETAIL = re.compile(r"Detail: \[errno \d+\] (.+)$", re.MULTILINE)
_COPIES: dict[str, int] = {}
_MOST_COPIES = 8
_SCHEMES = (*_OBJECT_STORES, "s3a", "hdfs", "viewfs")
_ONE_PUT = {"allow_delayed_open": True} if int(pa.__version__.partition(".")[0]) >= 21 else {}
"""A small file is one request, not the three of an upload in parts, which older versions always make."""


def filesystem_of(uri: str) -> tuple[pafs.FileSystem, str]:
    """Arrow's file system for a path or URI, and the path in it; one connection per process and store.

    Raises
    ------
    CaptureError
        The scheme is unknown, or the store cannot be reached.
    """
    scheme, authority, path = _split(uri)
    if scheme == "file":
        return pafs.LocalFileSystem(), path
    with storage_errors(uri):
        # By process: a connection does not survive a fork. By endpoint: it may change between two tests of a process.
        store, root = _connected(scheme, authority, os.getpid(), _endpoint())
    return store, f"{root.rstrip('/')}/{path}" if path else root


@lru_cache(maxsize=32)
def _connected(scheme: str, authority: str, _process: int, endpoint: str | None) -> tuple[pafs.FileSystem, str]:
    if scheme != "s3":
        store, root = pafs.FileSystem.from_uri(f"{scheme}://{authority}/")
        return store, root
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None and endpoint is None:
        region = pafs.resolve_s3_region(authority)
    return pafs.S3FileSystem(region=region, endpoint_override=endpoint, **_ONE_PUT), authority


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def _split(uri: str) -> tuple[str, str, str]:
    """Scheme, host or bucket, and path; the path of a local file is absolute."""
    scheme, mark, rest = uri.partition("://")
    if not mark:
        return "file", "", str(Path(uri).absolute())
    scheme = scheme.lower()
    if scheme == "file":
        return "file", "", unquote("/" + rest.partition("/")[2])
    if scheme not in _SCHEMES:
        raise CaptureError(f"{uri}: no storage known as {scheme}://; give a local path, s3://, gs://, abfs:// or hdfs://")
    authority, _, path = rest.partition("/")
    return "s3" if scheme == "s3a" else scheme, authority, path.rstrip("/")


def is_local(uri: str) -> bool:
    """Whether it is a path of this machine."""
    return _split(uri)[0] == "file"


def is_object_store(uri: str) -> bool:
    """Whether a file appears there by one request, whole, and cannot be renamed."""
    return _split(uri)[0] in _OBJECT_STORES


def absolute(uri: str | Path) -> str:
    """The same place for every process: a local path without scheme and from the root, a URI as Arrow has it."""
    scheme, authority, path = _split(str(uri))
    return path if scheme == "file" else f"{scheme}://{authority}/{path}".rstrip("/")


def join(uri: str, *names: str) -> str:
    """A place below another one."""
    return "/".join([uri.rstrip("/"), *(name.strip("/") for name in names)])


def exists(uri: str) -> bool:
    """Whether there is a file, or a folder with something in it."""
    store, path = filesystem_of(uri)
    with storage_errors(uri):
        return bool(store.get_file_info(path).type != pafs.FileType.NotFound)


def is_file(uri: str) -> bool:
    """Whether there is a file, not a folder."""
    store, path = filesystem_of(uri)
    with storage_errors(uri):
        return bool(store.get_file_info(path).type == pafs.FileType.File)


def list_folder(uri: str) -> list[str]:
    """The names of what lies directly in a folder, sorted; of a file, or of nothing, none."""
    store, path = filesystem_of(uri)
    with storage_errors(uri):
        if store.type_name == "local" and not Path(path).is_dir():
            return []
        return sorted(one.base_name for one in store.get_file_info(pafs.FileSelector(path, allow_not_found=True)))


def list_files(uri: str, suffix: str = "") -> list[str]:
    """All files below a folder whose names end so, hidden ones too, sorted; a file itself; of nothing none.

    Notes
    -----
    One request per 1,000 objects.
    """
    return [name for name in sorted(file_infos(uri)) if name.endswith(suffix)]


def file_infos(uri: str) -> dict[str, pafs.FileInfo]:
    """File -> what the store says of it (size, time of the last change), of all files that `list_files` gives."""
    store, path = filesystem_of(uri)
    with storage_errors(uri):
        if store.type_name == "local" and Path(path).is_file():
            found = [store.get_file_info(path)]
        else:
            found = store.get_file_info(pafs.FileSelector(path, recursive=True, allow_not_found=True)) or [
                store.get_file_info(path)
            ]
    root = absolute(uri)
    return {f"{root}{one.path.removeprefix(path)}": one for one in found if one.type == pafs.FileType.File}


def parquet_file(uri: str, **options: Any) -> pq.ParquetFile:
    """A Parquet file, opened by its footer; checksums of pages, if it has any, are verified as they are read.

    Raises
    ------
    CaptureError
        It is not there, cannot be read, or is no whole Parquet file.
    """
    store, path = filesystem_of(uri)
    # Columns that lie side by side come from a store by one request.
    given = options if store.type_name == "local" else {"filesystem": store, "pre_buffer": True, **options}
    with _whole(uri):
        return pq.ParquetFile(path, page_checksum_verification=True, **given)


def parquet_footers(uris: Sequence[str]) -> list[pq.FileMetaData]:
    """The footers of Parquet files, in their order; those of a store are read side by side.

    Raises
    ------
    CaptureError
        As for `parquet_file`.
    """
    if all(map(is_local, uris)):
        return [_footer(uri) for uri in uris]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(_footer, uris))


def _footer(uri: str) -> pq.FileMetaData:
    store, path = filesystem_of(uri)
    with _whole(uri):
        about = pq.read_metadata(path, filesystem=None if store.type_name == "local" else store)
        for group in map(about.row_group, range(about.num_row_groups)):
            {group.column(at).path_in_schema for at in range(group.num_columns)}  # raises if a name is no text
        return about


@contextmanager
def _whole(uri: str) -> Iterator[None]:
    try:
        with storage_errors(uri):
            yield
    except (pa.ArrowException, UnicodeDecodeError) as error:  # the latter: a name in the footer
        why = f"not a whole Parquet file ({first_line(error)})"
        raise CaptureError(f"{uri}: {why}; it is damaged, cut short or a stray one") from error


def parquet_writer(uri: str, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
    """A writer of a Parquet file; on an object store the file appears when the writer is closed.

    Notes
    -----
    Rows are written by the caller: put `storage_errors` around them.
    """
    store, path = filesystem_of(uri)
    with storage_errors(uri):
        if store.type_name == "local":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            return pq.ParquetWriter(path, schema, **options)
        return pq.ParquetWriter(path, schema, filesystem=store, **options)


def read_bytes(uri: str) -> bytes:
    """A whole file.

    Raises
    ------
    CaptureError
        It is not there, or cannot be read.
    """
    found = read_if_exists(uri)
    if found is None:
        raise StorageError(uri, "no such file", "check the name")
    return found


def read_if_exists(uri: str) -> bytes | None:
    """A whole file; None if there is none."""
    store, path = filesystem_of(uri)
    with storage_errors(uri), suppress(FileNotFoundError, NotADirectoryError):
        if store.type_name == "local":
            return Path(path).read_bytes()
        with store.open_input_file(path) as opened:
            return bytes(opened.read())
    return None


def write_bytes(uri: str, content: bytes) -> None:
    """Write or replace a file as a whole: a reader sees the file before or the file after.

    Notes
    -----
    One PUT on an object store. Elsewhere a hidden file beside it is made durable and renamed: one writer at a time. HDFS does not
    rename onto a file that is there: give a new name.
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
        store.move(scratch, path)


def local_copy(uri: str) -> str:
    """A file on this machine's disk, to be mapped into memory at once: itself, or a copy.

    Notes
    -----
    A process keeps its last copies: the file must not change. A copy has no name: a worker that is killed leaves nothing.
    """
    if is_local(uri):
        return absolute(uri)
    if uri not in _COPIES:
        store, path = filesystem_of(uri)
        with storage_errors(uri), store.open_input_stream(path) as content, tempfile.TemporaryFile() as scratch:
            shutil.copyfileobj(content, scratch, _CHUNK)
            scratch.flush()
            _COPIES[uri] = os.dup(scratch.fileno())
        if len(_COPIES) > _MOST_COPIES:
            os.close(_COPIES.pop(next(iter(_COPIES))))
    return f"/dev/fd/{_COPIES[uri]}"


def upload(uri: str, file: BinaryIO) -> None:
    """Write a local file, open at its beginning, to an object store; it appears there whole, or not at all."""
    store, path = filesystem_of(uri)
    with storage_errors(uri):
        out = store.open_output_stream(path)
        try:
            shutil.copyfileobj(file, out, _CHUNK)
        except BaseException:
            # Closing is the only way to end an upload, and it makes visible what there is.
            out.close()
            store.delete_file(path)
            raise
        out.close()


def move(uri: str, to: str) -> None:
    """Rename a file on a store that can, replacing what is there on a local disk."""
    store, path = filesystem_of(uri)
    goal = filesystem_of(to)[1]
    with storage_errors(to):
        store.create_dir(goal.rpartition("/")[0], recursive=True)
        store.move(path, goal)


def delete(uri: str) -> None:
    """Delete a file; none is fine."""
    store, path = filesystem_of(uri)
    with storage_errors(uri), suppress(FileNotFoundError):
        store.delete_file(path)


@contextmanager
def storage_errors(uri: str) -> Iterator[None]:
    """Turn what a store says into one line with the place and what to do.

    Raises
    ------
    StorageError
    """
    try:
        yield
    except FileNotFoundError as error:
        raise StorageError(uri, "no such file", "it was deleted, or the name is wrong") from error
    except OSError as error:
        advice = "check the path and its permissions" if is_local(uri) else "check the address, the network and the credentials"
        advice = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else advice
        quoted = _DETAIL.search(str(error))  # Arrow's own sentence names the path once more
        raise StorageError(uri, quoted[1] if quoted else error.strerror or first_line(error), advice) from error


def first_line(error: BaseException) -> str:
    """An error's first line, cut to fit into another sentence."""
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")[:160]
