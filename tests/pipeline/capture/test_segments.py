"""Segment files read without a broker: the same records as a consumer saw, every codec, markers honoured, damage counted."""

from __future__ import annotations

import random
import shutil
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.errors import CaptureError, WireError
from counterpoise.pipeline.capture.backup import log_batches
from counterpoise.pipeline.capture.backup.log_batches import LogBatch, Record, batches, records
from counterpoise.pipeline.capture.backup.segments import SegmentCounts, from_segments, partition_folders, read_partition
from counterpoise.pipeline.capture.cluster import OFFSETS_TOPIC
from counterpoise.pipeline.capture.fetch import read_range
from counterpoise.pipeline.capture.settings import Settings
from tests.kafka_broker import Broker
from tests.pipeline.capture.traffic import commit, held, open_transaction, transact

COMMIT, ABORT = b"\x00\x00\x00\x01", b"\x00\x00\x00\x00"
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def slow_crc(data: bytes) -> int:
    """Bit by bit, straight from the definition."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def record(step: int, key: bytes | None, value: bytes | None) -> bytes:
    fields = [varint(-1) if each is None else varint(len(each)) + each for each in (key, value)]
    body = b"\x00" + varint(10 * step) + varint(step) + b"".join(fields) + varint(0)
    return varint(len(body)) + body


def batch(
    base: int, keys: list[bytes], *, producer: int = -1, attributes: int = 0, pack: Callable[[bytes], bytes] = bytes
) -> bytes:
    """One batch; `attributes` as in the log."""
    payload = pack(b"".join(record(n, key, b"v" + key) for n, key in enumerate(keys)))
    head = struct.pack(">hiqqqhii", attributes, len(keys) - 1, 1000, 1000 + 10 * len(keys), producer, 0, -1, len(keys))
    return struct.pack(">qiibI", base, len(head + payload) + 9, 0, 2, slow_crc(head + payload)) + head + payload


def marker(base: int, producer: int, kind: bytes) -> bytes:
    return batch(base, [kind], producer=producer, attributes=0x30)


def partition(tmp_path: Path, *segments: bytes) -> Path:
    folder = tmp_path / "data" / f"{OFFSETS_TOPIC}-3"
    folder.mkdir(parents=True)
    for n, content in enumerate(segments):
        (folder / f"{1000 * n:020d}.log").write_bytes(content)
    return folder


def offsets(folder: Path, found: SegmentCounts | None = None) -> list[int]:
    return [at for _, at, *_ in read_partition(folder, 3, found or SegmentCounts())]


def whole(data: bytes) -> list[Record]:
    return [each for found in batches(data) if isinstance(found, LogBatch) for each in records(found)]


def test_records_of_a_batch() -> None:
    (found,) = batches(batch(7, [b"a", b"b"]))
    assert isinstance(found, LogBatch)
    assert records(found) == [(7, 1000, b"a", b"va"), (8, 1010, b"b", b"vb")]
    (stamped,) = batches(batch(7, [b"a", b"b"], attributes=8))
    assert isinstance(stamped, LogBatch)
    assert [row[1] for row in records(stamped)] == [1020, 1020]


def raw_snappy(data: bytes) -> bytes:
    return bytes(pa.Codec("snappy").compress(data, asbytes=True))


PACKERS: list[tuple[int, Callable[[bytes], bytes]]] = [
    (1, lambda data: zlib.compress(data, wbits=31)),
    (2, raw_snappy),
    (2, lambda data: XERIAL + b"".join(struct.pack(">i", len(p)) + p for p in map(raw_snappy, (data[:20], data[20:])))),
    (3, lambda data: pa.Codec("lz4").compress(data, asbytes=True)),
    (4, lambda data: pa.Codec("zstd").compress(data, asbytes=True)),
]


@pytest.mark.parametrize(("codec", "pack"), PACKERS)
def test_every_codec(codec: int, pack: Callable[[bytes], bytes]) -> None:
    """And what is damaged inside a packed batch, below a checksum that fits, is a `WireError` and nothing else."""
    keys = [b"key-%d" % n for n in range(50)]
    (found,) = batches(batch(0, keys, attributes=codec, pack=pack))
    assert isinstance(found, LogBatch)
    assert [row[2] for row in records(found)] == keys
    rng = random.Random(codec)
    for _ in range(200):
        spoilt = bytearray(found.payload)
        spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
        damaged = LogBatch(0, codec, False, False, False, 0, 0, -1, 50, bytes(spoilt[: rng.randint(1, len(spoilt))]))
        try:
            assert len(records(damaged)) == 50
        except WireError:
            continue


def test_a_lie_about_the_size_is_not_believed() -> None:
    """A Snappy block of ten bytes that says it holds four gigabytes."""
    with pytest.raises(WireError, match="cannot hold"):
        records(LogBatch(0, 2, False, False, False, 0, 0, -1, 1, b"\xff\xff\xff\xff\x0f12345"))


@given(st.binary(max_size=200))
def test_any_bytes_are_batches_or_faults(data: bytes) -> None:
    assert all(isinstance(each, str) for each in batches(data))


def test_damage_costs_only_the_batches_it_is_in() -> None:
    """Bytes flipped anywhere, also in the lengths that lead from one batch to the next."""
    pieces = [batch(10 * n, [b"%d-%d" % (n, k) for k in range(3)]) for n in range(12)]
    data = b"".join(pieces)
    rng = random.Random(9)
    for _ in range(150):
        spoilt = bytearray(data)
        at = rng.randrange(len(data))
        spoilt[at] ^= 1 << rng.randrange(8)
        hit = next(n for n in range(12) if at < sum(map(len, pieces[: n + 1])))
        within = at - sum(map(len, pieces[:hit]))
        good = [row for row in whole(data) if row[0] // 10 != hit]
        got = whole(bytes(spoilt))
        if within in range(8) or within in range(12, 16):  # base offset and leader epoch are outside of the checksum
            assert [row[1:] for row in got] == [row[1:] for row in whole(data)]
        else:
            assert got == good
            assert sum(isinstance(each, str) for each in batches(bytes(spoilt))) >= 1


def test_a_file_cut_anywhere_keeps_its_whole_batches() -> None:
    pieces = [batch(2**56 + 10 * n, [b"a", b"b"]) for n in range(3)]
    data = b"".join(pieces)
    for end in range(len(data)):
        found = list(batches(data[:end]))
        n_whole = end // len(pieces[0])
        assert [isinstance(each, LogBatch) for each in found] == [True] * n_whole + [False] * bool(end % len(pieces[0]))
    assert len(list(batches(data + bytes(5000)))) == 3


def test_markers_decide(tmp_path: Path) -> None:
    """Aborted and unfinished transactions are left out, also when the marker is in a later segment; committed ones stay."""
    first = batch(0, [b"plain"]) + batch(1, [b"x"], producer=1, attributes=16) + batch(2, [b"y", b"z"], producer=2, attributes=16)
    second = marker(4, 1, ABORT) + batch(5, [b"x"], producer=1, attributes=16) + marker(6, 2, COMMIT) + marker(7, 1, COMMIT)
    third = batch(8, [b"x", b"w"], producer=1, attributes=16) + batch(10, [b"plain"])
    found = SegmentCounts()
    folder = partition(tmp_path, first, second, third)
    assert offsets(folder, found) == [0, 2, 3, 5, 10]
    assert (found.aborted, found.undecided, found.segments, found.unreadable) == (1, 2, 3, 0)
    (folder.parent / "cleaner-offset-checkpoint").write_text(f"0\n2\nother 3 99\n{OFFSETS_TOPIC} 3 2\n")
    assert offsets(folder) == [0, 1, 2, 3, 5, 10]


def test_a_damaged_segment_is_counted_and_reported(tmp_path: Path) -> None:
    spoilt = bytearray(batch(0, [b"a"]) + batch(1, [b"b"]))
    spoilt[70] ^= 255
    partition(tmp_path, bytes(spoilt), batch(1000, [b"c"])[:-1])
    found = from_segments(tmp_path, tmp_path / "out")
    assert (found.records, found.unreadable) == (1, 2)
    assert found.faults[0].endswith("00000000000000000000.log: byte 0: checksum does not match")
    assert found.faults[1].endswith("00000000000000001000.log: byte 0: cut short by the end of the file")
    with pytest.raises(CaptureError, match="holds a capture already"):
        from_segments(tmp_path, tmp_path / "out")


def test_a_damaged_length_costs_one_batch() -> None:
    """It points into a later batch, or far beyond it."""
    pieces = [batch(at, [b"a" * 50]) for at in range(6)]
    for more in (1, len(pieces[0]) + 7, 2 * len(pieces[0])):
        data = bytearray(b"".join(pieces))
        at = len(pieces[0])
        data[at + 8 : at + 12] = (len(pieces[0]) - 12 + more).to_bytes(4, "big")
        found = list(batches(bytes(data)))
        assert found.pop(1) == f"byte {at}: checksum does not match"
        assert [each.base_offset for each in found if isinstance(each, LogBatch)] == [0, 2, 3, 4, 5]


def test_the_search_behind_damage_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once per batch: each one reads to the end of the file."""
    data, calls = bytearray(b"".join(batch(at, [b"a" * 50]) for at in range(50))), list[int]()
    size = len(data) // 50
    for at in range(5, 50):
        data[at * size + 70] ^= 255
    search = log_batches._next

    def counted(data: bytes, at: int, effort: int) -> tuple[int | None, int]:
        calls.append(at)
        return search(data, at, effort)

    monkeypatch.setattr(log_batches, "_next", counted)
    found = list(log_batches.batches(bytes(data)))
    assert ([isinstance(each, LogBatch) for each in found], len(calls)) == ([True] * 5 + [False] * 45, 1)


