"""Read-only dicts and lists, of which groups and plans are made. They compare, print and become JSON as plain ones do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, TypeVar, cast

__all__ = ["FrozenDict", "FrozenList", "frozen", "refuse"]

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict; a change raises TypeError."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type, tuple[dict[K, V]]]:
        return type(self), (dict(self),)


class FrozenList(list[V]):
    """A list; a change raises TypeError."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type, tuple[list[V]]]:
        return type(self), (list(self),)


def frozen(value: T) -> T:
    """Dicts and lists, and those inside them, as read-only copies; anything else as it is."""
    if isinstance(value, list):
        nested = bool(value) and isinstance(value[0], (list, dict))
        return cast(T, FrozenList([frozen(part) for part in value] if nested else value))
    if isinstance(value, Mapping):
        return cast(T, FrozenDict({name: frozen(part) for name, part in value.items()}))
    return value


def refuse(self: object, *_: object, **__: object) -> NoReturn:
    """A method that would change an object, and raises TypeError instead."""
    copied = next(kind.__name__ for kind in (dict, list, type(self)) if isinstance(self, kind))
    raise TypeError(f"groups, plans and results are read-only; copy what you want to change: {copied}(...)")


for _kind, _names in (
    (FrozenDict, "__delitem__ __ior__ __setitem__ clear pop popitem setdefault update"),
    (FrozenList, "__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort"),
):
    for _name in _names.split():
        setattr(_kind, _name, refuse)
