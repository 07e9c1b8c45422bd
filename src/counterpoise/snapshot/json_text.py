"""JSON text to plain values, or one clear error: also for what is nested too deep to read, or is no text at all."""

from __future__ import annotations

from typing import Any

import msgspec

from counterpoise.errors import SnapshotError

__all__ = ["UNREADABLE", "decoded"]

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
