"""States of folds as MessagePack, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, TypeVar

import msgspec
import numpy as np

from counterpoise.errors import CaptureError

__all__ = ["decode_state", "encode_state", "restored"]

T = TypeVar("T")

_ARRAY = 1
"""Extension type of arrays: their dtype and their bytes."""


def encode_state(state: Mapping[str, Any]) -> bytes:
    """A state: nested dicts, counters, lists, sets, dataclasses, texts, numbers, bytes, times with a zone, and arrays.

    Arrays come back with one dimension.
    """
    return msgspec.msgpack.encode(state, enc_hook=_packed)


def decode_state(data: bytes) -> dict[str, Any]:
    """The inverse of `encode_state`, but each `tuple` and `set` is a list, counters and dataclasses are dicts (see `restored`).

    Raises `CaptureError` if the state is damaged.
    """
    try:
        state: dict[str, Any] = _DECODER.decode(data)
    except (msgspec.MsgspecError, ValueError, TypeError, SyntaxError) as error:  # SyntaxError: a damaged dtype
        words = f"the saved state of a group is damaged ({error})"
        raise CaptureError(f"{words}; to audit from the start, give another --out") from error
    return state


def restored(new: T, state: Mapping[str, Any] | None) -> T:
    """A new object with the attributes (`vars`) of a saved one, if there is a state.

    Sets, counters and dataclasses are made from decoded values if the new object has one in that place.
    """
    for name, value in (state or {}).items():
        kind = type(vars(new)[name])
        made = kind(**value) if is_dataclass(kind) else kind(value) if issubclass(kind, Counter | set) else value
        vars(new)[name] = made
    return new


def _packed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        array = value.dtype.str, np.ascontiguousarray(value).tobytes()
        return msgspec.msgpack.Ext(_ARRAY, msgspec.msgpack.encode(array))
    raise NotImplementedError(f"{type(value).__name__} in a state")


def _unpacked(_code: int, data: memoryview) -> Any:
    kind, content = msgspec.msgpack.decode(data)
    return np.frombuffer(content, np.dtype(kind)).copy()


_DECODER = msgspec.msgpack.Decoder(dict, ext_hook=_unpacked)
