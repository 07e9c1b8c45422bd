"""Keys are decoded once per task, and mean the same in every batch."""

from __future__ import annotations

import pyarrow as pa

from counterpoise.pipeline.records.place import PLACE
from counterpoise.pipeline.scan.key_dictionary import KeyDictionary
from counterpoise.pipeline.scan.read import are_commits
from counterpoise.wire.offsets_topic.keys import GroupKey, Key, OffsetKey, RecordType, encode_key
from counterpoise.wire.offsets_topic.records import encode_value
from counterpoise.wire.offsets_topic.values import OffsetCommitValue

ONE, OTHER, THIRD = OffsetKey("orders", "t", 0), OffsetKey("orders", "u é", 7), OffsetKey("billing", "t", 7)


def raw(*keys: Key | bytes | None) -> pa.DictionaryArray:
    """Keys as a capture's column has them."""
    types = {OffsetKey: RecordType.OFFSET_COMMIT, GroupKey: RecordType.GROUP_METADATA}
    listed = [encode_key(types[type(key)], key) if isinstance(key, OffsetKey | GroupKey) else key for key in keys]
    return pa.array(listed, pa.binary()).dictionary_encode()


def test_a_key_has_one_code_in_every_batch() -> None:
    """In whatever order the dictionary of a batch has it, or its rows; entries that no row uses are not learned."""
    book = KeyDictionary()
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
    """It is a commit by its type all the same, or of another type; it is of no group that is chosen."""
    book = KeyDictionary(lambda groups: [group == "billing" for group in groups])
    damaged = encode_key(RecordType.OFFSET_COMMIT, ONE)[:-1]
    keys = raw(damaged, GroupKey("billing"), THIRD, b"", b"\x00", ONE)
    assert book.codes(keys).tolist() == [0, 1, 2, 3, 4, 5]
    assert are_commits(keys).tolist() == [True, False, True, True, True, True]
    assert book.group.tolist() == [-1, -1, 0, -1, -1, 1]
    assert book.topic.tolist() == [-1, -1, 0, -1, -1, 0]
    assert book.chosen.tolist() == [False, False, True, False, False, False]
    book.clear()
    assert len(book) == len(book.groups) == len(book.topics) == 0
    assert (book.codes(raw(ONE, THIRD)).tolist(), book.chosen.tolist()) == ([0, 1], [False, True])


def test_records_in_arrows_large_types_are_the_same_records() -> None:
    """Spark hands them on so if spark.sql.execution.arrow.useLargeVarTypes is set."""
    kind, commit = RecordType.OFFSET_COMMIT, OffsetCommitValue(offset=5, metadata="", commit_timestamp=0)
    key, value = encode_key(kind, ONE), encode_value(kind, commit, 3)
    columns = [pa.array([key, key], pa.binary()), pa.array([value, None], pa.binary())]
    place = [pa.array([1, 1], pa.int32()), pa.array([7, 8], pa.int64()), pa.array([0, 0], pa.timestamp("us", "UTC"))]
    plain, large = (
        pa.RecordBatch.from_arrays([*(one.cast(kind) for one in columns), *place], ["key", "value", *PLACE])
        for kind in (pa.binary(), pa.large_binary())
    )
    assert KeyDictionary().commits(large)[0].equals(KeyDictionary().commits(plain)[0])
    assert are_commits(large["key"]).tolist() == [True, True]
