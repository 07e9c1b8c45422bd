"""The state of a fold as JSON text, and back."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from counterpoise.errors import CaptureError
from counterpoise.pipeline.history.causes import Difference

__all__ = ["FOLD_VERSION", "from_text", "to_text"]

FOLD_VERSION = 13
"""Version of the saved states of all folds; increased when a field changes."""
_MARK = "\0"
"""A key that no record can contain; its value is the type of the value beside it."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_text(state: Mapping[str, Any]) -> str:
    """The state of a fold: nested dicts, counters, lists, texts, numbers, bytes, times, int32 and int64 arrays."""
    return json.dumps(_packed(state), ensure_ascii=False, separators=(",", ":"))


def from_text(text: str) -> dict[str, Any]:
    """The inverse of `to_text`. Raises `CaptureError` if the text is damaged."""
    try:
        state: dict[str, Any] = _unpacked(json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        words = f"the saved state of a group is damaged ({error})"
        raise CaptureError(f"{words}; to audit from the start, give another --out") from error
    return state


def _packed(value: Any) -> Any:
    if isinstance(value, Counter):
        return {_MARK: "counter", "of": sorted(value.items())}
    if isinstance(value, Mapping):
        return {key: _packed(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(one) for one in value]
    if isinstance(value, bytes):
        return {_MARK: "bytes", "of": b64encode(value).decode()}
    if isinstance(value, datetime):
        return {_MARK: "time", "of": (value - _EPOCH) // _MICROSECOND}
    if isinstance(value, np.ndarray):
        return {_MARK: value.dtype.str, "of": b64encode(np.ascontiguousarray(value).tobytes()).decode()}
    if isinstance(value, Difference):
        return {_MARK: "difference", "of": _packed(astuple(value))}
    return value


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(one) for one in value]
    if not isinstance(value, dict):
        return value
    if _MARK not in value:
        return {key: _unpacked(one) for key, one in value.items()}
    kind, of = value[_MARK], value["of"]
    if kind == "bytes":
        return b64decode(of)
    if kind == "time":
        return _EPOCH + of * _MICROSECOND
    if kind == "counter":
        return Counter({tuple(key) if isinstance(key, list) else key: n for key, n in of})
    if kind == "difference":
        return Difference(*_unpacked(of))
    return np.frombuffer(b64decode(of), np.dtype(kind)).copy()
