"""What an assignor's host knows and does not tell: read, never written, from the frames that called the assignor.

The hosts call an assignor with too little: no client tells it that membership was lost, aiokafka gives no generation,
and kafka-python 2.x and aiokafka hand the leader subscriptions cut down to version 0, without owned partitions. The
caller has all of it: its coordinator (an object) and the raw members (a local variable). Everything here answers None
when the caller looks different than expected; what an assignor does then is said, and tested, where it asks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

__all__ = ["calling_object", "calling_variable"]

_DEPTH = 16


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
