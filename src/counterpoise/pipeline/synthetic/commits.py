"""The commits of a synthetic fleet as arrays, by slices of time: a member commits for the partitions that it owns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.arrays import ranks_in_runs
from counterpoise.model.problem import UNOWNED, Int32, Int64
from counterpoise.pipeline.arrays import Bool
from counterpoise.pipeline.synthetic.fleet import Fleet, GroupPlan, TopicPlan
from counterpoise.pipeline.synthetic.lives import Step
from counterpoise.wire.offsets_topic.keys import OffsetKey, RecordType, encode_key
from counterpoise.wire.offsets_topic.records import encode_value
from counterpoise.wire.offsets_topic.values import OffsetCommitValue

__all__ = ["CommitTimeline", "Commits", "spans"]

_WEEK_MS = 7 * 86_400_000
_OFFSET, _TIME, _EXPIRY = 0x1112131415161718, 0x2122232425262728, 0x3132333435363738
"""In the pattern of a value they stand for the offset of a commit, its time and its expiry."""


@dataclass(frozen=True)
class CommitTimeline:
    """The times of one group's commits: from ``begin[i]`` to ``end[i]``, at ``phase[i]`` of each interval.

    `phase` has int32[P] arrays, -1 for partitions without an owner. `gone_ms`: the time when the offsets are deleted.
    """

    interval_ms: int
    begin: tuple[int, ...]
    end: tuple[int, ...]
    phase: tuple[Int32, ...]
    gone_ms: int | None


def spans(fleet: Fleet, plan: GroupPlan, partitions: int, steps: Sequence[Step]) -> CommitTimeline:
    """The spans between a group's steps: an eager group does not commit from the begin of a step to its end."""
    if not steps:
        phase = np.full(partitions, fleet.chance(3, plan.number).integers(plan.interval_ms), np.int32)
        return CommitTimeline(plan.interval_ms, (fleet.start_ms,), (fleet.end_ms,), (phase,), None)
    eager = plan.protocol not in ("cooperative-sticky", "server")
    ends = [(after.begin_ms if eager and after.kind == "rebalance" else after.at_ms) for after in steps[1:]]
    gone = steps[-1].at_ms + 29_500 if steps[-1].kind == "emptied" else None
    return CommitTimeline(
        plan.interval_ms,
        tuple(step.at_ms for step in steps),
        (*ends, fleet.end_ms if gone is None else steps[-1].at_ms),
        tuple(_phases(plan, step) for step in steps),
        gone,
    )


def _phases(plan: GroupPlan, step: Step) -> Int32:
    """The phase of each partition: a member commits all its partitions at once, at a time within the interval by its id."""
    of_member = [int(person.member[-8:], 16) % plan.interval_ms for person in step.people]
    return np.array([*of_member, UNOWNED], np.int32)[step.owner]


class Commits:
    """All commits of the fleet, computed by slices of time. Memory is O(partitions and groups)."""

    def __init__(self, fleet: Fleet, topics: list[TopicPlan], plans: list[GroupPlan]) -> None:
        self._start_ms = fleet.start_ms
        sizes = [sum(topics[at].partitions for at in plan.topics) for plan in plans]
        self.first: Int64 = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        keys, base, rate, patterns = [], [], [], []
        for plan in plans:
            for at in plan.topics:
                topic = topics[at]
                base.append(topic.base)
                rate.append(topic.rate)
                topic_id = topic.topic_id if plan.number % 3 else bytes(16)
                patterns += [_value(topic_id, plan.version)] * topic.partitions
                named = (OffsetKey(plan.name, topic.name, partition) for partition in range(topic.partitions))
                keys += [encode_key(RecordType.OFFSET_COMMIT, one) for one in named]
        self.keys = pa.array(keys, pa.binary())
        self._base, self._rate = np.concatenate(base), np.concatenate(rate)
        self._size = np.array([len(one) for one in patterns])
        self._pattern = np.array(patterns, f"S{self._size.max()}").view(np.uint8).reshape(len(patterns), -1)
        self._number_at = [
            np.array([one.find(number.to_bytes(8, "big")) for one in patterns]) for number in (_OFFSET, _TIME, _EXPIRY)
        ]
        chance = fleet.chance(4)
        delay, slow = chance.uniform(0.05, 3.0, len(plans)), np.where(chance.random(len(plans)) < 0.05, 0.3, 0.0)
        self._delay, self._slow = np.repeat(delay, sizes), np.repeat(slow, sizes)

    def between(self, groups: Sequence[CommitTimeline], begin: int, end: int) -> tuple[Int64, Int64, Bool]:
        """(index into `keys`, time in ms, whether it is a tombstone) of the commits in a slice of time."""
        places, times, gone_at, gone_ms = [], [], [], []
        for number, of in enumerate(groups):
            for first, last, phase in zip(of.begin, of.end, of.phase, strict=True):
                if first < end and last > begin:
                    place, time = _ticks(phase, max(first, begin), min(last, end), of.interval_ms)
                    places.append(place + self.first[number])
                    times.append(time)
            if of.gone_ms is not None and begin <= of.gone_ms < end:
                whole = np.arange(self.first[number], self.first[number + 1])
                gone_at.append(whole)
                gone_ms.append(np.full(len(whole), of.gone_ms, np.int64))
        none = np.zeros(0, np.int64)
        place, time = np.concatenate([none, *places, *gone_at]), np.concatenate([none, *times, *gone_ms])
        return place, time, np.arange(len(place)) >= sum(map(len, places))

    def values(self, place: Int64, time: Int64, deleted: Bool) -> pa.Array:
        """The values of commits; null for tombstones."""
        since = (time - self._start_ms) / 1000.0
        seen = since - self._delay[place] - self._slow[place] * since
        offset = np.maximum(0, self._base[place] + np.floor(self._rate[place] * seen)).astype(np.int64)
        rows, size = self._pattern[place], self._size[place]
        for of_place, numbers in zip(self._number_at, (offset, time, time + _WEEK_MS), strict=True):
            at = of_place[place]
            there = np.flatnonzero(at >= 0)
            rows[there[:, None], at[there, None] + np.arange(8)] = numbers[there].astype(">i8").view(np.uint8).reshape(-1, 8)
        starts = np.concatenate(([0], np.cumsum(size))).astype(np.int32)
        data = rows[np.arange(rows.shape[1]) < size[:, None]]
        values = pa.BinaryArray.from_buffers(pa.binary(), len(place), [None, pa.py_buffer(starts), pa.py_buffer(data)])
        return pc.if_else(pa.array(deleted), pa.scalar(None, values.type), values)


def _ticks(phase: Int32, begin: int, end: int, interval: int) -> tuple[Int64, Int64]:
    """Partition and time of all commits from `begin` to before `end`."""
    own = phase.astype(np.int64)
    first = -((own - begin) // interval)
    count = np.where(own < 0, 0, -((own - end) // interval) - first)
    place = np.repeat(np.arange(len(own)), count)
    return place, own[place] + (first[place] + ranks_in_runs(count)) * interval


@cache
def _value(topic_id: bytes, version: int) -> bytes:
    """The pattern of a commit's value."""
    value = OffsetCommitValue(
        offset=_OFFSET, leader_epoch=0, metadata="", commit_timestamp=_TIME, expire_timestamp=_EXPIRY, topic_id=topic_id
    )
    return encode_value(RecordType.OFFSET_COMMIT, value, version)
