"""Work of a call in numbers that do not depend on the machine: tests bound it for inputs of two sizes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["Compared", "lines_of"]


def lines_of(call: Callable[[], object]) -> int:
    """The lines of Python that a call executes; a loop in a generator or comprehension counts once per round."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


class Compared(str):
    """A text that counts how often it is compared; a look-up in a dict compares once, one in a list with each entry."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__
