"""Readers of single fields in one step: what a record is made of nearly always. All else is left to the methods of `Reader`."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from counterpoise.wire.offsets_topic.schema import Primitive
from counterpoise.wire.primitives import Reader

__all__ = ["quick_reader"]

_Read: TypeAlias = Callable[[Reader], Any]
_LAYOUTS = {name: struct.Struct(f">{code}") for name, code in (("int8", "b"), ("int16", "h"), ("uint16", "H"), ("int32", "i"))}
_LAYOUTS["int64"] = struct.Struct(">q")
_SHORT = 0x8000
"""Lengths of text from here on are negative: null."""


def quick_reader(kind: Primitive, slow: _Read, *, compact: bool) -> _Read:
    """A reader of a field that gives what `slow` gives, a call of the Reader's method for it, and raises what that raises.

    Notes
    -----
    A group's record is a hundred such fields: the calls from method to method took most of the time of decoding it.
    """
    if kind.name in _LAYOUTS:
        return _number(_LAYOUTS[kind.name], slow)
    if kind.name == "text":
        return _compact(slow, text=True) if compact else _text(slow)
    if kind.name == "raw":
        return _compact(slow, text=False) if compact else _raw(slow)
    return slow


def _number(layout: struct.Struct, slow: _Read) -> _Read:
    unpack, size = layout.unpack_from, layout.size

    def read(reader: Reader) -> Any:
        start = reader.position
        try:
            (number,) = unpack(reader.data, start)
        except struct.error:
            return slow(reader)
        reader.position = start + size
        return number

    return read


def _text(slow: _Read) -> _Read:
    def read(reader: Reader) -> Any:
        data, begin = reader.data, reader.position + 2
        length = int.from_bytes(data[begin - 2 : begin], "big")
        end = begin + length
        if length >= _SHORT or end > len(data) or reader.lenient_text:
            return slow(reader)
        try:
            text = data[begin:end].decode()
        except UnicodeDecodeError:
            return slow(reader)
        reader.position = end
        return text

    return read


def _raw(slow: _Read) -> _Read:
    def read(reader: Reader) -> Any:
        data, begin = reader.data, reader.position + 4
        end = begin + int.from_bytes(data[begin - 4 : begin], "big")
        if end > len(data):
            return slow(reader)
        reader.position = end
        return data[begin:end]

    return read


def _compact(slow: _Read, *, text: bool) -> _Read:
    """With a length of one byte, which is one more than there are."""

    def read(reader: Reader) -> Any:
        data, begin = reader.data, reader.position + 1
        end = begin + data[begin - 1] - 1 if begin <= len(data) else -1
        if not begin <= end <= len(data) or end - begin >= 0x7F or reader.lenient_text:
            return slow(reader)
        raw = data[begin:end]
        try:
            found = raw.decode() if text else raw
        except UnicodeDecodeError:
            return slow(reader)
        reader.position = end
        return found

    return read
