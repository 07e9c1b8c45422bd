"""A synthetic fleet, written as a capture folder by slices of time: the same files as `counterpoise capture` writes."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.errors import OptionError
from counterpoise.model.problem import Int64
from counterpoise.pipeline.capture.columns import (
    ABORTED_FILE,
    ARROW,
    ENDS_FILE,
    OFFSETS_TOPIC,
    RECORDS_FILE,
    SAMPLES,
    TOPICS_FILE,
)
from counterpoise.pipeline.storage.files import absolute, join, list_folder, parquet_writer, storage_errors, write_bytes
from counterpoise.pipeline.synthetic.commits import Commits, CommitTimeline, spans
from counterpoise.pipeline.synthetic.fleet import Fleet, GroupPlan, TopicPlan, draw_groups, draw_topics
from counterpoise.pipeline.synthetic.group_records import group_records
from counterpoise.pipeline.synthetic.lives import Step, life
from counterpoise.wire.offsets_topic.values import uuid_text

__all__ = ["LOG_PARTITIONS", "Written", "log_partition", "synthesize", "write_capture"]

LOG_PARTITIONS = 50
_SLICE = 400_000


@dataclass(frozen=True)
class Written:
    """Numbers of all records, of commits and their tombstones, of rebalances and of groups."""

    records: int
    commits: int
    rebalances: int
    groups: int


def synthesize(fleet: Fleet, out: str | Path, progress: Callable[[float], None] | None = None) -> Written:
    """Write the capture of a fleet to `out`: records, log ends, topics, no aborted offsets, and ``planted.json``.

    `out` is a new or empty folder, a path or URI; ``progress(share)`` is called after each slice. Equal fleets give equal bytes.
    Memory is O(groups and rebalances). Raises `OptionError` if the folder is not empty, and `StorageError` if it cannot be
    written.
    """
    topics = draw_topics(fleet)
    return write_capture(fleet, topics, draw_groups(fleet, topics), out, progress)


def write_capture(
    fleet: Fleet,
    topics: list[TopicPlan],
    plans: list[GroupPlan],
    out: str | Path,
    progress: Callable[[float], None] | None = None,
) -> Written:
    """`synthesize` for given topics and groups."""
    place = absolute(out)
    if list_folder(place):
        raise OptionError(f"{out}: holds something already; give a new folder")
    planted, records, timelines = [], [], []
    for plan in plans:
        steps = list(life(fleet, plan, topics))
        where = log_partition(plan.name)
        records += [(at, where, key, value) for at, key, value in group_records(plan, topics, steps)]
        timelines.append(spans(fleet, plan, sum(topics[at].partitions for at in plan.topics), steps))
        planted.append(_planted(plan, steps))
    records.sort(key=lambda record: record[0])
    commits = Commits(fleet, topics, plans)
    written = _write_records(join(place, RECORDS_FILE), fleet, plans, records, commits, timelines, progress)
    _write_log_ends(join(place, ENDS_FILE), fleet, topics)
    about = {one.name: {"internal": False, "partitions": one.partitions, "topic_id": uuid_text(one.topic_id)} for one in topics}
    texts = {TOPICS_FILE: json.dumps(about, indent=1) + "\n", ABORTED_FILE: "[]\n"}
    for name, text in {**texts, "planted.json": json.dumps({"groups": planted}, indent=1) + "\n"}.items():
        write_bytes(join(place, name), text.encode())
    return Written(written[0], written[1], sum(plan.rebalances for plan in plans), len(plans))


def log_partition(group: str, partitions: int = LOG_PARTITIONS) -> int:
    """The partition of a group in the offsets topic: the absolute value of Java's hash of its name, modulo `partitions`."""
    value = 0
    for unit in np.frombuffer(group.encode("utf-16-be"), ">u2").tolist():
        value = (31 * value + unit) & 0xFFFFFFFF
    return min(value, 2**32 - value) % 2**31 % partitions