def test_what_is_no_data_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such folder"):
        partition_folders(tmp_path / "none")
    with pytest.raises(CaptureError, match=f"no folder {OFFSETS_TOPIC}-N in it"):
        partition_folders(tmp_path)
    for broker in "ab":
        (tmp_path / broker / f"{OFFSETS_TOPIC}-3").mkdir(parents=True)
    with pytest.raises(CaptureError, match="one replica of each"):
        partition_folders(tmp_path)
    assert list(partition_folders(tmp_path / "a" / f"{OFFSETS_TOPIC}-3")) == [3]


def settled(data: Path, out: Path) -> SegmentCounts:
    """What is found when all markers are written: a broker answers before those of a transaction are in the log."""
    end = time.monotonic() + 20
    while True:
        found = from_segments(data, out)
        if found.undecided <= 1 or time.monotonic() > end:
            return found
        shutil.rmtree(out)
        time.sleep(0.2)


@pytest.mark.kafka
def test_a_brokers_own_files_give_what_a_consumer_saw(broker: Broker, tmp_path: Path) -> None:
    """Commits, a committed, an aborted and an open transaction, read from the data folder of the running broker."""
    broker.create_topic("kept")
    commit(broker, "keeper", "kept", list(range(20)))
    transact(broker, "keeper", "kept", 1, abort=False)
    transact(broker, "keeper", "kept", 2, abort=True)
    undecided = open_transaction(broker, "keeper", "kept", 3)
    try:
        found = settled(broker.folder / "data", tmp_path / "out")
        assert (found.unreadable, found.undecided) == (0, 1)
        assert found.aborted >= 1
    finally:
        undecided.abort_transaction(60)
    table = pq.read_table(tmp_path / "out" / "consumer_offsets.parquet")
    assert set(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)) == held(broker)
    settings = Settings({"bootstrap.servers": broker.bootstrap})
    busiest = max(range(8), key=table["partition"].to_pylist().count)
    mine = table.filter(pa.compute.equal(table["partition"], busiest))
    seen = pa.Table.from_batches(read_range(settings, (OFFSETS_TOPIC, busiest), 0, mine["offset"][-1].as_py() + 1))
    assert mine.combine_chunks().replace_schema_metadata(None).equals(seen.combine_chunks())


@pytest.mark.kafka
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("packer", ["producer", "broker"])
def test_what_clients_and_brokers_pack_is_read(broker: Broker, codec: str, packer: str) -> None:
    """Packed by librdkafka, and packed again by the broker's Java code as the topic is configured."""
    topic = f"packed-{codec}-{packer}"
    broker.create_topic(topic, 1, **({"compression.type": codec} if packer == "broker" else {}))
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 50} | ({"compression.type": codec} if packer == "producer" else {})
    )
    values = [b"value %d " % n * 20 for n in range(300)]
    for value in values:
        producer.produce(topic, value, b"key")
    assert producer.flush(60) == 0
    file = broker.folder / "data" / f"{topic}-0" / f"{0:020d}.log"
    deadline = time.monotonic() + 60
    while len(whole(file.read_bytes())) < 300 and time.monotonic() < deadline:
        time.sleep(0.2)
    found = [each for each in batches(file.read_bytes()) if isinstance(each, LogBatch)]
    assert {each.codec for each in found} == {["none", "gzip", "snappy", "lz4", "zstd"].index(codec)}
    assert [row[3] for row in whole(file.read_bytes())] == values
