"""Keys are decoded once per task, and mean the same in every batch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.direct.commits import key_book
from counterpoise.pipeline.direct.commits.decoding import Wanted, decode_piece
from counterpoise.pipeline.direct.commits.key_book import KeyBook, group_bytes
from counterpoise.pipeline.direct.commits.sums_file import read_bucket
from counterpoise.pipeline.direct.files.buckets import BUCKETS
from counterpoise.pipeline.direct.tasks import Piece
from counterpoise.wire.offsets_topic import GroupKey, OffsetKey, RecordType
from counterpoise.wire.offsets_topic.keys import Key, encode_key

ONE, OTHER, THIRD = OffsetKey("orders", "t", 0), OffsetKey("orders", "u é", 7), OffsetKey("billing", "t", 7)


def raw(*keys: Key | bytes | None) -> pa.DictionaryArray:
    """Keys as a capture's column has them."""
    types = {OffsetKey: RecordType.OFFSET_COMMIT, GroupKey: RecordType.GROUP_METADATA}
    listed = [encode_key(types[type(key)], key) if isinstance(key, OffsetKey | GroupKey) else key for key in keys]
    return pa.array(listed, pa.binary()).dictionary_encode()


def test_a_key_has_one_code_in_every_batch() -> None:
    """In whatever order the dictionary of a batch has it, or its rows; entries that no row uses are not learned."""
    book = KeyBook({})
    assert book.codes(raw(ONE, OTHER, ONE, None)).tolist() == [0, 1, 0, -1]
    assert book.codes(raw().cast(pa.binary())).tolist() == []
    assert book.codes(raw(THIRD, OTHER, None, ONE, THIRD).cast(pa.binary())).tolist() == [2, 1, -1, 0, 2]
    assert book.codes(raw(THIRD, OTHER, None, ONE, THIRD)).tolist() == [2, 1, -1, 0, 2]
    sparse = pa.DictionaryArray.from_arrays(pa.array([1, 1], pa.int32()), raw(GroupKey("unused"), OTHER).dictionary)
    assert book.codes(sparse).tolist() == [1, 1]
    assert len(book) == 3
    named = [(list(book.groups)[group], list(book.topics)[topic]) for group, topic in zip(book.group, book.topic, strict=True)]
    assert named == [("orders", "t"), ("orders", "u é"), ("billing", "t")]
    assert book.columns.partition.tolist() == [0, 7, 7]


def test_what_is_no_sound_commit_key_has_no_name() -> None:
    """Of a commit by its type all the same, or of another type; groups of other records are known by their bytes."""
    marked = {group_bytes(encode_key(RecordType.GROUP_METADATA, GroupKey("billing"))): 5}
    book = KeyBook(marked)
    damaged = encode_key(RecordType.OFFSET_COMMIT, ONE)[:-1]
    assert book.codes(raw(damaged, GroupKey("billing"), THIRD, b"", b"\x00", ONE)).tolist() == [0, 1, 2, 3, 4, 5]
    assert book.commit.tolist() == [True, False, True, True, True, True]
    assert book.group.tolist() == [-1, -1, 0, -1, -1, 1]
    assert book.topic.tolist() == [-1, -1, 0, -1, -1, 0]
    assert book.mark.tolist() == [-1, -1, 5, -1, -1, -1]


def test_many_keys_are_forgotten_and_nothing_is_lost(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A book that is full after every batch: the same rows, and the same sums but for where they are cut."""
    source = pq.read_table(shop / "consumer_offsets.parquet")
    pq.write_table(source, tmp_path / "small.parquet", row_group_size=3000)
    piece = Piece("c", ((str(tmp_path / "small.parquet"), tuple(range(-(-len(source) // 3000)))),))
    pq.write_table(source.filter(pc.greater_equal(source["key"], b"\x00\x02")), tmp_path / "others.parquet")
    wanted = Wanted(str(tmp_path), (str(tmp_path / "others.parquet"),))
    whole = decode_piece(piece, wanted)
    monkeypatch.setattr(key_book, "_MOST", 0)
    monkeypatch.setattr("counterpoise.pipeline.direct.files.reading._AT_ONCE", 1000)
    parts = decode_piece(piece, wanted)
    for name in ("errors", "tombstones", "decoded", "transactional", "first", "last", "names"):
        assert parts[name] == whole[name]
    assert _rows(files_of(parts)) == _rows(files_of(whole))
    assert _counted(parts["sums"]) == _counted(whole["sums"])


def files_of(told: dict[str, Any]) -> list[str]:
    return list(told["tables"]["offset_commits"]["days"].values())


def _rows(files: Iterable[str]) -> list[dict[str, Any]]:
    (file,) = files
    rows: list[dict[str, Any]] = pq.ParquetFile(file).read().to_pylist()
    return rows


def _counted(files: dict[str, list[int]]) -> dict[tuple[str, str, int], tuple[int, int]]:
    found: dict[tuple[str, str, int], tuple[int, int]] = {}
    for bucket in range(BUCKETS):
        for row in read_bucket(list(files.items()), bucket).to_pylist():
            key = row["group_id"], row["topic"], row["partition"]
            live, dead = found.get(key, (0, 0))
            found[key] = live + row["live"], dead + row["dead"]
    return found
