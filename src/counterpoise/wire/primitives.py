"""Bounds-checked reading and writing of the Kafka protocol's primitive types.

Big-endian throughout. Two families of lengths: classic (int16 for strings, int32 for bytes and arrays, negative
means null) and compact (unsigned varint of length + 1, 0 means null; KIP-482). Long, because reading and writing of
each type belong side by side.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable

from counterpoise.errors import WireError

__all__ = ["Reader", "Tags", "Writer", "java_key", "java_order", "java_text"]

Tags = tuple[tuple[int, bytes], ...]
"""Tagged fields as (tag, content), tags rising."""

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


def java_text(raw: bytes) -> str:
    """`raw` as Java's ``new String(raw, UTF_8)`` reads it: what is not UTF-8 becomes U+FFFD, never an error.

    Java turns an encoded surrogate (three bytes) into one U+FFFD, Python into three.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub("\ufffd".encode(), raw).decode("utf-8", "replace")


def java_key(text: str) -> bytes:
    """Sort key that orders strings as ``java.lang.String.compareTo`` does (by UTF-16 code units).

    Differs from Python's order only if characters beyond U+FFFF meet ones from U+E000 to U+FFFF.
    Lone surrogates, which no valid UTF-8 holds, are passed through.
    """
    return text.encode("utf-16-be", "surrogatepass")


def java_order(ids: Iterable[str]) -> list[str]:
    """`ids` in the order of `java_key`, by which Kafka breaks ties."""
    listed = list(ids)
    return sorted(listed) if all(map(str.isascii, listed)) else sorted(listed, key=java_key)


def _reading(layout: str) -> Callable[[Reader, str], int]:
    """The method of `Reader` for a number of this layout."""
    size, unpack_from = struct.calcsize(layout), struct.Struct(layout).unpack_from

    def read(reader: Reader, field: str) -> int:
        start, end = reader.position, reader.position + size
        if end > len(reader.data):
            raise reader.fail(field, f"needs {size} bytes, {reader.remaining} are left")
        reader.position = end
        number: int = unpack_from(reader.data, start)[0]
        return number

    return read


def _writing(layout: str) -> Callable[[Writer, int, str], None]:
    """The method of `Writer` for a number of this layout."""
    pack = struct.Struct(layout).pack

    def write(writer: Writer, value: int, field: str) -> None:
        try:
            writer.put(pack(value))
        except struct.error:
            raise writer.fail(field, f"{value!r} does not fit {struct.calcsize(layout)} bytes") from None

    return write


