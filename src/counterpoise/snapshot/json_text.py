"""JSON text to plain values, or one clear error: also for what is nested too deep to read, or is no text at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from counterpoise.errors import SnapshotError

__all__ = ["UNREADABLE", "decoded", "fields_of", "json_lines", "plain", "shown"]

_LONGEST = 80
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError)
"""Everything msgspec raises for a text that is no JSON of the form asked for; `ValidationError` is a `DecodeError`."""


def decoded(text: str | bytes, wanted: str) -> Any:
    """The value that the text holds.

    Raises
    ------
    SnapshotError
        It is no JSON; the message ends with what is `wanted`.
    """
    try:
        return msgspec.json.decode(text)
    except UNREADABLE as error:
        raise SnapshotError(f"not JSON: {error}; {wanted}") from None


def fields_of(value: object, path: str, required: Sequence[str], optional: Sequence[str]) -> Mapping[str, Any]:
    """An object that holds all required fields, and no others than these and the optional ones.

    Raises
    ------
    SnapshotError
        The message starts with the path.
    """
    if not isinstance(value, Mapping):
        raise SnapshotError(f"{path}: expected an object with {', '.join(required)}, not {shown(value)}")
    unknown = sorted(map(str, value.keys() - {*required, *optional}))
    if unknown:
        raise SnapshotError(f"{path}: unknown field {shown(unknown[0])}; there are {', '.join([*required, *optional])}")
    missing = [name for name in required if name not in value]
    if missing:
        raise SnapshotError(f"{path}: {missing[0]} is missing")
    return value


def shown(value: object) -> str:
    """A value in a message, however long or deep it is."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} of lists in lists"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def json_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of JSON lines that are not blank, with their numbers from 1.

    Only a line feed ends a line: the other ends that `str.splitlines` knows (U+2028, U+0085, a form feed) may stand in a name.
    """
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def plain(value: object) -> Any:
    """For ``msgspec.json.encode``: what is a word or a number of another type (NumPy's, an enumeration's) as JSON has it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"{type(value).__name__} is nothing that JSON holds")
