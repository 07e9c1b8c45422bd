"""Files by path or URI: the same calls do the same on a local disk and on an S3-compatible server."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from counterpoise.errors import CaptureError
from counterpoise.pipeline.storage import files
from counterpoise.pipeline.storage.files import (
    absolute,
    delete,
    exists,
    file_infos,
    filesystem_of,
    is_object_store,
    join,
    list_files,
    list_folder,
    move,
    parquet_file,
    parquet_writer,
    read_bytes,
    read_if_exists,
    write_bytes,
)

TABLE = pa.table({"n": list(range(1000))})


@pytest.fixture(params=["local", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "local" else request.getfixturevalue("s3")


def test_a_file_is_written_read_listed_and_deleted(root: str) -> None:
    odd = join(root, "tables", "cluster=a%2Fb c", "date=2026-11-21", "part.bin")
    assert (read_if_exists(odd), exists(odd), list_files(root)) == (None, False, [])
    write_bytes(odd, b"one")
    write_bytes(odd, b"two")
    write_bytes(join(root, "tables", ".hidden"), b"")
    assert read_bytes(odd) == b"two"
    assert list_files(root) == sorted([odd, join(root, "tables", ".hidden")])
    assert list_files(join(root, "tables"), ".bin") == [odd]
    assert (list_files(odd), exists(join(root, "tables"))) == ([odd], True)
    assert file_infos(odd)[odd].size == 3
    delete(odd)
    delete(odd)
    assert (exists(odd), list_files(root, ".bin")) == (False, [])


class _Hdfs:
    """A store that does not rename to an existing name; otherwise the local disk."""

    type_name = "hdfs"

    def __getattr__(self, name: str) -> Any:
        return getattr(pafs.LocalFileSystem(), name)

    def move(self, path: str, to: str) -> None:
        if Path(to).exists():
            raise OSError(f"{to} exists")
        Path(path).rename(to)


def test_a_small_file_is_replaced_on_hdfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`summary.json` and the files about a capture are written again and again under the same names."""
    monkeypatch.setattr(files, "filesystem_of", lambda _: (_Hdfs(), str(tmp_path / "summary.json")))
    for content in (b"one", b"two"):
        write_bytes("hdfs://cluster/out/summary.json", content)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == {"summary.json": b"two"}


def test_a_parquet_file_comes_back(root: str) -> None:
    file = join(root, "new", "folder", "table.parquet")
    with parquet_writer(file, TABLE.schema, compression="zstd") as writer:
        writer.write_table(TABLE)
    with parquet_file(file) as opened:
        assert (opened.metadata.num_rows, opened.read()) == (1000, TABLE)


@pytest.mark.parametrize("name", ["nothing.parquet", "cut.parquet"])
def test_a_parquet_file_that_is_not_there_or_cut_short_is_one_line(root: str, name: str) -> None:
    whole = pa.BufferOutputStream()
    pq.write_table(TABLE, whole)
    write_bytes(join(root, "cut.parquet"), whole.getvalue().to_pybytes()[:-100])
    with pytest.raises(CaptureError) as raised:
        parquet_file(join(root, name))
    words = "no such file; it was deleted" if name == "nothing.parquet" else "not a whole Parquet file ("
    assert str(raised.value).startswith(f"{join(root, name)}: {words}")
    assert "\n" not in str(raised.value)


def test_a_write_is_whole_or_not_there_on_a_local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "manifest.json")
    write_bytes(file, b"before")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_bytes(file, b"after")
    assert read_bytes(file) == b"before"


def test_a_file_appears_on_an_object_store_when_it_is_closed(s3: str) -> None:
    store, path = filesystem_of(join(s3, "small"))
    with store.open_output_stream(path) as out:
        out.write(b"half")
        assert not exists(join(s3, "small"))
    assert read_bytes(join(s3, "small")) == b"half"


def test_a_rename_replaces_on_a_local_disk(tmp_path: Path) -> None:
    for name in ("old", "new"):
        write_bytes(str(tmp_path / name), name.encode())
    move(str(tmp_path / "new"), str(tmp_path / "old"))
    assert (read_bytes(str(tmp_path / "old")), exists(str(tmp_path / "new"))) == (b"new", False)
    move(str(tmp_path / "old"), str(tmp_path / "a" / "b"))
    assert list_files(str(tmp_path)) == [str(tmp_path / "a" / "b")]


def test_names_of_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("history") == str(tmp_path / "history")
    assert absolute(f"file://{tmp_path}/a%20b") == absolute(f"file://{tmp_path}/a%20b/") == f"{tmp_path}/a b"
    assert absolute(f"file://{tmp_path}//x/../b") == absolute(f"{tmp_path}//x/../b") == f"{tmp_path}/b"
    assert absolute("s3a://bucket/a%20b/") == "s3://bucket/a%20b"
    assert {one for one in ("s3://b", "gs://b", "abfs://c@a", "hdfs://h", "x") if is_object_store(one)} == {
        "s3://b", "gs://b", "abfs://c@a",
    }  # fmt: skip
    assert filesystem_of("gs://bucket/a/b")[1] == "bucket/a/b"
    assert filesystem_of("abfs://box@account.dfs.core.windows.net/a")[1] == "box/a"
    with pytest.raises(CaptureError, match="ftp://host/x: no storage known as ftp://; give a local path, s3://"):
        filesystem_of("ftp://host/x")


@pytest.mark.parametrize("place", ["s3://", "s3a://", "s3:///folder", "gs://"])
def test_a_place_without_a_bucket_is_no_folder_on_this_machine(place: str) -> None:
    with pytest.raises(CaptureError, match=f"{place}: no bucket in it"):
        absolute(place)


@pytest.mark.parametrize("listed", [list_files, list_folder])
def test_a_name_that_is_no_text_is_one_line(tmp_path: Path, listed: Callable[[str], list[str]]) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.parquet")).touch()
    with pytest.raises(CaptureError, match=r"a\\xff.parquet: its name is not UTF-8; rename it, or move it elsewhere$"):
        listed(str(tmp_path))


def test_a_store_that_cannot_be_reached_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    with pytest.raises(CaptureError, match=r"^s3://bucket/x: .*; check the address, the network and the credentials$"):
        read_bytes("s3://bucket/x")