class Reader:
    """A cursor over bytes that never reads past the end.

    Every method takes the name of the field it reads, for the error; each raises `WireError`. No method allocates by a length it
    has not checked against the bytes that are left. With `lenient_text` strings are read as Java reads them (`java_text`);
    otherwise what is not UTF-8 raises.
    """

    __slots__ = ("data", "lenient_text", "position")

    def __init__(self, data: bytes, position: int = 0, *, lenient_text: bool = False) -> None:
        self.data = data
        self.position = position
        self.lenient_text = lenient_text

    @property
    def remaining(self) -> int:
        """Bytes that are left."""
        return len(self.data) - self.position

    def fail(self, field: str, reason: str) -> WireError:
        """The error to raise for a field at the present position."""
        return WireError(self.position, field, reason)

    def take(self, size: int, field: str) -> bytes:
        """The next `size` bytes, as they are."""
        if not 0 <= size <= self.remaining:
            raise self.fail(field, f"needs {size} bytes, {self.remaining} are left")
        start = self.position
        self.position = start + size
        return self.data[start : self.position]

    int8, int16, uint16 = _reading(">b"), _reading(">h"), _reading(">H")
    int32, int64 = _reading(">i"), _reading(">q")

    def uvarint(self, field: str) -> int:
        """An unsigned varint of at most 5 bytes that fits 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            if self.position >= len(self.data):
                raise self.fail(field, "varint ends in the middle")
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise self.fail(field, "varint is longer than 5 bytes")
        if value > 0xFFFFFFFF:
            raise self.fail(field, "varint exceeds 32 bits")
        return value

    def uuid(self, field: str) -> bytes:
        """16 raw bytes."""
        return self.take(16, field)

    def length(self, field: str, *, compact: bool) -> int | None:
        """Length of bytes or count of an array (of at least one byte each), checked against what is left; None = null."""
        return self._length(self.uvarint(field) - 1 if compact else self.int32(field), field)

    def _length(self, length: int, field: str) -> int | None:
        if length < 0:
            return None
        if length > self.remaining:
            raise self.fail(field, f"length {length} exceeds the {self.remaining} bytes left")
        return length

    def nullable_text(self, field: str, *, compact: bool = False) -> str | None:
        """A string; None = null."""
        length = self._length(self.uvarint(field) - 1 if compact else self.int16(field), field)
        if length is None:
            return None
        start = self.position
        raw = self.take(length, field)
        if self.lenient_text:
            return java_text(raw)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise WireError(start, field, f"not UTF-8: {error.reason} at its byte {error.start}") from None

    def text(self, field: str, *, compact: bool = False) -> str:
        """A string that must not be null."""
        if not compact:
            # What nearly every string is, in one step: the calls from method to method took most of the time of reading it.
            start = self.position + 2
            end = start + int.from_bytes(self.data[start - 2 : start], "big")
            if end < start + 0x8000 and end <= len(self.data):
                try:
                    text = self.data[start:end].decode()
                except UnicodeDecodeError:
                    pass  # an error, or characters to replace
                else:
                    self.position = end
                    return text
        value = self.nullable_text(field, compact=compact)
        if value is None:
            raise self.fail(field, "null is not allowed")
        return value

    def nullable_raw(self, field: str, *, compact: bool = False) -> bytes | None:
        """Bytes with their length; None = null."""
        size = self.length(field, compact=compact)
        return None if size is None else self.take(size, field)

    def raw(self, field: str, *, compact: bool = False) -> bytes:
        """Bytes with their length that must not be null."""
        value = self.nullable_raw(field, compact=compact)
        if value is None:
            raise self.fail(field, "null is not allowed")
        return value

    def elements(self, field: str) -> int:
        """Number of elements of an array that must not be null; not compact."""
        count = self.length(field, compact=False)
        if count is None:
            raise self.fail(field, "null is not allowed")
        return count

    def int32s(self, field: str) -> tuple[int, ...]:
        """An array of int32 that must not be null; not compact."""
        start = self.position + 4
        count = int.from_bytes(self.data[start - 4 : start], "big")
        if start + 4 * count <= len(self.data):
            self.position = start + 4 * count
            return struct.unpack_from(f">{count}i", self.data, start)
        count = self.elements(field)
        return struct.unpack(f">{count}i", self.take(4 * count, field))

    def tags(self, field: str) -> Tags:
        """A block of tagged fields; tags must rise, as KIP-482 demands."""
        count = self._length(self.uvarint(field), field) or 0
        found: list[tuple[int, bytes]] = []
        last = -1
        for _ in range(count):
            tag = self.uvarint(field)
            if tag <= last:
                raise self.fail(field, f"tag {tag} follows tag {last}")
            last = tag
            found.append((tag, self.take(self.uvarint(field), field)))
        return tuple(found)

    def end(self, field: str) -> None:
        """Nothing may be left."""
        if self.remaining:
            raise self.fail(field, f"{self.remaining} bytes follow the last field")


class Writer:
    """Appends primitives to a buffer; `WireError` when a value does not fit its type."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def getvalue(self) -> bytes:
        """Everything written so far."""
        return b"".join(self._parts)

    def put(self, raw: bytes) -> None:
        """Bytes as they are."""
        self._parts.append(raw)
        self._size += len(raw)

    def fail(self, field: str, reason: str) -> WireError:
        """The error to raise for a field at the present position."""
        return WireError(self._size, field, reason)

    int8, int16, uint16 = _writing(">b"), _writing(">h"), _writing(">H")
    int32, int64 = _writing(">i"), _writing(">q")

    def uvarint(self, value: int, field: str) -> None:
        """An unsigned varint of at most 32 bits."""
        if not 0 <= value <= 0xFFFFFFFF:
            raise self.fail(field, f"{value} is no unsigned 32-bit number")
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
        self.put(bytes(out))

    def uuid(self, value: bytes, field: str) -> None:
        """16 raw bytes."""
        if len(value) != 16:
            raise self.fail(field, f"a uuid has 16 bytes, not {len(value)}")
        self.put(value)

    def length(self, length: int | None, field: str, *, compact: bool) -> None:
        """Length of bytes or count of an array; None writes null."""
        if compact:
            self.uvarint(0 if length is None else length + 1, field)
        else:
            self.int32(-1 if length is None else length, field)

    def text(self, value: str | None, field: str, *, compact: bool = False) -> None:
        """A string; None writes null."""
        try:
            raw = None if value is None else value.encode()
        except UnicodeEncodeError:
            raise self.fail(field, "holds a lone surrogate, which UTF-8 cannot carry") from None
        length = -1 if raw is None else len(raw)
        if length > 0x7FFF:
            raise self.fail(field, f"{length} bytes exceed the 32767 of a string")
        if compact:
            self.uvarint(length + 1, field)
        else:
            self.int16(length, field)
        self.put(raw or b"")

    def raw(self, value: bytes | None, field: str, *, compact: bool = False) -> None:
        """Bytes with their length; None writes null."""
        self.length(None if value is None else len(value), field, compact=compact)
        self.put(value or b"")

    def int32s(self, values: tuple[int, ...], field: str) -> None:
        """An array of int32; not compact."""
        self.length(len(values), field, compact=False)
        try:
            self.put(struct.pack(f">{len(values)}i", *values))
        except struct.error:
            raise self.fail(field, "a number does not fit 4 bytes") from None

    def tags(self, tags: Tags, field: str) -> None:
        """A block of tagged fields, in rising order of their tags."""
        self.uvarint(len(tags), field)
        for tag, content in sorted(tags):
            self.uvarint(tag, field)
            self.uvarint(len(content), field)
            self.put(content)
