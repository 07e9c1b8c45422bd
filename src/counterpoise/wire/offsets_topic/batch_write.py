"""Values of many offset commits as bytes, in vectorised steps: the counterpart of `batch` for ordinary commits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.errors import WireError
from counterpoise.wire.columns import Int16, Int32, Int64, UInt8, windows

__all__ = ["EXPIRING", "PLAIN", "WITH_ID", "commit_values"]

EXPIRING, PLAIN, WITH_ID = 1, 3, 4
"""Versions that are written here: with an expiry, as Kafka 2.1 to 4.0 writes it, and the newest (with the topic's id, if any)."""

_HEAD = [("version", ">i2"), ("offset", ">i8")]
_FORMS: dict[tuple[int, bool], np.dtype[np.void]] = {
    (EXPIRING, False): np.dtype([*_HEAD, ("metadata", ">i2"), ("commit_timestamp", ">i8"), ("expire_timestamp", ">i8")]),
    (PLAIN, False): np.dtype([*_HEAD, ("leader_epoch", ">i4"), ("metadata", ">i2"), ("commit_timestamp", ">i8")]),
    (WITH_ID, False): np.dtype(
        [*_HEAD, ("leader_epoch", ">i4"), ("metadata", "u1"), ("commit_timestamp", ">i8"), ("tags", "u1")]
    ),
    (WITH_ID, True): np.dtype(
        [*_HEAD, ("leader_epoch", ">i4"), ("metadata", "u1"), ("commit_timestamp", ">i8"), ("tags", "V3"), ("topic_id", "V16")]
    ),
}
_TAGS: dict[tuple[int, bool], object] = {(WITH_ID, False): 0, (WITH_ID, True): np.void(b"\x01\x00\x10")}


def commit_values(
    version: Int16, offset: Int64, commit_timestamp: Int64, leader_epoch: Int32, expire_timestamp: Int64, topic_id: UInt8
) -> tuple[Int32 | Int64, UInt8]:
    """The values of n commits without metadata, end to end.

    Parameters
    ----------
    version : int16[n]
        1, 3 or 4.
    offset, commit_timestamp, expire_timestamp : int64[n]
        `expire_timestamp` counts in version 1 only.
    leader_epoch : int32[n]
        Counts from version 3 on.
    topic_id : uint8[n, 16]
        Counts in version 4; zero: none, and no tagged field is written.

    Returns
    -------
    offsets, data
        As an Arrow binary array has them (int64 offsets from 2 GiB on).

    Raises
    ------
    WireError
        Another version.
    """
    has_id = (version == WITH_ID) & topic_id.any(axis=1)
    form = version.astype(np.int32) * 2 + has_id
    unknown = ~np.isin(version, (EXPIRING, PLAIN, WITH_ID))
    if unknown.any():
        raise WireError(0, "version", f"{int(version[unknown][0])} is not written here (1, 3 and 4 are)")
    columns: dict[str, npt.NDArray[Any]] = {
        "version": version,
        "offset": offset,
        "commit_timestamp": commit_timestamp,
        "leader_epoch": leader_epoch,
        "expire_timestamp": expire_timestamp,
        "topic_id": np.ascontiguousarray(topic_id).view("V16").reshape(-1),
    }
    size = np.zeros(2 * (WITH_ID + 1), np.int64)
    for (number, tagged), layout in _FORMS.items():
        size[2 * number + tagged] = layout.itemsize
    starts = np.zeros(len(version) + 1, np.int64)
    np.cumsum(size[form], out=starts[1:])
    data = np.empty(int(starts[-1]), np.uint8)
    for (number, tagged), layout in _FORMS.items():
        rows = np.flatnonzero(form == 2 * number + tagged)
        if len(rows):
            filled = _filled(layout, columns, rows, _TAGS.get((number, tagged)), number)
            windows(data, np.dtype(f"V{layout.itemsize}"))[starts[rows]] = filled.view(f"V{layout.itemsize}")
    fits = int(starts[-1]) <= np.iinfo(np.int32).max
    return (starts.astype(np.int32) if fits else starts), data


def _filled(
    layout: np.dtype[np.void], columns: dict[str, npt.NDArray[Any]], rows: Int64, tags: object, version: int
) -> npt.NDArray[np.void]:
    result = np.zeros(len(rows), layout)
    for name in layout.names or ():
        if name in columns:
            result[name] = columns[name][rows]
    result["metadata"] = 1 if version >= WITH_ID else 0  # compact strings count from one
    if tags is not None:
        result["tags"] = tags
    return result
