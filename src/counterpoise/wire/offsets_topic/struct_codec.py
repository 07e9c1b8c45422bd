"""Reads and writes the struct of any record value, by the fields of its dataclass (see `schema`).

The fields of a class in a version are compiled once to a list of steps; each record is read or written by these steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, TypeAlias

from counterpoise.wire.offsets_topic.schema import Array, Spec, Struct, WireType
from counterpoise.wire.primitives import Reader, Writer

__all__ = ["read_value", "write_value"]


def read_value(cls: type, reader: Reader, version: int, *, flexible: bool) -> Any:
    """The struct `cls` at the reader's position; `WireError` if the bytes do not follow its layout."""
    return _reader_of(cls, version, flexible, "")(reader)


def write_value(value: Any, writer: Writer, version: int, *, flexible: bool) -> None:
    """Append a struct; `WireError` if a value does not fit its type."""
    _writer_of(value.__class__, version, flexible, "")(value, writer)


_Read: TypeAlias = Callable[[Reader], Any]
_Write: TypeAlias = Callable[[Any, Writer], None]


@cache
def _layout(cls: type, version: int) -> tuple[list[tuple[str, Spec]], dict[int, tuple[str, Spec, Any]]]:
    """(ordinary fields in wire order, tagged fields by tag with their defaults) of one version."""
    ordinary: list[tuple[str, Spec]] = []
    tagged: dict[int, tuple[str, Spec, Any]] = {}
    for each in fields(cls):
        spec = each.metadata.get("wire")
        if spec is None or not spec.since <= version <= spec.until:
            continue
        if spec.tag is None:
            ordinary.append((each.name, spec))
        else:
            tagged[spec.tag] = (each.name, spec, each.default)
    return ordinary, tagged


@cache
def _reader_of(cls: type, version: int, flexible: bool, prefix: str) -> _Read:
    ordinary, tagged = _layout(cls, version)
    put = {each.name: getattr(cls, each.name).__set__ for each in fields(cls)}
    steps = [(put[name], _read_type(spec.kind, version, flexible, prefix + name)) for name, spec in ordinary]
    by_tag = {
        tag: (name, _read_type(spec.kind, version, flexible, prefix + name, inside_tag=True))
        for tag, (name, spec, _) in tagged.items()
    }
    here = {name for name, _ in ordinary}
    absent = [(put[each.name], each.default) for each in fields(cls) if each.name not in here]

    def read(reader: Reader) -> Any:
        made: Any = object.__new__(cls)  # which sets itself in three times as long, because it is frozen
        for set_field, step in steps:
            set_field(made, step(reader))
        for set_field, default in absent:
            set_field(made, default)
        if flexible:
            unknown = []
            for tag, content in reader.tags(prefix + "tags"):
                if tag not in by_tag:
                    unknown.append((tag, content))
                    continue
                name, step = by_tag[tag]
                inner = Reader(content)
                put[name](made, step(inner))
                inner.end(prefix + name)
            if unknown:
                put["unknown_tags"](made, tuple(unknown))
        return made

    return read


@cache
def _writer_of(cls: type, version: int, flexible: bool, prefix: str) -> _Write:
    ordinary, tagged = _layout(cls, version)
    steps = [(name, _write_type(spec.kind, version, flexible, prefix + name)) for name, spec in ordinary]
    by_tag = [
        (tag, name, default, spec.always, _write_type(spec.kind, version, flexible, prefix + name, inside_tag=True))
        for tag, (name, spec, default) in tagged.items()
    ]

    def write(value: Any, writer: Writer) -> None:
        for name, step in steps:
            step(getattr(value, name), writer)
        if not flexible:
            return
        tags = list(value.unknown_tags)
        for tag, name, default, always, step in by_tag:
            content = getattr(value, name)
            if always or content != default:
                inner = Writer()
                step(content, inner)
                tags.append((tag, inner.getvalue()))
        writer.tags(tuple(tags), prefix + "tags")

    return write


def _read_type(kind: WireType, version: int, flexible: bool, name: str, inside_tag: bool = False) -> _Read:
    if isinstance(kind, Array):
        return _read_array(kind, version, flexible, name)
    if isinstance(kind, Struct):
        inner = _reader_of(kind.of, version, flexible, name + ".")
        return _read_nullable(inner, name, inside_tag) if kind.nullable else inner
    method = getattr(Reader, "nullable_text" if kind.nullable else kind.name)
    if kind.name in ("text", "raw"):
        return lambda reader: method(reader, name, compact=flexible)
    return lambda reader: method(reader, name)


def _read_array(kind: Array, version: int, flexible: bool, name: str) -> _Read:
    step = _read_type(kind.of, version, flexible, name)

    def read(reader: Reader) -> tuple[Any, ...] | None:
        count = reader.length(name, compact=flexible)
        if count is None:
            if kind.nullable:
                return None
            raise reader.fail(name, "null is not allowed")
        return tuple(step(reader) for _ in range(count))

    return read


def _read_nullable(inner: _Read, name: str, inside_tag: bool) -> _Read:
    present, absent = (1, 0) if inside_tag else (1, -1)

    def read(reader: Reader) -> Any:
        marker = reader.uvarint(name) if inside_tag else reader.int8(name)
        if marker == absent:
            return None
        if marker != present:
            raise reader.fail(name, f"{marker} marks neither a present nor an absent struct")
        return inner(reader)

    return read


def _write_type(kind: WireType, version: int, flexible: bool, name: str, inside_tag: bool = False) -> _Write:
    if isinstance(kind, Array):
        return _write_array(kind, version, flexible, name)
    if isinstance(kind, Struct):
        inner = _writer_of(kind.of, version, flexible, name + ".")
        return _write_nullable(inner, name, inside_tag) if kind.nullable else inner
    method = getattr(Writer, kind.name)
    if kind.name in ("text", "raw"):
        nullable = kind.nullable

        def write(value: Any, writer: Writer) -> None:
            if value is None and not nullable:
                raise writer.fail(name, "null is not allowed")
            method(writer, value, name, compact=flexible)

        return write
    return lambda value, writer: method(writer, value, name)


def _write_array(kind: Array, version: int, flexible: bool, name: str) -> _Write:
    step = _write_type(kind.of, version, flexible, name)

    def write(values: Any, writer: Writer) -> None:
        if values is None and not kind.nullable:
            raise writer.fail(name, "null is not allowed")
        writer.length(None if values is None else len(values), name, compact=flexible)
        for value in values or ():
            step(value, writer)

    return write


def _write_nullable(inner: _Write, name: str, inside_tag: bool) -> _Write:
    def write(value: Any, writer: Writer) -> None:
        marker = 1 if value is not None else 0 if inside_tag else -1
        if inside_tag:
            writer.uvarint(marker, name)
        else:
            writer.int8(marker, name)
        if value is not None:
            inner(value, writer)

    return write
