"""Record batches (magic 2) of a segment file: searched, checked, decompressed, and read record by record.

The layout is that of Kafka's "Message Format", version 2 (KIP-98). Damaged bytes cost only their batch: reading continues at the
next complete batch with a valid checksum.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from google_crc32c import value as crc32c

from counterpoise.errors import WireError

__all__ = ["LogBatch", "Record", "batches", "records"]

HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_FROM = 21
LARGEST = 256 * 2**20
"""Maximal decompressed size of a batch (Kafka's default limit is 1 MB)."""
_PIECE = 2**20
_EFFORT = 16
"""Maximal bytes that the search for the next batch reads per byte of the file, so that damage does not cost quadratic time."""
_XERIAL = b"\x82SNAPPY\x00"
Record = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp (ms), key, value."""


@dataclass(frozen=True)
class LogBatch:
    """One batch with a valid checksum."""

    base_offset: int
    codec: int
    append_time: bool  # Whether timestamps are the broker's, not the producer's
    transactional: bool  # Whether it belongs to a transaction
    control: bool  # Whether it holds a marker instead of records
    base_time: int
    max_time: int
    producer_id: int
    count: int
    payload: bytes  # The records, compressed by the codec


def batches(data: bytes) -> Iterator[LogBatch | str]:
    """Yield the batches of one segment in order, and a message for each damaged range.

    A batch that is cut by the end of the file is reported as "cut short"; zeros up to the end (a preallocated segment) are
    ignored.
    """
    at, effort = 0, _EFFORT * len(data)
    following: int | None = 0  # Where the next intact batch after damage begins, from the last search; None: there is none
    while at < len(data):
        size = _size(data, at)
        whole = HEADER.size <= size <= len(data) - at and data[at + 16] == 2
        if whole and _is_intact(data, at, size):
            yield _batch(data, at, size)
            at += size
            continue
        if not whole and data.count(0, at) == len(data) - at:
            break
        if following is not None and following <= at:
            following, effort = _next(data, at + 1, effort)  # The size at `at` may be what is damaged.
        if whole:
            yield f"byte {at}: checksum does not match"
            at = at + size if following is None else following
            continue
        old = len(data) - at > 17 and data[at + 16] in (0, 1) and following is None
        cut = following is None and (size > len(data) - at or len(data) - at < HEADER.size)
        why = (
            "cut short by the end of the file" if cut else "a message format from before Kafka 0.11" if old else "no record batch"
        )
        yield f"byte {at}: {why}"
        if following is None:
            break
        at = following


def records(batch: LogBatch) -> list[Record]:
    """The records of a batch. Raises `WireError` if the payload cannot be unpacked, or is not what its header says."""
    data = _unpacked(batch.codec, batch.payload)
    listed: list[Record] = []
    at = 0
    try:
        for _ in range(batch.count):
            size, at = _varint(data, at)
            end = at + size
            if size < 0 or end > len(data):
                raise WireError(at, "record", "runs over the end of its batch")
            elapsed, at = _varint(data, at + 1)
            step, at = _varint(data, at)
            key, at = _bytes(data, at, end)
            value, at = _bytes(data, at, end)
            time = batch.max_time if batch.append_time else batch.base_time + elapsed
            if not (0 <= batch.base_offset + step < 2**63 and -(2**63) <= time < 2**63):
                raise WireError(at, "record", "its offset or time stamp does not fit 64 bits")
            listed.append((batch.base_offset + step, time, key, value))
            at = end
    except IndexError:
        raise WireError(at, "record", "its batch is cut short") from None
    if at != len(data):
        raise WireError(at, "batch", f"{len(data) - at} bytes are left over")
    return listed


def _size(data: bytes, at: int) -> int:
    return int(struct.unpack_from(">i", data, at + 8)[0]) + 12 if at + 12 <= len(data) else -1


def _is_intact(data: bytes, start: int, size: int) -> bool:
    """Whether the CRC-32C of a batch equals that in its header."""
    return bool(crc32c(data[start + CRC_FROM : start + size]) == struct.unpack_from(">I", data, start + 17)[0])


def _next(data: bytes, at: int, effort: int) -> tuple[int | None, int]:
    """The begin of the next batch with a valid checksum, and the remaining effort in bytes."""
    start = at - 1
    while effort >= 0 and (start := data.find(b"\x02", start + 17) - 16) >= at:
        size = _size(data, start)
        if HEADER.size <= size <= len(data) - start:
            if _is_intact(data, start, size):
                return start, effort
            effort -= size
    return None, effort


def _batch(data: bytes, at: int, size: int) -> LogBatch:
    base, _, _, _, _, attributes, _, first_time, max_time, producer, _, _, count = HEADER.unpack_from(data, at)
    append_time, transactional, control = (bool(attributes & bit) for bit in (0x08, 0x10, 0x20))
    payload = data[at + HEADER.size : at + size]
    return LogBatch(base, attributes & 0x07, append_time, transactional, control, first_time, max_time, producer, count, payload)


def _unpacked(codec: int, payload: bytes) -> bytes:
    try:
        if codec == 0:
            return payload
        if codec == 1:
            opened = zlib.decompressobj(31)
            return b"".join(_bounded([opened.decompress(payload, LARGEST + 1)]))
        if codec == 2:
            return b"".join(_bounded(_unsnapped(payload)))
        if codec in (3, 4):
            with pa.CompressedInputStream(pa.BufferReader(payload), "lz4" if codec == 3 else "zstd") as stream:
                return b"".join(_bounded(iter(partial(stream.read, _PIECE), b"")))
    except (zlib.error, pa.ArrowException, OSError, ValueError, struct.error, IndexError) as error:
        raise WireError(0, "batch", f"cannot be unpacked ({str(error).splitlines()[0]})") from None
    raise WireError(0, "batch", f"compression {codec} is unknown")


def _bounded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > LARGEST:
            raise ValueError(f"unpacks to more than {LARGEST} bytes")
        yield piece


def _unsnapped(payload: bytes) -> Iterator[bytes]:
    """Decompress Snappy: Java frames its blocks, other clients write one block."""
    if not payload.startswith(_XERIAL):
        yield _snappy_block(payload)
        return
    at = 16
    while at < len(payload):
        (size,) = struct.unpack_from(">i", payload, at)
        if size < 0 or at + 4 + size > len(payload):
            raise ValueError("a Snappy block runs over the end")
        yield _snappy_block(payload[at + 4 : at + 4 + size])
        at += 4 + size


def _snappy_block(block: bytes) -> bytes:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > min(64 * len(block), LARGEST):  # a copy of 64 bytes costs at least two: more is a lie, and would be allocated
        raise ValueError(f"a Snappy block of {len(block)} bytes cannot hold {size}")
    return bytes(pa.Codec("snappy").decompress(block, size, asbytes=True))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    value = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if shift > 63:
            raise WireError(at, "varint", "longer than 10 bytes")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), at


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise WireError(at, "record", "key or value runs over its end")
    return data[at : at + size], at + size
