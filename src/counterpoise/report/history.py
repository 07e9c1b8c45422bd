"""One group's life as arrays: nested assignments flattened by Arrow, names numbered in sorted order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise.report.ribbons import Holdings, Ints

__all__ = ["GroupHistory", "LagNow", "LagSeries", "Row", "by_group", "history_of"]

Row = dict[str, Any]


def by_group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Group id -> its rows, in the order given."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row["group_id"]), []).append(row)
    return found


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """The steps of one group's life, oldest first, and who held what after each."""

    steps: list[Row]  # Rows of `rebalances` without the assignment; times in microseconds
    skipped: int  # Older steps that were not read
    members: list[tuple[str, str]]  # (member id, client id)
    present: list[Ints]  # Per step the codes of its members, whether they hold something or not
    partitions: list[tuple[str, int]]  # (topic, partition), sorted
    held: Holdings


@dataclass(frozen=True, slots=True)
class LagSeries:
    """Summed lag of a group per sample instant, and the last sample per owner (member id, None = nobody)."""

    at: Ints
    total: Ints
    owners: dict[str | None, int]


@dataclass(slots=True)
class LagNow:
    """A group's last sample: lag per owner (member id, None = nobody), the largest time lag of a partition; topics; samples."""

    owners: dict[str | None, int]
    seconds: float | None
    topics: list[str]
    samples: int  # About the length of its `LagSeries`

    def add(self, owner: str | None, lag: int, time_lag_ms: int | None) -> None:
        """Count partitions of `owner`, with their summed lag and their largest time lag."""
        self.owners[owner] = self.owners.get(owner, 0) + lag
        if time_lag_ms is not None:
            self.seconds = max(self.seconds or 0.0, time_lag_ms / 1000)


def history_of(steps: list[Row], skipped: int, assignment: Any) -> GroupHistory:
    """Flattens list<struct<member, list<struct<topic, list<int>>>>> by Arrow's own passes and numbers names in sorted order."""
    import pyarrow.compute as pc

    entry = pc.list_flatten(assignment)
    step_of_entry = _ints(pc.list_parent_indices(assignment))
    ids = pc.struct_field(entry, "member_id").dictionary_encode()
    member_of_entry = _ints(ids.indices)
    first = np.zeros(len(ids.dictionary), np.int64)
    first[member_of_entry[::-1]] = np.arange(len(ids))[::-1]  # of several entries of a member the first one stays
    clients = pc.struct_field(entry, "client_id").take(first).to_pylist()
    members = [(member, client or "") for member, client in zip(ids.dictionary.to_pylist(), clients, strict=True)]
    present = np.split(member_of_entry, np.searchsorted(step_of_entry, np.arange(1, len(steps))))

    assigned = pc.struct_field(entry, "assigned")
    pair = pc.list_flatten(assigned)
    entry_of_pair = _ints(pc.list_parent_indices(assigned))
    numbers = pc.struct_field(pair, "partitions")
    pair_of_number = _ints(pc.list_parent_indices(numbers))
    topics = pc.struct_field(pair, "topic").dictionary_encode()
    names = topics.dictionary.to_pylist()
    rank = np.argsort(np.argsort(np.array(names, dtype=object))) if names else np.zeros(0, np.int64)
    topic = rank[_ints(topics.indices)][pair_of_number]
    number = _ints(pc.list_flatten(numbers))
    low = min(int(number.min()), 0) if number.size else 0  # damaged records hold negative ones
    width = int(number.max()) + 1 - low if number.size else 1
    keys, partition = np.unique(topic * width + number - low, return_inverse=True)
    by_rank = sorted(names)
    held = Holdings(
        step_of_entry[entry_of_pair][pair_of_number], partition.astype(np.int64), member_of_entry[entry_of_pair][pair_of_number]
    )
    partitions = [(by_rank[key // width], key % width + low) for key in keys.tolist()]
    return GroupHistory(steps, skipped, members, present, partitions, held)


def _ints(array: Any) -> Ints:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.int64)