def _planted(plan: GroupPlan, steps: list[Step]) -> dict[str, Any]:
    kinds = [step.kind for step in steps]
    return {
        "group": plan.name,
        "protocol": plan.protocol,
        "library": plan.library,
        "rebalances": kinds.count("rebalance"),
        "followups": kinds.count("followup"),
        "static_replacements": kinds.count("replaced"),
        "storm": plan.storm,
        "deleted": plan.deleted,
    }


def _write_records(
    file: str,
    fleet: Fleet,
    plans: list[GroupPlan],
    others: list[tuple[int, int, bytes, bytes | None]],
    commits: Commits,
    timelines: list[CommitTimeline],
    progress: Callable[[float], None] | None,
) -> tuple[int, int]:
    where = np.repeat([log_partition(plan.name) for plan in plans], np.diff(commits.first)).astype(np.int32)
    slices = max(1, round(fleet.records / _SLICE))
    cuts = [*(fleet.start_ms + round(fleet.seconds * 1000 * at / slices) for at in range(slices)), fleet.end_ms + 60_000]
    ends = np.zeros(LOG_PARTITIONS, np.int64)
    total = n_commits = done = 0
    times = [time for time, *_ in others]
    with storage_errors(file), parquet_writer(file, ARROW, compression="zstd", write_page_checksum=True) as writer:
        for at, (begin, end) in enumerate(pairwise(cuts)):
            place, time, deleted = commits.between(timelines, begin, end)
            till, keys, values = bisect_left(times, end), commits.keys.take(pa.array(place)), commits.values(place, time, deleted)
            batch = _batch(others[done:till], where[place], keys, time, values, ends)
            writer.write_batch(batch)
            done, n_commits, total = till, n_commits + len(place), total + batch.num_rows
            if progress is not None:
                progress((at + 1) / slices)
    return total, n_commits


def _batch(
    others: list[tuple[int, int, bytes, bytes | None]],
    where: np.ndarray,
    keys: pa.Array,
    time: Int64,
    values: pa.Array,
    ends: Int64,
) -> pa.RecordBatch:
    """The records of one slice, sorted by partition and time; adds their numbers to `ends`."""
    partition = np.concatenate([where, np.array([one[1] for one in others], np.int32)])
    when = np.concatenate([time, np.array([one[0] for one in others], np.int64)])
    order = np.lexsort((when, partition))
    partition = partition[order]
    counts = np.bincount(partition, minlength=LOG_PARTITIONS)
    first = np.cumsum(counts) - counts
    offset = ends[partition] + np.arange(len(order)) - first[partition]
    ends += counts
    taken = pa.array(order)
    columns = [
        pa.concat_arrays([keys, pa.array([one[2] for one in others], pa.binary())]).take(taken),
        pa.concat_arrays([values, pa.array([one[3] for one in others], pa.binary())]).take(taken),
        pa.repeat(OFFSETS_TOPIC, len(order)),
        pa.array(partition, pa.int32()),
        pa.array(offset),
        pa.array(when[order] * 1000).cast(ARROW.field("timestamp").type),
        pa.array(np.zeros(len(order), np.int32)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)


def _write_log_ends(file: str, fleet: Fleet, topics: list[TopicPlan]) -> None:
    names = [topic.name for topic in topics for _ in range(topic.partitions)]
    partition = np.concatenate([np.arange(topic.partitions, dtype=np.int32) for topic in topics])
    base, rate = np.concatenate([topic.base for topic in topics]), np.concatenate([topic.rate for topic in topics])
    with storage_errors(file), parquet_writer(file, SAMPLES, compression="zstd", write_page_checksum=True) as writer:
        for second in np.arange(fleet.sample_every, fleet.seconds + 1, fleet.sample_every).tolist():
            ends = base + np.floor(rate * second).astype(np.int64)
            at = pa.array([(fleet.start_ms + round(second * 1000)) * 1000] * len(names), SAMPLES.field("sampled_at").type)
            columns = [pa.array(names), pa.array(partition), pa.array(base // 2), pa.array(ends), at]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=SAMPLES))
