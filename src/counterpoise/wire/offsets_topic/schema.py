"""How a frozen dataclass says its own layout: field order is wire order, `wire(...)` gives type, versions and tag."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from typing import Any, TypeAlias

from counterpoise.wire.primitives import Tags

__all__ = [
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "NULLABLE_STRING",
    "RAW",
    "STRING",
    "UINT16",
    "UUID",
    "Array",
    "Flexible",
    "Primitive",
    "Spec",
    "Struct",
    "WireType",
    "wire",
]


@dataclass(frozen=True)
class Primitive:
    """A type that `Reader` and `Writer` have a method for."""

    name: str
    nullable: bool = False


@dataclass(frozen=True)
class Array:
    """Many of one type; a tuple in Python."""

    of: WireType
    nullable: bool = False


@dataclass(frozen=True)
class Struct:
    """A nested dataclass; nullable ones are marked by an int8, inside a tagged field by a uvarint."""

    of: type
    nullable: bool = False


WireType: TypeAlias = Primitive | Array | Struct

INT8 = Primitive("int8")
INT16 = Primitive("int16")
UINT16 = Primitive("uint16")
INT32 = Primitive("int32")
INT64 = Primitive("int64")
UUID = Primitive("uuid")
STRING = Primitive("text")
NULLABLE_STRING = Primitive("text", nullable=True)
RAW = Primitive("raw")


@dataclass(frozen=True)
class Spec:
    """Place of a field on the wire."""

    kind: WireType  # How it is written
    # since, until: the versions that carry it
    since: int = 0
    until: int = 32767
    tag: int | None = None  # It is the tagged field of this number
    always: bool = False  # A tagged field that is written even when it has its default


@dataclass(frozen=True, slots=True, kw_only=True)
class Flexible:
    """Base of every struct that has a flexible version."""

    unknown_tags: Tags = ()  # Tagged fields that this layout does not know, kept as they are


def wire(kind: WireType, default: Any = MISSING, **place: Any) -> Any:
    """A dataclass field with its place on the wire, as in `Spec`.

    `default` is its value in versions without it. A tagged field with this value is not written.
    """
    return field(default=default, metadata={"wire": Spec(kind, **place)})
