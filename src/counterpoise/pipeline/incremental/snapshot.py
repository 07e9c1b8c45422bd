"""What a capture holds in short, and whether it is still the one that the last update read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.columns import OFFSETS_TOPIC
from counterpoise.pipeline.capture.series import STATE_KEY
from counterpoise.pipeline.fold.ends_file import END, TIME, EndsFile
from counterpoise.pipeline.incremental.saved import ClusterState
from counterpoise.pipeline.scan.aggregation import NEVER
from counterpoise.pipeline.source.capture import CaptureFiles
from counterpoise.pipeline.source.parquet_rows import time_spans
from counterpoise.pipeline.storage.files import file_infos, parquet_footers, read_bytes

__all__ = [
    "SETTLED",
    "changed_files",
    "check_same_capture",
    "files_of",
    "first_record",
    "read_until",
    "recreated",
    "settled_until",
    "topic_ids_of",
]

SETTLED = timedelta(seconds=60) // timedelta(microseconds=1)
"""A sample of log ends that is so much older than the newest record has all its commits: records are written within seconds."""
_ANEW = "to audit anew, give another --out"
FileMarks = dict[str, list[int]]


def files_of(files: CaptureFiles) -> FileMarks:
    """The files of records and samples: size, and time of the last change in nanoseconds."""
    found = {}
    for file in (*files.records, *files.ends):
        about = file_infos(file)[file]
        found[file] = [about.size, about.mtime_ns]
    return found


def changed_files(files: CaptureFiles, was: Mapping[str, Sequence[int]], now: Mapping[str, Sequence[int]]) -> CaptureFiles:
    """The same without files of records that the last update has read as they are."""
    records = tuple(file for file in files.records if list(was.get(file, ())) != list(now[file]))
    return CaptureFiles(records, files.ends, files.topics, files.aborted)


def first_record(files: CaptureFiles) -> int | None:
    """The time of the earliest record, in microseconds, by the statistics of the files; None if they do not say."""
    spans = [span for file in files.records for span in time_spans(file, "timestamp")]
    known = [span[0] for span in spans if span is not None]
    return min(known, default=None) if len(known) == len(spans) else None


def topic_ids_of(files: CaptureFiles) -> dict[str, Any]:
    """Topic -> its id at the end, as the capture's metadata has it."""
    about = {} if files.topics is None else json.loads(read_bytes(files.topics))
    return {topic: one.get("topic_id") for topic, one in sorted(about.items())}


def read_until(files: CaptureFiles, positions: Mapping[str, int]) -> dict[str, int]:
    """Log partition -> the offset up to which the recording has come, which may lie behind records that no reader sees.

    Parameters
    ----------
    files : CaptureFiles
        Their footers hold the positions of `counterpoise capture`, if that wrote them.
    positions : mapping
        Log partition -> the offset after the last record that was read.
    """
    found = dict(positions)
    for about in parquet_footers(files.records):
        state = json.loads((about.metadata or {}).get(STATE_KEY, b"{}"))
        for index, offset in state.get(OFFSETS_TOPIC, {}).items():
            found[index] = max(int(offset), found.get(index, 0))
    return found


def settled_until(ends: EndsFile, positions: Mapping[str, int], newest: int | None, before: int | None) -> int | None:
    """Up to when all is known, in microseconds: the last sample of log ends whose commits have all been read.

    If the ends of the offsets topic itself are sampled, they say which: all records up to them have been read. Otherwise a sample
    that is 60 seconds older than the newest record has its commits. Either way so much time must pass, because clocks differ.
    Without samples it is the time 60 seconds before the newest record. The result is never before `before`.

    Parameters
    ----------
    ends : EndsFile
    positions : mapping
        Log partition -> the offset after the last record that was read.
    newest : int, optional
        The time of the newest record.
    before : int, optional
        What this gave last.
    """
    if not len(ends.instants):
        times = [one for one in (before, None if newest is None else newest - SETTLED) if one is not None]
        return max(times, default=None)
    rows, first_missing, sampled = ends.rows(), NEVER, False
    for at, (topic, partition) in enumerate(ends.logs):
        if topic == OFFSETS_TOPIC:
            sampled = True
            mine = rows[ends.first[at] : ends.first[at] + ends.count[at]]
            beyond = np.flatnonzero(mine[:, END] > positions.get(str(partition), 0))
            if len(beyond):
                first_missing = min(first_missing, int(mine[beyond[0], TIME]))
    now = int(ends.instants[-1]) if sampled else -NEVER
    now = now if newest is None else max(now, newest)
    known = ends.instants[(ends.instants < first_missing) & (ends.instants <= now - SETTLED)]
    found = [one for one in (before, int(known[-1]) if len(known) else None) if one is not None]
    return max(found, default=None)


def recreated(was: ClusterState, now: ClusterState) -> bool:
    """Whether a topic was created again, and final rows of lag were made with the wrong one of its two ids.

    They were not if metadata and log ends show it at the same time.
    """
    for topic in was.lives.keys() & now.lives.keys() & was.topics.keys() & now.topics.keys():
        other_id, other_life = was.topics[topic] != now.topics[topic], was.lives[topic] != now.lives[topic]
        if other_id != other_life:
            return True
    return False


def check_same_capture(
    cluster: str, was: ClusterState, still: bool, manifests: Iterable[Mapping[str, Any]], first_time: int | None
) -> None:
    """Whether the records that were scanned come after those that the last update read, and none is missing between.

    Parameters
    ----------
    cluster : str
    was : ClusterState
        How far the last update came.
    still : bool
        Some of the files that it read are still there as they were.
    manifests : iterable of mapping
        Of the scan tasks.
    first_time : int, optional
        The earliest time of the new records, in microseconds.

    Raises
    ------
    CaptureError
    """
    about = list(manifests)
    for partition, offset, time in (found for one in about for found in one["was"]):
        if was.stamps.get(str(partition)) != time:
            raise CaptureError(_other(cluster, f"log partition {partition} holds another record at offset {offset}"))
    if not still and was.positions:
        _check_nothing_lost(cluster, was, about, first_time)


def _check_nothing_lost(cluster: str, was: ClusterState, manifests: Sequence[Mapping[str, Any]], first_time: int | None) -> None:
    """The same for a capture none of whose files has been read before."""
    old = any(one["old"] for one in manifests)
    last: dict[int, int] = {}
    for partition, offset, _ in (found for one in manifests for found in one["last"]):
        last[partition] = max(offset, last.get(partition, -1))
    firsts: dict[int, int] = {}
    for partition, first, end in (span for one in manifests for _, spans in one["cuts"] for span in spans):
        if first <= end:
            firsts[partition] = min(first, firsts.get(partition, first))
    for index, position in sorted(was.positions.items()):
        if last.get(int(index), -1) < position - 1 and (old or not firsts):
            raise CaptureError(_other(cluster, f"log partition {index} ends before offset {position - 1}"))
    if old or first_time is None or was.end is None or first_time <= was.end:
        return
    for partition, first in sorted(firsts.items()):
        position = was.positions.get(str(partition), 0)
        if first > position:
            raise CaptureError(
                f"--since last: the capture of cluster {cluster} dropped records before they were audited (log partition "
                f"{partition}: offsets {position} to {first - 1}); to audit anew what is left, give another --out; "
                "a longer --keep-days of the capture prevents it"
            )


def _other(cluster: str, words: str) -> str:
    return f"--since last: the capture of cluster {cluster} is not the one of the last audit ({words}); {_ANEW}"
