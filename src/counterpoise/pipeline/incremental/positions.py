"""The files, positions and watermark of a capture, and the check that it is the one of the last audit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import chain, groupby
from typing import Any

import numpy as np

from counterpoise.errors import CaptureError
from counterpoise.pipeline.arrays import NEVER
from counterpoise.pipeline.capture.columns import OFFSETS_TOPIC
from counterpoise.pipeline.capture.series import STATE_KEY
from counterpoise.pipeline.fold.ends_file import END, TIME, EndsFile
from counterpoise.pipeline.incremental.saved import START_AGAIN, ClusterState
from counterpoise.pipeline.records.place import POLLED
from counterpoise.pipeline.source.capture import CaptureFiles
from counterpoise.pipeline.source.parquet_rows import first_time, time_spans
from counterpoise.pipeline.storage.files import file_infos, is_local, parquet_footers

__all__ = ["check_same_capture", "files_of", "first_record", "read_until", "recreated", "watermark_of"]

_DELAY = timedelta(seconds=60) // timedelta(microseconds=1)
"""60 s in microseconds. Commits are written within seconds, so no record that comes later than this is older than the sample."""


def files_of(files: CaptureFiles) -> dict[str, list[int]]:
    """Files of records and samples: size, and time of the last change in nanoseconds.

    A folder on an object store is listed by one request, with all folders in it. A folder with only one or two files is not:
    these may be the files of a capture beside the tables of its audits.
    """
    places, infos = (*files.records, *files.ends), dict[str, Any]()
    for folder, inside in groupby(places, key=lambda file: file.rpartition("/")[0]):
        mine = list(inside)
        for place in mine if is_local(folder) or len(mine) <= 2 else [folder]:
            infos |= file_infos(place)
    return {file: [infos[file].size, infos[file].mtime_ns] for file in places}


def first_record(files: CaptureFiles) -> int | None:
    """The time of the earliest record, in microseconds, by the statistics of the files; None if a file has none."""
    return first_time(chain.from_iterable(time_spans(files.records, "timestamp")))


def read_until(files: Sequence[str], positions: Mapping[int, int], before: Mapping[int, int]) -> dict[int, int]:
    """Log partition -> the next offset to read. It may exceed `positions`: markers and aborted records are not delivered.

    `positions`: log partition -> the offset after the last record that was read; `before`: the result of the last audit. `files`
    of records that `counterpoise capture` wrote have positions in their footers.
    """
    recorded = dict(before)
    states = (json.loads((about.metadata or {}).get(STATE_KEY, b"{}")) for about in parquet_footers(files))
    for known in (positions, *(state.get(OFFSETS_TOPIC, {}) for state in states)):
        for index, offset in known.items():
            recorded[int(index)] = max(int(offset), recorded.get(int(index), 0))
    return recorded


def watermark_of(ends: EndsFile, positions: Mapping[int, int], newest: int | None, before: int | None) -> int | None:
    """The watermark, in microseconds: the time of the newest sample whose earlier records have all been read.

    If the offsets topic is sampled, and was recorded without polls, these are the records below its sampled ends. Otherwise the
    sample must be 60 seconds older than the newest record. In both cases 60 seconds must have passed, because clocks differ.
    Without samples the watermark is 60 seconds before the newest record. It is at least `before`, that of the last audit.

    `positions`: log partition -> the offset after the last record that was read; `newest`: the time of the newest record.
    """
    if not len(ends.instants):
        times = [one for one in (before, None if newest is None else newest - _DELAY) if one is not None]
        return max(times, default=None)
    rows, first_missing, sampled = ends.rows(), NEVER, False
    recorded = POLLED not in positions
    for at, (topic, partition) in enumerate(ends.logs):
        if topic == OFFSETS_TOPIC and recorded:
            sampled = True
            mine = rows[ends.first[at] : ends.first[at] + ends.count[at]]
            beyond = np.flatnonzero(mine[:, END] > positions.get(partition, 0))
            if len(beyond):
                first_missing = min(first_missing, int(mine[beyond[0], TIME]))
    now = int(ends.instants[-1]) if sampled else -NEVER
    now = now if newest is None else max(now, newest)
    known = ends.instants[(ends.instants < first_missing) & (ends.instants <= now - _DELAY)]
    return max((one for one in (before, int(known[-1]) if len(known) else None) if one is not None), default=None)


def recreated(last: ClusterState, now: ClusterState) -> bool:
    """Whether metadata and log ends show the recreation of a topic in different audits: then final rows may have a wrong id."""
    topics = last.lives.keys() & now.lives.keys() & last.topics.keys() & now.topics.keys()
    return any((last.topics[one] != now.topics[one]) != (last.lives[one] != now.lives[one]) for one in topics)


def check_same_capture(
    cluster: str,
    last: ClusterState,
    some_unchanged: bool,
    manifests: Sequence[Mapping[str, Any]],
    first_time: int | None,
    deleted_before: float,
) -> None:
    """Check that the scanned records follow those of the last audit without a gap. Raises `CaptureError` if not.

    `last` is the state of the last audit; `some_unchanged`: some of its files did not change; `manifests` are those of the scan
    tasks; `first_time` is the earliest time of the new records, in microseconds; `deleted_before` as in `Capture`.
    """
    for partition, offset, time in (place for one in manifests for place in one["before_begin"]):
        if last.stamps.get(partition) != time:
            raise CaptureError(_other(cluster, f"log partition {partition} holds another record at offset {offset}"))
    if some_unchanged or not last.positions:
        return
    skipped = any(one["skipped"] for one in manifests)
    newest: dict[int, int] = {}
    for partition, offset, _ in (place for one in manifests for place in one["last"]):
        newest[partition] = max(offset, newest.get(partition, -1))
    firsts: dict[int, int] = {}
    for partition, first, end in (span for one in manifests for _, spans in one["flushes"] for span in spans):
        if first <= end:
            firsts[partition] = min(first, firsts.get(partition, first))
    for partition, position in sorted(last.positions.items()):
        deleted = 0 <= last.stamps.get(partition, -1) < deleted_before * 10**6  # --keep-days may have deleted its last record
        if not deleted and newest.get(partition, -1) < position - 1 and (skipped or not firsts):
            raise CaptureError(_other(cluster, f"log partition {partition} ends before offset {position - 1}"))
    if skipped or first_time is None or last.end is None or first_time <= last.end:
        return
    for partition, first in sorted(firsts.items()):
        position = last.read.get(partition, 0)
        if first > position:
            raise CaptureError(
                f"--since last: the capture of cluster {cluster} dropped records before they were audited (log partition "
                f"{partition}: offsets {position} to {first - 1}); to audit what is left, give another --out; keep them longer "
                "(capture --keep-days)"
            )


def _other(cluster: str, words: str) -> str:
    return f"--since last: the capture of cluster {cluster} is not the one of the last audit ({words}); {START_AGAIN}"
