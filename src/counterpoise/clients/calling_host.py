"""What an assignor needs from its host but does not receive: read, never written, from the frames that called it.

Public interfaces were looked at first, up to kafka-python 3.0.12 and aiokafka 0.14.0: both give an assignor the topics, the
cluster, the members, and later its assignment. None gives it its consumer, so it cannot ask what is owned now, for which
group, or whether membership was lost. aiokafka gives no generation, and it and kafka-python 2 show the leader subscriptions
cut down to version 0, without owned partitions, racks and static ids.

The caller has all of it: its coordinator (an object) and the raw members (a local variable). `check_host` finds out, when an
assignor is made, whether the installed release has them under the names that are used here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from inspect import unwrap
from types import FrameType
from typing import Any, NamedTuple

from counterpoise.errors import HostError

__all__ = ["Needed", "calling_object", "calling_variable", "check_host"]

_DEPTH = 16


class Needed(NamedTuple):
    """Names that a function of the host must use: parameters, variables or attributes."""

    holder: Any
    function: str
    names: tuple[str, ...] = ()


def check_host(release: str, known: str, needed: Iterable[Needed]) -> None:
    """Check that a host has what is read from it.

    Raises `HostError` if it does not: `release` is not one of the `known` releases. A plan made without it could be wrong.
    """
    for holder, name, wanted in needed:
        function = getattr(holder, name, None)
        code = getattr(unwrap(function), "__code__", None) if callable(function) else None
        there = {*code.co_varnames, *code.co_names, *code.co_cellvars} if code else set()
        missing = [each for each in wanted if each not in there]
        if function is None or missing:
            what = f"{holder.__name__}.{name}" + (f" has no {', '.join(missing)}" if function is not None else " is gone")
            raise HostError(f"{release} is not supported: {what}; install {known}, or a newer counterpoise")


def calling_object(kinds: tuple[type, ...]) -> Any:
    """The `self` of the nearest calling method that is an instance of one of `kinds`, or None. O(depth), 16 frames at most."""
    for frame in _frames():
        found = frame.f_locals.get("self")
        if isinstance(found, kinds):
            return found
    return None


def calling_variable(function: str, variable: str) -> Any:
    """The local variable of the nearest calling function of that name, or None."""
    for frame in _frames():
        if frame.f_code.co_name == function:
            return frame.f_locals.get(variable)
    return None


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the documented way to one's own caller
    for _ in range(_DEPTH):
        if frame is None:
            return
        yield frame
        frame = frame.f_back
