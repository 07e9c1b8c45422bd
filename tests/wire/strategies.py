"""Hypothesis strategies for wire values: any record of any type and version, and bytes bent from valid ones."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from hypothesis import strategies as st

from counterpoise.wire.offsets_topic.keys import GroupKey, Key, MemberKey, OffsetKey, RecordType, RegexKey, encode_key
from counterpoise.wire.offsets_topic.records import VALUES, encode_value
from counterpoise.wire.offsets_topic.schema import Array, Struct, WireType

__all__ = ["bent", "keys", "raw_records", "texts", "typed_values", "versions"]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def _of_type(kind: WireType, version: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, Array):
        inner: st.SearchStrategy[Any] = st.lists(_of_type(kind.of, version), max_size=3).map(tuple)
    elif isinstance(kind, Struct):
        inner = structs(kind.of, version)
    elif kind.name == "uint16":
        inner = st.integers(0, 2**16 - 1)
    elif kind.name in _BITS:
        inner = st.integers(-(2 ** (_BITS[kind.name] - 1)), 2 ** (_BITS[kind.name] - 1) - 1)
    elif kind.name == "uuid":
        inner = st.just(bytes(16)) | st.binary(min_size=16, max_size=16)
    else:
        inner = {"text": texts, "raw": st.binary(max_size=6)}[kind.name]
    return st.none() | inner if kind.nullable else inner


def structs(cls: type, version: int) -> st.SearchStrategy[Any]:
    """Values of a layout as far as a version can carry them."""
    given = {}
    for field in fields(cls):
        spec = field.metadata.get("wire")
        if spec is None:
            continue
        if spec.since <= version <= spec.until:
            given[field.name] = _of_type(spec.kind, version)
        else:
            assert field.default is not MISSING
    return st.builds(cls, **given)


versions = st.sampled_from([(kind, version) for kind, layout in VALUES.items() for version in range(layout.newest + 1)])
"""Every record type with every version of its value."""


def typed_values(record_type: RecordType, version: int) -> st.SearchStrategy[Any]:
    """Values of one record type."""
    return structs(VALUES[record_type].cls, version)


def keys(record_type: RecordType) -> st.SearchStrategy[Key]:
    """Keys of one record type."""
    if record_type <= 1:
        return st.builds(OffsetKey, texts, texts, st.integers(-(2**31), 2**31 - 1))
    if record_type in (5, 7, 8, 10, 13, 14, 19, 21, 22):
        return st.builds(MemberKey, texts, texts)
    return st.builds(RegexKey, texts, texts) if record_type == 16 else st.builds(GroupKey, texts)


@st.composite
def raw_records(draw: st.DrawFn, kinds: st.SearchStrategy[tuple[RecordType, int]] = versions) -> tuple[bytes, bytes | None]:
    """Key and value bytes of a valid record; None = tombstone."""
    record_type, version = draw(kinds)
    key = encode_key(record_type, draw(keys(record_type)))
    if draw(st.integers(0, 7)) == 0:
        return key, None
    return key, encode_value(record_type, draw(typed_values(record_type, version)), version)


@st.composite
def bent(draw: st.DrawFn, whole: bytes) -> bytes:
    """`whole` as it is, cut, lengthened, with changed bytes, or something else altogether."""
    how = draw(st.sampled_from(["as it is", "cut", "longer", "changed", "arbitrary"]))
    if how == "cut":
        return whole[: draw(st.integers(0, len(whole)))]
    if how == "longer":
        return whole + draw(st.binary(min_size=1, max_size=4))
    if how == "changed" and whole:
        out = bytearray(whole)
        for _ in range(draw(st.integers(1, 3))):
            out[draw(st.integers(0, len(out) - 1))] = draw(
                st.sampled_from([0, 1, 2, 0x10, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)
            )
        return bytes(out)
    return draw(st.binary(max_size=60)) if how == "arbitrary" else whole
