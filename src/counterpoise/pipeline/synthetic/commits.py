"""The commits of a synthetic fleet as arrays, by slices of time: a member commits for the partitions that it owns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from counterpoise.model.arrays import ranks_in_runs
from counterpoise.model.problem import UNOWNED, Int32, Int64
from counterpoise.pipeline.synthetic.fleet import Fleet, GroupPlan, TopicPlan
from counterpoise.pipeline.synthetic.lives import Step
from counterpoise.wire.offsets_topic import OffsetKey, RecordType, encode_key
from counterpoise.wire.offsets_topic.batch_write import EXPIRING, WITH_ID, commit_values

__all__ = ["Commits", "Spans", "spans"]

_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Spans:
    """The times of one group's commits: from ``begin[i]`` to ``end[i]``, at ``phase[i]`` of each interval.

    `phase` has int32[P] arrays, -1 for partitions without an owner. `gone_ms`: the time when the offsets are deleted.
    """

    interval_ms: int
    begin: tuple[int, ...]
    end: tuple[int, ...]
    phase: tuple[Int32, ...]
    gone_ms: int | None


def spans(fleet: Fleet, plan: GroupPlan, partitions: int, steps: Sequence[Step]) -> Spans:
    """The spans between a group's steps: an eager group does not commit from the begin of a step to its end."""
    over = fleet.start_ms + round(fleet.seconds * 1000)
    if not steps:
        phase = np.full(partitions, fleet.chance(3, plan.number).integers(plan.interval_ms), np.int32)
        return Spans(plan.interval_ms, (fleet.start_ms,), (over,), (phase,), None)
    eager = plan.protocol not in ("cooperative-sticky", "server")
    ends = [(after.begin_ms if eager and after.kind == "rebalance" else after.at_ms) for after in steps[1:]]
    gone = steps[-1].at_ms + 29_500 if steps[-1].kind == "emptied" else None
    return Spans(
        plan.interval_ms,
        tuple(step.at_ms for step in steps),
        (*ends, over if gone is None else steps[-1].at_ms),
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
        keys = []
        base, rate, ids, version = [], [], [], []
        for plan, size in zip(plans, sizes, strict=True):
            for at in plan.topics:
                topic = topics[at]
                base.append(topic.base)
                rate.append(topic.rate)
                ids += [topic.topic_id if plan.number % 3 else bytes(16)] * topic.partitions
                keys += [_key(plan.name, topic.name, partition) for partition in range(topic.partitions)]
            version.append(np.full(size, plan.version, np.int16))
        self.keys = pa.array(keys, pa.binary())
        self._base, self._rate, self._version = np.concatenate(base), np.concatenate(rate), np.concatenate(version)
        self._ids = np.frombuffer(b"".join(ids), np.uint8).reshape(-1, 16)
        chance = fleet.chance(4)
        delay, slow = chance.uniform(0.05, 3.0, len(plans)), np.where(chance.random(len(plans)) < 0.05, 0.3, 0.0)
        self._delay, self._slow = np.repeat(delay, sizes), np.repeat(slow, sizes)

    def between(self, groups: Sequence[Spans], begin: int, end: int) -> tuple[Int64, Int64, Int64]:
        """(index into `keys`, time in ms, 1 for a tombstone) of the commits in a slice of time."""
        places, times = [], []
        gone_at, gone_ms = [], []
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
        live = sum(len(one) for one in places)
        place = np.concatenate([np.zeros(0, np.int64), *places, *gone_at])
        time = np.concatenate([np.zeros(0, np.int64), *times, *gone_ms])
        deleted = np.zeros(len(place), np.int64)
        deleted[live:] = 1
        return place, time, deleted

    def values(self, place: Int64, time: Int64, deleted: Int64) -> pa.Array:
        """The values of commits; null for tombstones."""
        since = (time - self._start_ms) / 1000.0
        seen = since - self._delay[place] - self._slow[place] * since
        offset = np.maximum(0, self._base[place] + np.floor(self._rate[place] * seen)).astype(np.int64)
        version = self._version[place]
        expires = np.where(version == EXPIRING, time + 7 * _DAY_MS, -1)
        ids = np.where((version == WITH_ID)[:, None], self._ids[place], np.uint8(0))
        offsets, data = commit_values(version, offset, time, np.zeros(len(place), np.int32), expires, ids)
        wide = offsets.dtype == np.int64
        kind = pa.LargeBinaryArray if wide else pa.BinaryArray
        values = kind.from_buffers(
            pa.large_binary() if wide else pa.binary(), len(place), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
        if not deleted.any():
            return values
        return pa.compute.if_else(pa.array(deleted == 1), pa.scalar(None, values.type), values)


def _ticks(phase: Int32, begin: int, end: int, interval: int) -> tuple[Int64, Int64]:
    """Partition and time of all commits from `begin` to before `end`."""
    own = phase.astype(np.int64)
    first = -((own - begin) // interval)
    count = np.where(own < 0, 0, -((own - end) // interval) - first)
    place = np.repeat(np.arange(len(own)), count)
    return place, own[place] + (first[place] + ranks_in_runs(count)) * interval


def _key(group: str, topic: str, partition: int) -> bytes:
    return encode_key(RecordType.OFFSET_COMMIT, OffsetKey(group, topic, partition))
